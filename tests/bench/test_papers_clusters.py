"""The work of the papers' clusters, which is exact, at a tiny size."""

from bench.papers import panjoin, spo_join
from bench.papers.figure import Scale

SCALE = Scale(quick=True, seconds=0)


def test_a_manager_sends_probes_to_all_workers_and_rows_to_one() -> None:
    window, batch, workers = 1024, 256, 4
    for structure in (panjoin.BISORT, panjoin.RAP):
        point = panjoin._measured("", 0, structure, workers, window, batch, 1, SCALE)
        assert point["probes_left"] == point["probes_right"] == workers * batch
        assert point["rows_left"] + point["rows_right"] == 2 * batch
        # Of four bytes of key and two numbers each; a worker that stores a row probes for it as well.
        assert point["sent_bytes"] == 2 * workers * batch * 20


def test_elements_find_every_pair_and_no_expired_one() -> None:
    run = spo_join.Elements(3, 30, "replaced", form="pairs", more=10)
    right, total = spo_join._right(run, 2)
    assert right == total == 64
    assert spo_join._expired(run)[0] > 0
    run.join.close()
