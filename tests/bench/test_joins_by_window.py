"""Where one join overtakes the other."""

import json

import matplotlib.pyplot as plt
import pytest
from click.testing import CliRunner

from bench.joins_by_window import main, overtaking


def test_between_what_was_measured():
    falling = [(1 << 10, 0.1), (1 << 16, 0.1 / 64)]
    steady = [(1 << 14, 0.01), (1 << 20, 0.005)]
    # The nested loop has 0.1 * 1024 / window rows a cycle; the other one 0.01 up to 16 Ki.
    assert overtaking(falling, steady) == pytest.approx(0.1 * 1024 / 0.01, rel=0.01)


def test_behind_what_was_measured():
    assert overtaking([(64, 1.0)], [(64, 1 / 1000)]) == pytest.approx(64_000, rel=0.01)


@pytest.mark.parametrize("steady", [2.0, 1e-9])
def test_neither_overtakes(steady):
    assert overtaking([(64, 1.0)], [(64, steady)]) is None


def test_what_is_drawn_can_be_seen(tmp_path):
    def nested(what, sub_window, cores, window):
        rate = {"rows_per_cycle": 2 * cores / window, "order": "outer", "sides": "in turn", "apart": False}
        return {"what": what, "sub_window": sub_window, "cores": cores, "window": window} | rate

    figures = [
        nested("shorter windows", "nested loop", cores, window) for cores in (16, 64) for window in (1024, 65536)
    ]
    figures += [nested("sub-windows", name, 4, window) for name in ("nested loop", "BI-Sort") for window in (64, 256)]
    figures += [{"what": "latency", "cores": cores, "fan_out": 2, "cycles": 20} for cores in (4, 16)]
    cost = {"by": "simulation", "index": "sorted_runs", "rows": 100, "costs": {"MERGE": {"cycles": 2000}}}
    costs = [cost | {"window": window} for window in (4096, 65536)]
    (tmp_path / "splitjoin.json").write_text(json.dumps({"figures": figures}))
    (tmp_path / "bisort.json").write_text(json.dumps({"costs": costs}))
    options = {"splitjoin": "splitjoin.json", "bisort": "bisort.json", "out": "plot.png"}
    done = CliRunner().invoke(
        main, [part for name, file in options.items() for part in (f"--{name}", str(tmp_path / file))]
    )
    assert not done.exception, done.output
    assert (tmp_path / "plot.png").stat().st_size > 1000
    for axis in plt.gcf().axes:
        lowest, highest = axis.get_ylim()
        assert all(lowest <= y <= highest for line in axis.lines for y in line.get_ydata()), axis.get_title()
    plt.close()
