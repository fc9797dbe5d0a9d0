"""Small faults planted into the core's C++: all of a round in one build, of which a process switches one on.

`tests/mutants.py` runs the tests over them. A fault is a comparison that takes its limit in or leaves it out, a sum
that is a difference, a part of a condition left out, a condition turned around, or a statement left out.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: What a module begins with.
SWITCH = """#ifndef PLANTED
#include <cstdlib>
static const int planted_fault = std::getenv("PLANTED_FAULT") ? std::atoi(std::getenv("PLANTED_FAULT")) : 0;
#define PLANTED(number) (planted_fault == number)
#endif
#line 1
"""
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
HIDDEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\])'|^\#[^\n]*""", re.M | re.S)
COMPILED = re.compile(r"\b(constexpr|static_assert|requires|template|concept|using|enum|case|operator)\b")
STATEMENT = re.compile(
    r"^ +(?!(?:return|throw|delete|static|else|if|for|while|do)\b)(?:\+\+|--)?[\w.>\[\]()*-]+"
    r"(?: [+|&-]?= .*|\(.*\))?;$",
    re.M,
)
BEFORE = r"(?:[,;?]|%s\|\||\s:|(?<![=!<>])=|\breturn)$"
BEHIND = re.compile(r"[,;?]|\s(?:&&|\|\||:|[+|&-]?=)\s")


class Fault(NamedTuple):
    """Text put before and behind the code from `start` to `end`, with # for the fault's number."""

    start: int
    end: int
    before: str
    behind: str
    said: str


def begin(code: str, at: int, ends: str) -> int:
    """Where the operand that ends before a place begins."""
    depth, start = 0, at
    while start > 0:
        here = code[start - 1]
        if depth == 0 and (here in "([{}" or re.search(ends, code[max(start - 8, 0) : start])):
            break
        depth += (here in ")]") - (here in "([")
        start -= 1
    return start + len(code[start:at]) - len(code[start:at].lstrip())


def end(code: str, at: int) -> int:
    """Where the operand that begins at a place ends."""
    depth = 0
    while depth > 0 or (code[at] not in ")]}" and not BEHIND.match(code, at)):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        at += 1
    return at


def closes(code: str, at: int) -> int:
    """Where the bracket is that closes the one open at a place."""
    depth = 0
    while depth > 0 or code[at] != ")":
        depth += (code[at] == "(") - (code[at] == ")")
        at += 1
    return at


def faults(text: str) -> Iterator[Fault]:
    """The faults of a module."""
    code = HIDDEN.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    lines = [not COMPILED.search(line) for line in code.split("\n")]

    def places(pattern: str | re.Pattern) -> Iterator[re.Match]:
        return (each for each in re.finditer(pattern, code) if lines[code.count("\n", 0, each.start())])

    for found in places(r"(?<=[\w)\]]) (<=?|>=?|[=!]=|&&|\|\||[+-]) (?=\S)"):
        sign, at = found[1], found.start()
        if sign in "+-":
            yield Fault(found.end(), found.end(), "(PLANTED(#) ? -1 : 1) * ", "", f"{sign}  ->  the other sign")
            continue
        start = begin(code, at, BEFORE % ("" if sign == "||" else "&&|"))
        left = text[start:at]
        if sign in OTHER:
            stop = end(code, found.end())
            mutant = f"{left} {OTHER[sign]} {text[found.end() : stop]}"
            yield Fault(start, stop, f"(PLANTED(#) ? {mutant} : ", ")", f"{text[start:stop]}  ->  {mutant}")
        else:
            before = "(PLANTED(#) || (" if sign == "&&" else "(!PLANTED(#) && ("
            yield Fault(start, at, before, "))", f"{left} {sign}  ->  left out")
    for found in places(r"\b(?:if|while) \("):
        stop = closes(code, found.end())
        condition = text[found.end() : stop]
        if not re.search(r";|(?<![=!<>])=(?!=)", condition):
            yield Fault(found.end(), stop, "PLANTED(#) != bool(", ")", f"{condition}  ->  not ({condition})")
    for found in places(STATEMENT):
        start = found.end() - len(found[0].lstrip())
        if not code[: found.start()].rstrip().endswith(("=", ",", "(", "&&", "||", "?", "+", "-", "<<")):
            yield Fault(start, found.end(), "if (!PLANTED(#)) ", "", f"{text[start : found.end()]}  ->  left out")


def planted(text: str, numbered: dict[int, Fault]) -> str:
    """A module's text with its faults, each with a switch."""
    added = []
    for number, fault in numbered.items():
        size = fault.end - fault.start
        added.append((fault.start, 1, -size, number, fault.before.replace("#", str(number)).replace("\n", " ")))
        added.append((fault.end, 0, size, -number, fault.behind))
    for at, _, _, _, new in sorted(added, reverse=True):
        text = text[:at] + new + text[at:]
    return SWITCH + text


def build(tree: Path, modules: list[Path], count: int, seed: int) -> dict[int, str]:
    """Builds a tree's core with faults drawn of its modules; what each is, by its number. Those that do not compile are
    left out."""
    texts = {module: (tree / module).read_text() for module in modules}
    drawn = [(module, fault) for module, text in texts.items() for fault in faults(text)]
    random.Random(seed).shuffle(drawn)
    numbered = dict(enumerate(drawn[:count], 1))
    line = {number: texts[module].count("\n", 0, fault.start) + 1 for number, (module, fault) in numbered.items()}
    folder = tree / "build/native"
    commands = (
        ["cmake", "-S", tree / "host/native", "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}"],
        ["cmake", "--build", folder, "--", "-k", "0"],
    )
    while True:
        for module, text in texts.items():
            faulty = planted(text, {number: fault for number, (of, fault) in numbered.items() if of == module})
            (tree / module).write_text(faulty)
        for command in (commands[0] + ["-DCMAKE_CXX_FLAGS_RELEASE=-O1"], commands[1]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return {
                number: f"{module}:{line[number]}  {' '.join(fault.said.split())}"
                for number, (module, fault) in sorted(numbered.items())
            }
        wrong = set(re.findall(r"([\w.]+/[\w.]+):(\d+):\d+: error", done.stdout))
        refused = {
            number
            for number, (module, _) in numbered.items()
            if (f"{module.parent.name}/{module.name}", str(line[number])) in wrong
        }
        if not refused:
            sys.exit(done.stdout[-10_000:])
        print(f"{len(refused)} faults do not compile: {sorted(refused)}", file=sys.stderr)
        numbered = {number: each for number, each in numbered.items() if number not in refused}
