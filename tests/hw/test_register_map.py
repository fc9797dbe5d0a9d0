"""The register and command tables: no two things in one place, nothing outside its word."""

from hw.register_map import (
    COMMAND_FIELDS,
    COMMAND_FLAGS,
    COMMAND_WORDS,
    ERROR_TEXT,
    Access,
    ErrorCode,
    command_word,
    registers,
)


def test_offsets_and_names_are_distinct():
    table = registers()
    offsets = [register.offset for register in table]
    assert offsets == sorted(set(offsets))
    assert all(offset % 4 == 0 for offset in offsets)
    assert len({register.name for register in table}) == len(table)


def test_fields_do_not_overlap():
    for register in registers():
        taken = 0
        for field in register.fields:
            assert not taken & field.mask, (register.name, field.name)
            assert field.lsb + field.bits <= 32
            taken |= field.mask
    assert sum(flag.mask for flag in COMMAND_FLAGS) <= 0xFF00


def test_control_is_that_of_an_rtl_kernel():
    control = registers()[0]
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
