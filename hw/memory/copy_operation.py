"""What the copy engine does with a run."""

import enum


class CopyOperation(enum.IntEnum):
    """What the copy engine does with a run."""

    COPY = 0
    """Read the source and write it to the destination."""
    READ = 1
    """Read the source and drop it."""
    FILL = 2
    """Write the numbers 0, 1, 2, ... to the destination, one a beat."""
