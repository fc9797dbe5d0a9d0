"""The folders of the native core: each includes itself and those before it; the bindings alone know of Python."""

from __future__ import annotations

import re
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "host/native"
FOLDERS = ("core", "index", "engine", "bindings")
#: The table of indexes names the engines that are of one index.
REGISTRY = "index/registry.cpp -> engine/engine.hpp"


def test_folders_include_no_later_one() -> None:
    sources = sorted(NATIVE.rglob("*.?pp"))
    assert {path.parent.name for path in sources} == set(FOLDERS)
    later = set()
    for path in sources:
        name = path.relative_to(NATIVE).as_posix()
        for included in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            assert (NATIVE / included).is_file(), f"{name} includes {included}, which is not there"
            if FOLDERS.index(included.split("/")[0]) > FOLDERS.index(path.parent.name):
                later.add(f"{name} -> {included}")
    assert later == {REGISTRY}


def test_python_is_known_to_the_bindings_alone() -> None:
    others = [path for path in NATIVE.rglob("*.?pp") if path.parent.name != "bindings"]
    assert len(others) > 40
    assert not [path.name for path in others if re.search(r"nanobind|Python\.h|\bPy[A-Z]\w+\(", path.read_text())]
