"""Rows, results and the summary in memory: no two things in one place, nothing outside its word."""

import dataclasses

import pytest

from muntin.contract.designs.splitjoin import (
    PRESETS,
    RESULT_BYTES,
    RESULT_FIELDS,
    ROW_FLAGS,
    SUMMARY_FIELDS,
    row_fields,
    row_words,
)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("key_bits", [32, 64])
@pytest.mark.parametrize("time_bits", [0, 32, 64])
@pytest.mark.parametrize(("bounds", "columns"), [(0, 1), (1, 1), (1, 2)])
def test_fields_of_a_row_follow_each_other(preset, key_bits, time_bits, bounds, columns):
    change = {"key_bits": key_bits, "time_bits": time_bits, "bounds": bounds, "columns": columns}
    parameters = dataclasses.replace(PRESETS[preset], **change)
    at = 0
    for first, words in row_fields(parameters).values():
        assert first == at
        at += words
    assert 32 * at == 64 + key_bits * columns * (1 + 2 * bounds) + time_bits
    assert at <= row_words(parameters) < 2 * at
    assert row_words(parameters) & (row_words(parameters) - 1) == 0


def test_words_hold_their_fields():
    for fields in (ROW_FLAGS, *RESULT_FIELDS, *SUMMARY_FIELDS):
        taken = 0
        for field in fields:
            assert not taken & field.mask, field.name
            assert field.lsb + field.bits <= 32
            taken |= field.mask
    assert RESULT_BYTES == 8
    assert 4 * len(SUMMARY_FIELDS) == 16
