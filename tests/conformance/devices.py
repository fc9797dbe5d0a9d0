"""The devices that the conformance suite holds to the contract. A new device is one more line in DEVICES."""

from dataclasses import dataclass

from tests.conformance.keys import KeyCase
from tests.conformance.windows import WindowCase


@dataclass(frozen=True)
class DeviceCase:
    """A device under test and what it can do; the suite leaves out what a device may refuse.

    Parameters
    ----------
    name
        What a user writes in ``device=``.
    max_window
        Rows that fit a window, None for more than any test needs.
    policies, forms
        Run policies and result forms it carries out.
    time_windows
        Whether it joins within time windows.
    key_bits
        Widest encoded key.
    """

    name: str
    max_window: int | None = None
    policies: tuple[str, ...] = ("ladder", "flat")
    forms: tuple[str, ...] = ("rows", "pairs", "counts")
    time_windows: bool = True
    key_bits: int = 64

    def may_refuse(self, policy: str, form: str, window: WindowCase, key: KeyCase) -> str | None:
        """Why the device need not carry out a query, or None where it must."""
        if policy not in self.policies:
            return f"no policy {policy}"
        if form not in self.forms:
            return f"no form {form}"
        if window.rows is None and not self.time_windows:
            return "no time windows"
        if self.max_window is not None and window.rows is not None and max(window.rows) > self.max_window:
            return f"windows of at most {self.max_window} rows"
        if key.bits > self.key_bits:
            return f"keys of at most {self.key_bits} bits"
        return None


DEVICES = [DeviceCase("numpy"), DeviceCase("opencl"), DeviceCase("sim:bisort-model")]
