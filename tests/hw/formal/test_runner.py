"""Verdicts are kept; what was not decided is not."""

import subprocess

import pytest
from amaranth.lib import fifo

from muntin.sim.kept import COUNTS
from tests.hw.formal import runner
from tests.hw.formal.fifo_proof import FifoProof, LibraryFifo


class _WrongFifo(fifo.SyncFIFO):
    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.w_rdy.eq(1)
        return m


@pytest.fixture(autouse=True)
def build(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "BUILD", tmp_path)


def prove(kind, depth=2):
    runner.run_proof(FifoProof(LibraryFifo(kind, depth=depth)), "fifo")


def refuse(*args, **kwargs):
    raise OSError("no sby")


def test_a_proof_is_made_once(monkeypatch):
    before = COUNTS.copy()
    prove(fifo.SyncFIFO)
    monkeypatch.setattr(subprocess, "run", refuse)
    prove(fifo.SyncFIFO)
    assert COUNTS - before == {"proof made": 1, "proof kept": 1}
    with pytest.raises(OSError, match="no sby"):
        prove(fifo.SyncFIFO, depth=4)


def test_a_counterexample_is_found_once(monkeypatch):
    with pytest.raises(runner.ProofError, match="Assertion violated") as first:
        prove(_WrongFifo)
    monkeypatch.setattr(subprocess, "run", refuse)
    first.value.trace.unlink()
    with pytest.raises(runner.ProofError, match="Assertion violated") as second:
        prove(_WrongFifo)
    assert str(second.value) == str(first.value)
    assert second.value.trace.exists()


@pytest.mark.parametrize("status", [2, 4, 8, 16])  # failed without a trace, unknown, timeout, error
def test_what_is_not_decided_is_not_kept(monkeypatch, status):
    run = subprocess.run

    def undecided(command, **options):
        return subprocess.CompletedProcess(command, status, "engine_0: undecided", "")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", undecided)
        for _ in range(2):
            with pytest.raises(
                runner.ProofError, match=rf"no proof, see .*undecided: sby failed with exit status {status}"
            ) as failure:
                prove(fifo.SyncFIFO)
            assert failure.value.trace is None
    assert subprocess.run is run
    prove(fifo.SyncFIFO)
