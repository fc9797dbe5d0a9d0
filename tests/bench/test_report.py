"""A small benchmark run from the command line to the README's table."""

import dataclasses
import json
import statistics
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from bench.__main__ import main
from bench.contenders import CppSortedArray, NumpySearchsorted, Pairs, Unavailable
from bench.contenders.cpp_library import compiled
from bench.papers.figure import Figure, Finding, in_turns, ratios
from bench.papers.page import DOCS, KEPT, keep, write_page
from bench.papers.stated import finding_of, judged
from bench.readme import _BLOCKS, DOCUMENTS, filled
from bench.readme import main as readme
from bench.report import operator_rows, slow_rows

CONTENDERS = ("numpy", "numpy/bisort", "numpy-searchsorted")
CELL = ("--workload", "uniform", "--window", "4K", "--batch", "1K")


@pytest.fixture(autouse=True)
def every_call_takes_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many calls fit a budget does not depend on this machine."""
    ticks = count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) / 1e3)
    monkeypatch.setattr("bench.operator_benchmark.time", clock)


def run(out: Path, *more: str) -> Result:
    arguments = [*CELL, "--batch", "256", "--seconds", "0.05"]
    for name in CONTENDERS:
        arguments += ["--contender", name]
    return CliRunner().invoke(main, [*arguments, "--out", str(out), *more])


def test_a_run_writes_json_and_plots_and_the_readme_table(tmp_path: Path) -> None:
    done = run(tmp_path, "--turns", "2")
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "latest.json").read_text())
    assert result["versions"]["numpy"]
    assert result["machine"]["cores"]
    assert [cell["batch"] for cell in result["operator"]] == [1024, 256]
    for cell in result["operator"]:
        assert set(cell["contenders"]) == set(CONTENDERS)
        assert cell["calls_compared"] > 0
        assert cell["pairs_per_row"] == pytest.approx(1, rel=0.3)
        assert cell["contenders"]["numpy"]["calls"] == cell["calls"], "it goes through every batch"
        for entry in cell["contenders"].values():
            assert entry["rates"] == pytest.approx([2000 * cell["batch"]] * 2)
            assert sum(stretch["calls"] for stretch in entry["stretches"]) == entry["calls"]
            assert entry["call_ms"]["p99"] == pytest.approx(1)
    for plot in ("rates", "ratios"):
        assert (tmp_path / f"latest-{plot}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"latest-{plot}.svg").read_text()
    table = CliRunner().invoke(readme, [str(tmp_path / "latest.json")])
    assert table.exit_code == 0, table.output
    assert "| uniform | 4K | 1K |" in table.output
    assert result["date"][:10] in table.output
    assert (result["commit"] or "outside a git checkout") in table.output
    assert str(tmp_path) not in table.output


def test_figures_are_written_between_their_markers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, "--turns", "1").exit_code == 0
    document = tmp_path / "figures.md"
    monkeypatch.setattr("bench.readme.DOCUMENTS", (document,))
    monkeypatch.setattr("bench.readme.PLOTS", tmp_path / "drawn-{}.png")
    before, between, after = "# Figures\n\n", "\nprose\n\n", "\nthe end\n"
    blocks = [f"<!-- bench: {name} -->\nolder\n<!-- bench: end -->\n" for name in ("measured", "operator")]
    document.write_text(before + blocks[0] + between + blocks[1] + after)
    written = CliRunner().invoke(readme, ["--write", str(tmp_path / "latest.json")])
    assert written.exit_code == 0, written.output
    text = document.read_text()
    assert text.startswith(before + "<!-- bench: measured -->\nMeasured ")
    assert between + "<!-- bench: operator -->\nOperator: " in text
    assert text.endswith(" |\n<!-- bench: end -->\n" + after)
    assert "older" not in text
    assert "| uniform | 4K | 1K |" in text
    assert (tmp_path / "drawn-rates.png").exists()
    assert (tmp_path / "drawn-ratios.png").exists()
    assert CliRunner().invoke(readme, ["--write", str(tmp_path / "latest.json")]).exit_code == 0
    assert document.read_text() == text, "a second time changes nothing"
    # What other parts were measured by stays, with their blocks; a line of the same parts does not.
    lines = [
        "Measured before by `python -m bench --only operator`.",
        "Measured before by `python -m bench --only spark`.",
    ]
    older = [f"<!-- bench: {name} -->\n{line}\n<!-- bench: end -->\n" for name, line in
             (("measured", "\n\n".join(lines)), ("operator", "older"), ("spark", "older"))]  # fmt: skip
    document.write_text(between.join(older))
    partly = CliRunner().invoke(readme, ["--write", str(tmp_path / "latest.json")])
    assert partly.exit_code == 0, partly.output
    assert "but for spark: no result has these parts" in partly.output
    text = document.read_text()
    assert text.startswith(f"<!-- bench: measured -->\n{lines[1]}\n\nMeasured 20")
    assert lines[0] not in text
    assert text.count("older") == 1
    assert text.endswith(between + older[2])
    document.write_text(text + blocks[0].replace("measured", "sparks"))
    refused = CliRunner().invoke(readme, ["--write", str(tmp_path / "latest.json")])
    assert refused.exit_code == 1
    assert "a block 'sparks'" in refused.output
    assert document.read_text().startswith(text)


def test_the_documents_have_a_place_for_each_block() -> None:
    names = (
        "measured",
        "front",
        "aims",
        "aims_beyond",
        *(name for name in _BLOCKS.values() if not name.startswith("aims")),
    )
    shown = [filled(path.read_text(), {name: f"\n{name} is here\n" for name in names}) for path in DOCUMENTS]
    for name in names:
        assert sum(text.count(f"{name} is here") for text in shown) == 1


def test_pairs_that_differ_end_the_run_and_keep_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = NumpySearchsorted.step
    calls = []

    def broken(self: NumpySearchsorted, left, right) -> Pairs:
        pairs = step(self, left, right)
        calls.append(len(left))
        return pairs if len(left) > 256 else Pairs(left=pairs.left[1:], right=pairs.right[1:])

    monkeypatch.setattr(NumpySearchsorted, "step", broken)
    done = run(tmp_path)
    assert done.exit_code == 1
    assert "numpy-searchsorted in uniform, window 4,096, batch 256" in done.output
    kept = json.loads((tmp_path / "latest.json").read_text())["operator"]
    assert [cell["batch"] for cell in kept] == [1024]


def test_an_absent_contender_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled.cache_clear()
    monkeypatch.setenv("CXX", "no-such-compiler")
    done = run(tmp_path, "--contender", CppSortedArray.name, "--turns", "1")
    compiled.cache_clear()
    assert done.exit_code == 0, done.output
    assert "without cpp: the C++ peer needs a compiler" in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "hardware"], "'hardware' is not one of operator, peers, spark"),
        (["--window", "lots"], "'lots' is not a number of rows"),
        (["--quick", "--full"], "exclude each other"),
        (["--without", "flink"], "'flink' is no contender of this run"),
        (["--contender", "cpp", "--without", "cpp"], "no contender is left without cpp"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert message in done.output


def test_slow_contenders_stand_in_a_table_of_their_own() -> None:
    def cell(batch: int, **rates: float) -> dict:
        entries = {
            name: {
                "rate": rate,
                "rates": [rate],
                "call_ms": {"median": 2.0, "p99": 5.0},
                "memory": {"used": 30, "content": 20},
                "cpu_ms": {"user": 1.25, "system": 0.0},
                "faults": {"median": 3000, "max": 9000},
            }
            for name, rate in rates.items()
        }
        return {"workload": "uniform", "window": 4096, "batch": batch, "contenders": entries}

    cells = [
        cell(1024, **{"cpu": 8e6, "cpu:threads=1": 6e6, "cpp": 2e6, "opencl": 1e6, "polars": 4e5}),
        cell(256, **{"cpu": 9e6, "cpu:threads=1": 6e6, "cpp": 3e6, "opencl": 1e6}),
    ]
    headings, lines = operator_rows(cells)
    assert headings == [
        *("workload", "window", "batch", "cpu", "cpu, one thread", "cpp", "opencl", "cpu / cpp", "cpu / opencl"),
        *("cpu, one thread / cpp", "p99/median", "memory"),
        *(
            f"{name}: {what}"
            for name in ("cpu", "cpu, one thread", "cpp")
            for what in ("CPU ms a call", "faults a call")
        ),
    ]
    cost = ["1.2 + 0.0", "3,000"] * 3
    assert lines == [
        ["uniform", "4K", "1K", "8.00", "6.00", "2.00", "1.00", "4.00x", "8.00x", "3.00x", "2.50x", "1.50x", *cost],
        ["uniform", "4K", "256", "9.00", "6.00", "3.00", "1.00", "3.00x", "9.00x", "2.00x", "2.50x", "1.50x", *cost],
    ]
    assert slow_rows(cells)[1] == [["polars", "uniform", "4K", "1K", "0.40", "20x"]]


def test_unavailable_is_not_swallowed_when_nobody_is_left(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        [*CELL, "--contender", "opencl:no such device/sorted_runs", "--out", str(tmp_path)],
    )
    assert done.exit_code == 1
    assert "no such device" in done.output
    assert not isinstance(done.exception, Unavailable)


def test_a_papers_figures_stand_in_a_page(tmp_path: Path) -> None:
    points = [
        {"series": series, "x": x, "y": 2.5, "turns": [2.0, 2.5 * x, 3.0], "spread": 1}
        for series in ("PIM-Tree", "IM-Tree", "B+-Tree") for x in (1024, 2048)
    ]  # fmt: skip
    figure = Figure("PIM-Tree", "10a", "rows", "Twice.", "window", "M rows/s", points, note="Half: memory bound.")
    findings = [Finding("a over b:", [1.3, 1.4, 1.2, 0.9], paper=1.5), Finding("b over c:", [1.1, 1.1], paper=3.0)]
    points = [{"series": "ours", "x": "Q1", "y": 0.25}]
    bars = Figure("SPO-Join", "offsets", "bars", "More.", "query", "ms", points, findings=findings)
    result = {
        "date": "2026-01-02T03:04:05", "commit": "abc", "quick": False, "machine": {"cores": 2, "cpu": "some"},
        "figures": [{**dataclasses.asdict(one), "seconds": 1.0, "commit": "abc", "load": 2.4}
                    for one in (figure, bars)],
    }  # fmt: skip
    kept = keep(json.loads(json.dumps(result)), tmp_path / "results.json")
    assert keep({**result, "figures": []}, tmp_path / "results.json") == kept
    assert kept[0]["points"][0] == {"series": "PIM-Tree", "x": 1024, "y": 2.5, "turns": [2.0, 2560.0, 3.0]}
    written = write_page(kept, tmp_path)
    # What the paper states of the figure is judged: contenders that are alike gain nothing.
    page = (tmp_path / "papers-pim-tree.md").read_text()
    claim = "IM-Tree is 50 % and PIM-Tree 63 % faster than B+-Tree on average."
    assert "### Figure 10a: rows\n![rows](papers/pim-tree-10a.svg)\n" in page
    assert (
        f"\n*Paper*: {claim}\n\n*Here*: Half: memory bound.\n\n**Does not hold**.\n\n- does not hold: M rows/s: IM"
        in page
    )
    assert "over B+-Tree at each place: 1 (1 to 1 in 3 turns, 1.63 in the paper)\n" in page
    assert "Measured 2026-01-02, at commit abc, 2 cores, some, under a load of 2 to 2: 10a.\n" in page
    page = (tmp_path / "papers-spo-join.md").read_text()
    assert "was gained.\n\n- holds: a over b: 1.25 (0.9 to 1.4 in 4 turns, 1.5 in the paper)\n- holds less:" in page
    assert "### Figure 7\n\n*Paper*: PO-Join probes 12 to 31 times" in page
    assert "**Not measured**: not measured yet." in page
    page = (tmp_path / "papers.md").read_text()
    assert "| [PIM-Tree](papers-pim-tree.md) | 0 | 0 | 1 | 0 | 22 |\n" in page
    assert "| [SPO-Join](papers-spo-join.md) | 0 | 1 | 0 | 0 | 25 |\n| all | 0 | 1 | 1 | 0 | 47 |\n" in page
    # One of them measured again takes the place of the one before; the other stays.
    again = {**result, "date": "2026-02-01", "figures": [{**result["figures"][0], "commit": "def"}]}
    write_page(keep(again, tmp_path / "results.json"), tmp_path)
    assert (
        "Measured 2026-02-01, at commit def, 2 cores, some, under a load of 2 to 2: 10a.\n"
        in (tmp_path / "papers-pim-tree.md").read_text()
    )
    assert "Measured 2026-01-02, at commit abc" in (tmp_path / "papers-spo-join.md").read_text()
    names = ["papers.md", "pim-tree-10a.svg", "papers-pim-tree.md", "spo-join-offsets.svg", "papers-spo-join.md"]
    assert [path.name for path in written] == names
    picture = (tmp_path / "papers" / "pim-tree-10a.svg").read_bytes()
    write_page(keep(again, tmp_path / "results.json"), tmp_path)
    assert (tmp_path / "papers" / "pim-tree-10a.svg").read_bytes() == picture


def test_the_pages_are_those_of_the_kept_figures(tmp_path: Path) -> None:
    kept = json.loads(KEPT.read_text())
    for path in write_page(kept, tmp_path, drawn=()):
        assert path.read_text() == (DOCS / path.name).read_text(), "python -m bench.papers --write"
        assert len(path.read_text().splitlines()) < 400


def figure_of(**values: dict) -> Figure:
    points = [
        {"series": series.replace("_", " "), "x": x, "y": statistics.median(turns), "turns": turns}
        for series, places in values.items() for x, turns in places.items()
    ]  # fmt: skip
    return Figure("PanJoin", "1", "", "", "x", "rows/s", points)


def test_a_finding_is_a_ratio_of_two_places() -> None:
    figure = figure_of(
        one_thread={1: [2.0, 4.0], 8: [8.0, 8.0], 64: [1.0, 1.0]}, two_threads={8: [4.0, 2.0], 64: [2.0, 8.0]}
    )
    both = finding_of(figure, over=("one thread", "best"), under=("two*", "first"), paper=2)
    assert (both.says, both.ratios, both.about) == ("rows/s: one thread at 8 over two threads at 8:", [2.0, 4.0], False)
    each = finding_of(figure, over=("last", "each"), under=(0, "each"), about=1)
    assert each.ratios == pytest.approx([1.0, 2**0.5])
    assert each.about
    assert finding_of(figure, over=("first", "last"), under=("first", "first")).ratios == [0.5, 0.25]
    assert finding_of(figure, over=("first", "least"), about=2).ratios == [1.0, 1.0]
    for over, reason in ((("three", 1), "no series 'three'"), (("first", 3), "no 3 on its axis")):
        with pytest.raises(ValueError, match=reason):
            finding_of(figure, over=over)


def test_a_finding_on_a_peer_that_is_not_here_is_left_out() -> None:
    figure = figure_of(Judy={1: [1.0]}, ours={1: [2.0]})
    given = {
        "claim": "Twice.",
        "points": [["a", 1, 5.0]],
        "findings": [{"over": ["ours", 1], "under": [name, 1]} for name in ("Judy", "absl::btree_map")],
    }
    found = judged(figure, given)
    assert [finding.ratios for finding in found.findings] == [[2.0]]
    assert (found.claim, found.stated) == ("Twice.", [{"series": "a", "x": 1, "y": 5.0}])


@pytest.mark.parametrize(
    ("here", "verdict"), [([1.4], "holds"), ([0.7], "holds"), ([1.9], "holds less"), ([0.4], "does not hold")]
)
def test_what_makes_no_difference_is_near_one(here, verdict) -> None:
    assert Finding("", here, paper=1, about=True).verdict == verdict
    assert Finding("", [2 * value for value in here], paper=2, about=True).verdict == verdict


@pytest.mark.parametrize(
    ("ratios", "paper", "verdict"),
    [
        ([1.01, 1.01, 1.01, 0.99], None, "holds"),
        ([1.01, 1.01, 0.99, 0.99], None, "does not hold"),
        ([1.5, 1.5, 1.5], 2.0, "holds"),  # half the paper's gain
        ([1.49, 1.49, 1.49], 2.0, "holds less"),
        ([9.0, 9.0, 0.5], 2.0, "does not hold"),  # whatever the median
    ],
)
def test_a_verdict_follows_from_the_turns(ratios, paper, verdict) -> None:
    finding = Finding("one over another:", ratios, paper)
    assert finding.verdict == verdict
    figure = Figure("PTWI", "1", "", "", "", "", [], findings=[Finding("", [2.0]), finding])
    assert figure.verdict == verdict
    assert Figure("PTWI", "1", "", "", "", "", []).verdict is None


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    found = in_turns({name: lambda name=name: calls.append(name) or len(calls) for name in "abc"}, 3)
    assert "".join(calls) == "abcbcacab"
    assert found == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}
    assert ratios(found["a"], found["b"]) == [0.5, 1.5, 8 / 9]
