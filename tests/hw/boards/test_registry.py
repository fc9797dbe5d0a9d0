"""Boards by name, and the command that builds for one."""

import dataclasses
import json

import pytest

from muntin.contract import UnknownBoardError
from muntin.contract.boards import BOARDS, board
from muntin.hw.boards import build as build_module
from muntin.hw.boards.board_build import BoardBuild
from muntin.hw.boards.build import REPORT, build, main
from muntin.hw.boards.tools import BuildError, Steps, TimingError, ToolMissingError


def test_every_board_is_complete():
    assert "ecpix5" in BOARDS
    for name, found in BOARDS.items():
        assert found.name == name
        assert found.designs
        assert found.memory_bytes > 0


def test_an_unknown_board_lists_those_there_are(capsys):
    with pytest.raises(UnknownBoardError, match=r"there is no board 'ecpix6': there are .*ecpix5"):
        board("ecpix6")
    assert main(["ecpix6"]) == 2
    assert "ecpix5" in capsys.readouterr().err


def test_an_unknown_design_lists_those_there_are(capsys):
    assert main(["ecpix5", "--design", "other"]) == 2
    assert "board ecpix5 has no design 'other': there are bisort" in capsys.readouterr().err


def test_no_board_lists_the_boards(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    for name, found in BOARDS.items():
        assert f"{name} " in listed
        assert found.description in listed


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Board(BoardBuild):
    """A board that takes no tools to build for."""

    content: str = "content"
    fails: BuildError | None = None

    def files(self, design, steps):
        return {"top.v": self.content, "below/top.txt": design}

    def tools(self):
        return {"tool": "1"}

    def make(self, design, folder, steps):
        with steps.step("making"):
            if self.fails:
                raise self.fails
        (folder / "top.bit").write_text((folder / "top.v").read_text() + design)
        return {"bitstream": "top.bit", "made": 1}


def _of(**change):
    fields = {
        "name": "some",
        "description": "some board",
        "part": "p",
        "memory_bytes": 1,
        "parameters": {"a": 0, "b": 0},
    }
    return _Board(**{**fields, **change})


def test_a_build_is_made_once_for_each_content(tmp_path, capsys):
    folder = build(_of(), root=tmp_path)
    assert (folder / "top.bit").read_text() == "contenta"
    assert (folder / "below" / "top.txt").read_text() == "a"
    report = json.loads((folder / REPORT).read_text())
    assert (report["board"], report["design"], report["made"], report["tools"]) == ("some", "a", 1, {"tool": "1"})
    assert "making: " in capsys.readouterr().err
    (folder / "top.bit").write_text("kept")
    assert build(_of(), root=tmp_path) == folder
    assert (folder / "top.bit").read_text() == "kept"
    assert "was built before" in capsys.readouterr().err
    others = {build(_of(content="other"), root=tmp_path), build(_of(), "b", root=tmp_path)}
    assert len({folder, *others}) == 3


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (BuildError("the tool said no"), "the tool said no"),
        (ToolMissingError("no aoc: install it"), "no aoc"),
        (TimingError("sys reaches 10 of 20 MHz"), "sys reaches 10"),
    ],
)
def test_what_fails_is_said_and_not_kept(error, message, tmp_path, capsys, monkeypatch):
    failing = _of(fails=error)
    monkeypatch.setattr(build_module, "build_of", lambda name: failing)
    monkeypatch.setattr(build_module.build, "__kwdefaults__", {**build.__kwdefaults__, "root": tmp_path})
    assert main(["some"]) == 1
    told = capsys.readouterr().err
    assert message in told
    assert "making: failed after" in told
    (folder,) = tmp_path.iterdir()
    assert (folder / "top.v").exists()
    assert not (folder / REPORT).exists()


def test_steps_are_told_with_their_times(capsys):
    steps = Steps()
    with steps.step("one"):
        pass
    assert list(steps.seconds) == ["one"]
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "one ..."
    assert told[1].startswith("one: 0.0 s")
