"""The register and command tables: no two things in one place, nothing outside its word."""

import pytest

from muntin.contract.designs.bisort import BISORT
from muntin.contract.designs.splitjoin import PRESETS, SPLITJOIN
from muntin.contract.registers import (
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    COMMAND_WORDS,
    CONTROL_REGISTERS,
    ERROR_TEXT,
    LANE_STRIDE,
    Access,
    ErrorCode,
    command_word,
)

KERNELS = [BISORT, SPLITJOIN]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_offsets_and_names_are_distinct(kernel):
    table = kernel.registers()
    assert table[: len(CONTROL_REGISTERS)] == CONTROL_REGISTERS
    assert table[-1].offset < LANE_STRIDE
    offsets = [register.offset for register in table]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 for offset in offsets)
    assert len({register.name for register in table}) == len(table)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_fields_do_not_overlap(kernel):
    for register in kernel.registers():
        taken = 0
        for field in register.fields:
            assert not taken & field.mask, (register.name, field.name)
            assert field.lsb + field.bits <= 32
            taken |= field.mask
    assert sum(flag.mask for flag in COMMAND_FLAGS) <= 0xFF00


def test_control_is_that_of_an_rtl_kernel():
    control = BISORT.registers()[0]
    assert (control.name, control.offset, control.access) == ("CONTROL", 0, Access.CONTROL)
    assert [control.field(name).lsb for name in ("start", "done", "idle", "ready", "auto_restart")] == [
        0,
        1,
        2,
        3,
        7,
    ]


def test_command_words_follow_each_other():
    assert command_word("operation") == 0
    assert command_word("high_offset") + 3 == COMMAND_WORDS
    assert len({name for name, _, _ in COMMAND_FIELDS}) == len(COMMAND_FIELDS)


def test_every_error_has_its_text():
    assert set(ERROR_TEXT) == set(ErrorCode)


@pytest.mark.parametrize("name", PRESETS)
def test_what_a_splitjoin_kernel_was_built_with(name):
    parameters = PRESETS[name]
    word = SPLITJOIN.build_parameters(parameters)
    values = {field.name: (word & field.mask) >> field.lsb for field in SPLITJOIN.build_fields}
    assert values["cores"] << values["rows_log2"] == parameters.capacity
    assert (32 * values["key_words"], 32 * values["time_words"]) == (parameters.key_bits, parameters.time_bits)
    assert (values["bounds"], 1 << values["data_log2"]) == (parameters.bounds, parameters.data_bits)
    assert 1 << values["lanes_log2"] == parameters.lanes
