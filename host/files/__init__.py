"""Tables in files: found, read in batches, interleaved by a sequence column, and written whole or not at all."""

from muntin.host.files.interleave import in_turns, interleave
from muntin.host.files.places import STANDARD
from muntin.host.files.table_reader import TableReader, refuse_replacing
from muntin.host.files.table_writer import TableWriter

__all__ = [
    "STANDARD",
    "TableReader",
    "TableWriter",
    "in_turns",
    "interleave",
    "refuse_replacing",
]
