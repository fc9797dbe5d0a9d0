"""Build parameters: presets that hold, and an error for what does not fit."""

import dataclasses
import subprocess
import sys

import pytest

from muntin.contract import ParameterError
from muntin.contract.designs.bisort import PRESETS, Parameters


@pytest.mark.parametrize("name", ["tiny", "ecp5", "de5a"])
def test_presets(name):
    parameters = Parameters.preset(name)
    assert parameters is PRESETS[name]
    assert parameters.burst_beats * parameters.beat_bytes == parameters.burst_bytes
    assert parameters.run_rows == parameters.index_rows * parameters.partition_rows


def test_board_presets_hold_a_subwindow_of_8m():
    assert all(Parameters.preset(name).run_rows >= 8 << 20 for name in ("ecp5", "de5a"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key_bits": 16}, "key_bits must be one of 32, 64, not 16"),
        ({"width": 3}, "width must be one of 1, 2, 4, 8, 16, not 3"),
        ({"width": 0}, "width must be an integer of at least 1, not 0"),
        ({"lanes": True}, "lanes must be an integer of at least 1, not True"),
        ({"index_rows": 100}, "index_rows must be a power of two, not 100"),
        ({"index_width": 1}, "index_width must be one of 2, 4, 8, 16, not 1"),
        ({"index_rows": 4}, "index_width must be less than index_rows, 4, not 4"),
        ({"address_bits": 8}, "address_bits must lie in"),
        ({"key_bits": 64, "data_bits": 32}, "data_bits must be at least key_bits"),
        ({"width": 16, "buffer_rows": 16, "partition_log2": 3}, "partition_log2 must be at least 4"),
        ({"partition_log2": 30}, "index_rows << partition_log2"),
        ({"width": 4, "buffer_rows": 6}, "multiple of width"),
        ({"burst_bytes": 8192}, "burst_bytes must lie in"),
        ({"burst_bytes": 4096}, "at most 256 beats"),
        ({"turn_bytes": 32}, "turn_bytes must be at least burst_bytes"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    with pytest.raises(ParameterError, match=message.replace("*", r"\*")):
        dataclasses.replace(PRESETS["tiny"], **change)


def test_unknown_preset():
    with pytest.raises(ParameterError, match="preset must be one of tiny, ecp5, ecpix5, ulx3s, de5a, not 'u280'"):
        Parameters.preset("u280")


def test_standard_library_alone():
    code = (
        "import sys, muntin.contract.designs.bisort, muntin.contract.registers, muntin.contract.designs.splitjoin; "
        "sys.exit(any(m.startswith(('amaranth', 'numpy', 'muntin.host')) for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
