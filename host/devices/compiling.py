"""Progress of a board's compilation."""

from __future__ import annotations

import sys
from types import TracebackType

from muntin.host.progress import Progress


class Compiling:
    """Shows how far the compilation of a board is; nothing where there is none. A context manager."""

    def __init__(self, what: str):
        self._what = what
        self._progress: Progress | None = None
        self._done = 0

    def tell(self, done: int, steps: int) -> None:
        """Takes the steps done, and how many there are; 1 until their number is known."""
        if not done:
            print(f"{self._what}: a minute or two", file=sys.stderr, flush=True)
            return
        if self._progress is None:
            self._progress = Progress(self._what, steps, "files")
        self._progress.advance(done - self._done)
        self._done = done

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.__exit__(kind, error, at)
