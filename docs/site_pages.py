"""What the site has beside the pages of this folder: the front page and others of the folder above, and the reference.

A hook of MkDocs (`mkdocs.yml`).
"""

import importlib
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
#: Pages that lie above this folder, by their names here.
ABOVE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
#: The public modules, each a part of the reference.
MODULES = (
    "muntin",
    "muntin.spark",
    "muntin.kafka",
    "muntin.errors",
    "muntin.index",
    "muntin.engine",
    "muntin.hardware",
)


def on_files(files, config):
    """Adds them."""
    for name, here in ABOVE.items():
        files.append(File.generated(config, here, content=(ROOT / name).read_text()))
    files.append(File.generated(config, "reference.md", content=reference()))
    return files


def on_page_markdown(markdown, page, **_):
    """Has links lead to where pages lie in the site; those to other files of the repository lead nowhere here."""

    def link(found):
        text, target, fragment = found.groups("")
        if page.file.src_uri in ABOVE.values():
            target = target.removeprefix("docs/") if target.startswith("docs/") else f"../{target}"
        if not target.startswith("../"):
            return f"[{text}]({target}{fragment})"
        above = ABOVE.get(target.removeprefix("../"))
        return f"[{text}]({above}{fragment})" if above else text

    return re.sub(r"\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)", link, markdown)


def reference():
    """A page of directives, one for each public name."""
    lines = ["# Reference", "", "The public interface, from its docstrings.", ""]
    for module in MODULES:
        loaded = importlib.import_module(module)
        lines += [f"## `{module}`", ""]
        for name in sorted(loaded.__all__, key=str.lower):
            if not isinstance(getattr(loaded, name), type(importlib)):
                lines += [f"::: {module}.{name}", ""]
    return "\n".join(lines)
