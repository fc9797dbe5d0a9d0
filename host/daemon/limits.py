"""What a daemon allows; the one place that holds these defaults."""

from __future__ import annotations

from dataclasses import dataclass, fields

from muntin.host.errors import LimitError

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a daemon allows its clients.

    Parameters
    ----------
    max_message : int
        Bytes of one message: a frame's body on a Unix socket, a record batch over Flight. Results are cut to
        it too.
    max_staged : int
        Bytes of input that one query may hold before it is applied, over all its requests in progress.
    max_kept : int
        Bytes of memory for the newest result of a query; what is beyond lies in a temporary file.
    max_result : int
        Bytes of the result of one batch, in memory and in the file.
    max_queries : int
        Queries that may be open at once.
    max_connections : int
        Connections to the Unix socket at once; each costs a thread.
    result_rows : int
        Rows of one record batch of a result, at most.
    block_bytes : int
        Bytes of a result that are made before another query has its turn.
    idle_timeout : float
        Seconds without a byte after which a connection is closed, and its stage discarded.
    grace : float
        Seconds that requests in progress get to finish when the daemon is asked to stop.

    Raises
    ------
    LimitError
        A limit that is not positive.
    """

    max_message: int = 64 * MIB
    max_staged: int = 2048 * MIB
    max_kept: int = 64 * MIB
    max_result: int = 32 * 1024 * MIB
    max_queries: int = 64
    max_connections: int = 256
    result_rows: int = 131_072
    block_bytes: int = 4 * MIB
    idle_timeout: float = 900.0
    grace: float = 30.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise LimitError(f"{field.name} must be positive, not {getattr(self, field.name)!r}")


def check_message(size: int, limit: int, what: str) -> None:
    """Raise `LimitError` where a message of `size` bytes is above `limit`; for before it is allocated."""
    if size > limit:
        raise LimitError(
            f"{what} of {size:,} bytes is above the limit of {limit:,} bytes a message; "
            "send smaller record batches, or start the daemon with a larger --max-message"
        )
