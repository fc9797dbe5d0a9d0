"""Faults for the proofs to find."""

import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest


@pytest.fixture
def fault(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, str], None]:
    """Plants a fault: replaces a piece of text in the `elaborate` of a component, where it stands once."""

    def plant(component: type, right: str, wrong: str) -> None:
        method: FunctionType = component.elaborate
        source = textwrap.dedent(inspect.getsource(method))
        assert source.count(right) == 1, f"{right!r} must stand once in {component.__name__}.elaborate"
        space: dict[str, Any] = {}
        exec(source.replace(right, wrong), method.__globals__, space)
        monkeypatch.setattr(component, "elaborate", space["elaborate"])

    return plant
