"""``python -m muntin.hw.boards.build BOARD``: from sources to what is loaded onto a board."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from muntin.contract import UnknownBoardError
from muntin.contract.boards import BOARDS
from muntin.hw.boards.board_build import BoardBuild, build_of
from muntin.hw.boards.tools import BuildError, Steps

BUILD = Path(__file__).resolve().parents[2] / "build" / "bitstreams"
REPORT = "report.json"


def build(board: BoardBuild, design: str | None = None, *, steps: Steps | None = None, root: Path = BUILD) -> Path:
    """Build a design for a board, unless the same content was built before.

    Parameters
    ----------
    board : BoardBuild
    design : str, optional
        One of `Board.designs`; the first by default.
    steps : Steps, optional
        Told what is under way.
    root : Path
        Where the folder is made.

    Returns
    -------
    Path
        The folder, named after the board, the design and the content. It has the files that the tools were given,
        what they wrote, and `report.json`.

    Raises
    ------
    UnknownBoardError
        If the board has no such design.
    BuildError
        If a tool fails or is missing, or a clock is too slow.
    """
    design = board.design(design)
    steps = steps or Steps()
    files = board.files(design, steps)
    tools = dict(board.tools())
    digest = hashlib.sha256(json.dumps([files, tools], sort_keys=True).encode()).hexdigest()
    folder = root / f"{board.name}-{design}-{digest[:16]}"
    if (folder / REPORT).exists():
        steps.tell(f"{folder}: was built before, from the same content")
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    steps.tell(f"{folder}: {len(files)} files written")
    made = board.make(design, folder, steps)
    report: dict[str, Any] = {
        "board": board.name,
        "design": design,
        "part": board.part,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": _commit(),
        "tools": tools,
        **made,
        "seconds": {name: round(seconds, 1) for name, seconds in steps.seconds.items()},
    }
    hidden = folder / f".{REPORT}.{os.getpid()}"
    hidden.write_text(json.dumps(report, indent=2) + "\n")
    os.replace(hidden, folder / REPORT)  # last and at once: a folder with a report is complete
    return folder


def _commit() -> str:
    """The commit of the sources, with a mark where they differ from it; empty outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def _listing() -> str:
    known = BOARDS
    width = max(map(len, known))
    lines = [f"  {name:{width}}  {known[name].description} ({', '.join(known[name].designs)})" for name in known]
    return "\n".join(["boards, and the designs that each can be built with:", *lines])


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m muntin.hw.boards.build", description=__doc__)
    parser.add_argument("board", nargs="?", default="", help="none lists the boards")
    parser.add_argument("--design", default="", help="the board's first by default")
    given = parser.parse_args(arguments)
    if not given.board:
        print(_listing())
        return 0
    try:
        folder = build(build_of(given.board), given.design)
    except UnknownBoardError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    report = json.loads((folder / REPORT).read_text())
    print(json.dumps(report, indent=2))
    print(folder / report["bitstream"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
