"""Each part of the tree imports only what stands above it."""

from pathlib import Path

from tests.house.__main__ import drawn
from tests.house.imports import TREE, breaches, circles, imports

#: The imports that go the other way, of an older order of the parts. A line that is gone goes from here; none comes in.
KNOWN = Path(__file__).with_name("breaches.txt").read_text().splitlines()
#: Imports to cut until no module imports itself through others. This number only falls.
CIRCLES = 5


def test_parts_import_what_stands_above_them() -> None:
    found = breaches(imports())
    assert sorted(set(found) - set(KNOWN)) == [], "these go against the order of tests/house/imports.py"
    assert sorted(set(KNOWN) - set(found)) == [], "these are mended: take them out of tests/house/breaches.txt"


def test_circles_of_imports_become_fewer() -> None:
    assert circles(imports()) <= CIRCLES


def test_the_drawings_of_the_design_are_of_this_code() -> None:
    page = (TREE / "docs/design.md").read_text()
    assert drawn(page) == page, "run make drawings"
