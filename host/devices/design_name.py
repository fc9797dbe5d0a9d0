"""The design in a device's name."""

from __future__ import annotations

from muntin.host.errors import DeviceError

_OPTION = "design="


def split_design(which: str) -> tuple[str, str]:
    """A device's name without its part ``design=NAME``, which may stand behind any colon, and that name.

    Returns
    -------
    (str, str)
        The second is empty where no design is named.

    Raises
    ------
    DeviceError
        If two designs are named, or one without a name.
    """
    parts = which.split(":")
    named = [part.removeprefix(_OPTION) for part in parts if part.startswith(_OPTION)]
    if not named:
        return which, ""
    if len(named) > 1 or not named[0]:
        raise DeviceError(f"{which!r} must name one design, as in design=splitjoin")
    return ":".join(part for part in parts if not part.startswith(_OPTION)), named[0]
