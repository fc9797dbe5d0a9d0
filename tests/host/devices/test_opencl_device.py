"""Memory and drivers of the OpenCL device."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from muntin.host.devices import opencl_device
from muntin.host.devices.device import DeviceInfo
from muntin.host.devices.opencl_device import OpenClDevice, find_driver
from muntin.host.engine.run_store import Limits
from muntin.host.errors import CapacityError, DeviceError

KEYS = np.arange(50_000, dtype=np.int64)
ROWS = KEYS.astype(np.uint32)


@pytest.fixture
def device():
    try:
        return OpenClDevice.open()
    except DeviceError as error:
        pytest.skip(str(error))


def test_a_dropped_store_waits_for_its_commands(device, monkeypatch):
    """Nothing that a command uses goes before it is done; then the reservation goes, too."""
    store = device.open_store(key_bits=64, rows=1 << 18, what="a window")
    memory = store._memory
    store.merge(store.load(KEYS, ROWS), store.load(KEYS, ROWS))
    assert memory._held
    finished = []
    finish = opencl_device.finish
    monkeypatch.setattr(
        opencl_device, "finish", lambda *queue: finished.append((len(memory._held), memory.keys)) or finish(*queue)
    )
    del store
    (held, keys), *more = finished
    assert held
    assert keys is not None
    assert not more
    assert not memory._held
    assert memory.keys is None
    assert device.used_bytes == 0


def test_an_interrupted_gather_keeps_its_arrays(device, monkeypatch):
    """What a kernel writes to stays, though the call that enqueued it has failed before it could wait."""
    store = device.open_store(key_bits=64, rows=1 << 18, what="a window")
    run = store.load(KEYS, ROWS)
    probe = store.probe([run], KEYS - 5, KEYS + 5)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "_fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(store.gather(probe, KEYS, 0))
    assert store._memory._held
    # The store goes on: what was under way is done first.
    pairs = sum(len(stored) for _, stored in store.gather(store.probe([run], KEYS, KEYS), KEYS, 0))
    assert pairs == len(KEYS)
    assert not store._memory._held
    store.close()
    store.close()
    assert device.used_bytes == 0


@pytest.mark.parametrize("limited", [False, True])
def test_whole_groups_and_copies_as_on_a_gpu(device, limited):
    """A driver for CPUs carries out the commands in groups of work-items, and by copies, as a GPU does."""
    device.is_cpu, device.group, device.probe_chunk = False, 64, 4
    store = device.open_store(key_bits=64, rows=1 << 18, what="a window")
    random = np.random.default_rng(5)
    keys = [np.sort(random.integers(0, 300, rows)) for rows in (1500, 40_000)]
    numbers = [random.permutation(len(k)).astype(np.uint32) for k in keys]
    merged = store.merge(store.load(keys[0], numbers[0]), store.load(keys[1], numbers[1]))
    runs, all_keys, all_numbers = [merged], np.concatenate(keys), np.concatenate(numbers)
    lower = np.sort(random.integers(-5, 305, 333))
    first, span = random.integers(0, 40_000, 333).astype(np.uint32), random.integers(0, 9000, 333).astype(np.uint32)
    limits = Limits(first, span, np.ones(1, bool)) if limited else None
    pairs = list(store.gather(store.probe(runs, lower, lower + 2), np.arange(333), 0, limits))
    got = sorted(zip(*(np.concatenate(side).tolist() for side in zip(*pairs, strict=True)), strict=True))
    expected = [
        (probe, int(number))
        for probe, low in enumerate(lower)
        for number in all_numbers[(all_keys >= low) & (all_keys <= low + 2)]
        if not limited or 0 <= int(number) - int(first[probe]) < span[probe]
    ]
    assert got == sorted(expected)
    assert len(expected) > 100
    counts = store.count(store.probe(runs, lower, lower + 2), limits)
    assert counts.tolist() == np.bincount([probe for probe, _ in expected], minlength=333).tolist()
    store.close()


def test_a_closed_store_is_refused_by_name(device):
    store = device.open_store(key_bits=32, rows=1 << 12, what="a window")
    store.close()
    assert store.nbytes == 0
    with pytest.raises(DeviceError, match="was closed, and is used again"):
        store.load(KEYS[:10].astype(np.int32), ROWS[:10])


def test_a_store_that_does_not_grow_reserves_no_more(device, monkeypatch):
    store = device.open_store(key_bits=64, rows=1 << 12, what="a window")
    used = device.used_bytes

    def refused(nbytes):
        raise opencl_device.cl.MemoryError("none")

    monkeypatch.setattr(device, "buffer", refused)
    with pytest.raises(CapacityError, match="gave no"):
        store.grow(1 << 16)
    assert device.used_bytes == used == store.nbytes


@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"])
def test_a_driver_that_is_named_stays(monkeypatch, tmp_path, name):
    for other in opencl_device._DRIVER_VARIABLES:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr(opencl_device, "_VENDORS", tmp_path)
    monkeypatch.setenv(name, "somewhere")
    find_driver()
    assert {other: os.environ.get(other) for other in opencl_device._DRIVER_VARIABLES} == {
        other: "somewhere" if other == name else None for other in opencl_device._DRIVER_VARIABLES
    }


def test_a_driver_of_the_system_stays(monkeypatch, tmp_path):
    for name in opencl_device._DRIVER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opencl_device, "_VENDORS", tmp_path)
    (tmp_path / "some.icd").write_text("libsome.so")
    find_driver()
    assert "OCL_ICD_VENDORS" not in os.environ


def test_the_driver_from_pypi_is_found(monkeypatch, tmp_path):
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(opencl_device, "_VENDORS", tmp_path)
    for name in opencl_device._DRIVER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(opencl_device.importlib.metadata, "files", lambda package: [Found(tmp_path / "libintelocl.so")])
    find_driver()
    assert os.environ["OCL_ICD_VENDORS"] == str(tmp_path / "libintelocl.so")


class Found:
    """A file of an installed package."""

    def __init__(self, path: Path):
        self.name, self._path = path.name, path

    def locate(self) -> Path:
        return self._path


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("import sys; sys.modules['pyopencl'] = None", r"pip install 'muntin[opencl]'"),
        ("import os; os.environ['OCL_ICD_VENDORS'] = '/nowhere/'", r"pip install 'muntin[opencl-cpu]'"),
    ],
)
def test_its_absence_is_told_with_its_reason(broken, reason):
    """In a process of its own, as drivers are looked for once."""
    if "sys.modules" not in broken:
        pytest.importorskip("pyopencl")
    text = (
        f"{broken}\nfrom muntin.hardware import list_devices\nprint([i for i in list_devices() if i.kind == 'opencl'])"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    (info,) = eval(done.stdout, {"DeviceInfo": DeviceInfo})
    assert info.name == "opencl"
    assert not info.available
    assert info.memory_bytes == 0
    assert reason in info.reason
