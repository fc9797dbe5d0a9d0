"""Pages of the documents as programs: blocks of Python and of the shell run in order, as a reader pastes them, and
print what the block of text below says."""

import re
import shlex
from pathlib import Path

from click.testing import CliRunner

from muntin.host.cli import main


def blocks(page: Path) -> list[tuple[int, str, str]]:
    """(number of its first line, language, text) of each block of code that is no drawing."""
    text = page.read_text()
    found = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, each.start()) + 2, each[1], each[2]) for each in found]


def run(page: Path, capsys, names: dict, spark: bool = False) -> int:
    """Runs a page's blocks with the names that they make; how many blocks of text were compared.

    Where there is a session of `spark`, commands of the shell do not run; where there is none, blocks that join there.
    """
    printed, shown = "", 0
    for line, language, text in blocks(page):
        if language == "text":
            assert printed == text.strip("\n"), f"{page.name}:{line}"
            printed, shown = "", shown + 1
        elif (language == "python" and (spark or "muntin.spark" not in text)) or (language == "bash" and not spark):
            assert not printed, f"{page.name}:{line}: the block before it prints\n{printed}"
            if language == "python":
                exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
                printed = capsys.readouterr().out
            else:
                printed = _commands(text, f"{page.name}:{line}")
            printed = "\n".join(row.rstrip() for row in printed.strip("\n").splitlines())
    assert not printed, f"{page.name}: its last block prints\n{printed}"
    return shown


def _commands(text: str, place: str) -> str:
    """What a block's lines print, each a `muntin` command."""
    printed = ""
    for command in text.replace("\\\n", " ").splitlines():
        program, *words = shlex.split(command, comments=True)
        assert program == "muntin", place
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, (place, result.output)
        printed += result.stdout
    return printed
