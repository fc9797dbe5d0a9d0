"""How commands end."""

from __future__ import annotations

import signal
import sys
import threading


def end_on_sigterm() -> None:
    """Has SIGTERM end the command as an error does, which removes what is half written."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
