"""Makes Verilog short enough to be compiled quickly."""

from __future__ import annotations

import re

_MODULE = re.compile(r"^(?=module )", re.M)
_HEADER = re.compile(r"module (\S+?) ?\((.*?)\);\n", re.S)
_CELL = re.compile(r"  (\S+) +(\S+) +\($")
_CONNECTION = re.compile(r"    \.(\S+?) ?\((.*)$")
_PORT = re.compile(r"\\port\$\d+\$\d+")
_HELPER = re.compile(r"\\\$auto\$\S+")
_ITEM = re.compile(r"    (\S+)\[(\d+)\] = (.+);$")
_MIN_RUN = 4


def compact_verilog(text: str) -> str:
    """Give Verilog the same meaning in fewer lines.

    Amaranth makes a module for each instance, and Yosys a line for each word of a memory. Modules that differ in
    nothing but names that are numbered over the whole design become one, with many instances: Verilator compiles
    such a module once, and not into its parents. Words that begin with the same value are set in a loop.

    Parameters
    ----------
    text : str
        Of `amaranth.back.verilog.convert`, without attributes.

    Returns
    -------
    str
        The first module, which is the top level, is as it was but for the modules of its instances.
    """
    head, *parts = _MODULE.split(_in_loops(text))
    modules: dict[str, str] = {}
    for part in parts:
        header = _HEADER.match(part)
        assert header is not None
        modules[header[1]] = part.rstrip()
    merged = _Merged(modules)
    for name in modules:
        merged.name_of(name)
    return head + "".join(f"{merged.texts[name]}\n\n" for name in modules if name in merged.texts)


def _in_loops(text: str) -> str:
    """Sets words of a memory that lie in a row and begin with the same value in a loop."""
    lines: list[str] = []
    run: list[str] = []
    before: tuple[str, int, str] | None = None  # memory, place and value of the line before
    for line in text.split("\n"):
        item = _ITEM.match(line)
        now = (item[1], int(item[2]), item[3]) if item else None
        if now is None or before is None or now != (before[0], before[1] + 1, before[2]):
            lines += _loop(run, before)
            run = []
        if now is None:
            lines.append(line)
        else:
            run.append(line)
        before = now
    return "\n".join([*lines, *_loop(run, before)])


def _loop(run: list[str], last: tuple[str, int, str] | None) -> list[str]:
    if last is None or len(run) < _MIN_RUN:
        return run
    name, place, value = last
    return [f"    for (int at = {place - len(run) + 1}; at <= {place}; at = at + 1) {name}[at] = {value};"]


class _Merged:
    """Modules by content, those of instances before those that they are in.

    `texts` has those that are left, by name.
    """

    def __init__(self, modules: dict[str, str]):
        self.texts: dict[str, str] = {}
        self._modules = modules
        self._top = next(iter(modules), None)
        self._names: dict[str, str] = {}  # what a module is called now
        self._ports: dict[str, dict[str, str]] = {}  # what its ports are called now
        self._known: dict[str, str] = {}  # a name by content

    def name_of(self, name: str) -> str:
        """What a module is called now, after it was rewritten."""
        if name not in self._names:
            text = self._rewritten(name)
            content = text.replace(name, "", 1)
            self._names[name] = self._known.setdefault(content, name)
            if self._names[name] == name:
                self.texts[name] = text
        return self._names[name]

    def _rewritten(self, name: str) -> str:
        text = self._modules[name]
        header = _HEADER.match(text)
        assert header is not None
        ports: dict[str, str] = {}
        helpers: dict[str, str] = {}
        if name != self._top:
            for port in _PORT.findall(header[2]):
                ports.setdefault(port, f"\\port${len(ports)}")
        self._ports[name] = ports

        def here(line: str) -> str:
            line = _HELPER.sub(lambda found: helpers.setdefault(found[0], f"\\$helper${len(helpers)}"), line)
            return _PORT.sub(lambda found: ports.get(found[0], found[0]), line)

        lines = []
        inner: dict[str, str] | None = None  # ports of the module whose instance is connected
        for line in text.split("\n"):
            cell, connection = _CELL.match(line), _CONNECTION.match(line)
            if cell is not None and cell[1] in self._modules:
                lines.append(f"  {self.name_of(cell[1])} {cell[2]} (")
                inner = self._ports[cell[1]]
            elif inner is not None and connection is not None:
                lines.append(f"    .{inner.get(connection[1], connection[1])} ({here(connection[2])}")
            else:
                inner = None
                lines.append(here(line))
        return "\n".join(lines)
