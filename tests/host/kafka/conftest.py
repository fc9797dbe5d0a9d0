"""A cluster for the tests of a file, and topics of their own for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from tests.host.kafka.cluster import Producer, cluster
from tests.host.kafka.world import World


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with cluster() as address:
        yield address


@pytest.fixture
def world(servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(confluent_kafka, "Producer", Producer)
    return World(servers, tmp_path)
