"""Hashes of tables and parameters: everything that matters changes them, and nothing else."""

import dataclasses

import pytest

from muntin.contract.designs import splitjoin
from muntin.contract.designs.bisort import BISORT, PRESETS, Parameters
from muntin.contract.designs.splitjoin import SPLITJOIN
from muntin.contract.registers import (
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    ErrorCode,
    Operation,
    parameter_hash,
    parameter_values,
    table_hash,
)


def test_the_same_tables_have_the_same_hash():
    assert table_hash(BISORT.registers(), Operation) == table_hash(tuple(BISORT.registers()), Operation)
    assert 0 < BISORT.layout_hash() < 1 << 32


@pytest.mark.parametrize("change", [{"offset": 0x800}, {"name": "OTHER"}, {"fields": ()}])
def test_a_changed_register_changes_the_hash(change):
    table = BISORT.registers()
    assert table_hash([dataclasses.replace(table[0], **change), *table[1:]]) != table_hash(table)


def test_a_changed_command_changes_the_hash():
    name, words, doc = COMMAND_FIELDS[-1]
    assert table_hash([*COMMAND_FIELDS[:-1], (name, words + 1, doc)]) != table_hash(COMMAND_FIELDS)
    assert table_hash(COMMAND_FLAGS[:-1]) != table_hash(COMMAND_FLAGS)
    assert table_hash(Operation) != table_hash(ErrorCode)


def test_words_about_a_register_do_not_change_the_hash():
    table = BISORT.registers()
    assert table_hash([dataclasses.replace(table[0], doc="in other words"), *table[1:]]) == table_hash(table)
    name, words, _ = COMMAND_FIELDS[0]
    assert table_hash([(name, words, "in other words"), *COMMAND_FIELDS[1:]]) == table_hash(COMMAND_FIELDS)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Parameters)])
def test_every_parameter_changes_the_hash(field):
    tiny = PRESETS["tiny"]
    others = {parameter_hash(tiny)}
    for preset in PRESETS.values():
        object.__setattr__(other := dataclasses.replace(tiny), field, getattr(preset, field) * 2)
        others.add(parameter_hash(other))
    assert len(others) > 1


def test_a_parameter_that_has_its_default_does_not_change_the_hash():
    """Builds from before there were columns are still known by their hash."""
    tiny = splitjoin.PRESETS["tiny"]
    assert "columns" not in parameter_values(tiny)
    assert parameter_hash(tiny) == 2475262984
    two = dataclasses.replace(tiny, columns=2)
    assert parameter_values(two) == parameter_values(tiny) | {"columns": 2}
    assert parameter_hash(two) != parameter_hash(tiny)


def test_what_is_no_table():
    with pytest.raises(TypeError, match="a table must be of names"):
        table_hash(1.5)


def test_flags_of_rows_in_memory_are_part_of_the_layout():
    flags, *others = SPLITJOIN.memory
    assert dataclasses.replace(SPLITJOIN, memory=(flags[:-1], *others)).layout_hash() != SPLITJOIN.layout_hash()
