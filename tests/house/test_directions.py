"""Each part of the tree imports only what stands above it."""

from tests.house.__main__ import drawn
from tests.house.imports import TREE, breaches, circles, imports, unknown_names


def test_parts_import_what_stands_above_them() -> None:
    assert breaches(imports()) == [], "these go against the order of tests/house/imports.py"


def test_what_is_imported_is_there() -> None:
    assert unknown_names() == []


def test_no_module_imports_itself_through_others() -> None:
    assert circles(imports()) == 0


def test_the_drawings_of_the_design_are_of_this_code() -> None:
    page = (TREE / "docs/design.md").read_text()
    assert drawn(page) == page, "run make drawings"
