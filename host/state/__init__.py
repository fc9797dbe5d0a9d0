"""State that outlives a process: a log of a join's calls in a store of files."""

from muntin.host.state.log import Record, StateLog
from muntin.host.state.store import LocalStore, ObjectStore, Store, check_place, local_folder, open_store

__all__ = [
    "LocalStore", "ObjectStore", "Record", "StateLog", "Store", "check_place", "local_folder", "open_store",
]  # fmt: skip
