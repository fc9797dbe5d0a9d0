"""A device that keeps windows as sorted runs."""

from __future__ import annotations

import abc
from typing import cast

from muntin.host.devices.device import Device
from muntin.host.engine.engine import Engine, EngineSpec
from muntin.host.engine.index_engine import IndexEngine
from muntin.host.engine.run_store import SOME_RUNS, Reservation, RunStore
from muntin.host.engine.sorted_runs import RunWindow
from muntin.host.engine.window_index import WindowIndex
from muntin.host.engines import EngineKind
from muntin.host.errors import UnsupportedError
from muntin.host.index import BiSort, Index, RunPolicy, SortedRuns
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.sides import Side, Sides


class RunDevice(Device):
    """A device with stores of sorted runs."""

    indexes: tuple[str, ...] = (SortedRuns.name, BiSort.name)

    def index(self, chosen: str | Index, engine: EngineKind) -> Index:
        """See `Device`."""
        index = super().index(chosen, engine)
        if isinstance(index, BiSort) and index.own_subwindows:
            raise UnsupportedError(
                f"device {self.info.name} keeps BI-Sort as runs: partitions and subwindow_rows are for 'cpu' alone"
            )
        return index

    def open_engine(self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: Sides[int], index: Index) -> Engine:
        """See `Device`."""
        assert isinstance(index, RunPolicy)

        def open_window(side: Side, count: int | None, step_rows: int) -> WindowIndex:
            return RunWindow(self.open_store, index, spec, side, count, key_bits[side], step_rows)

        return IndexEngine(spec, generator, open_window)

    @abc.abstractmethod
    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> RunStore:
        """Room for the runs of one side.

        Parameters
        ----------
        key_bits : int
            32 or 64.
        rows : int
            Rows all runs together may hold, merge output included.
        what : str
            Named in the error, such as "the left window".
        runs : int
            How many runs there may be at once: each may be padded to the granule.

        Raises
        ------
        CapacityError
            With the bytes needed and available.
        """

    @abc.abstractmethod
    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Reservation:
        """What `open_store` would take for these parameters. Takes nothing.

        Raises
        ------
        CapacityError
            If there can be no such store, whatever is free.
        """

    def trial(self) -> Device:
        return _TrialDevice(self)


class _TrialDevice(RunDevice):
    """See `Device.trial`."""

    def __init__(self, device: RunDevice):
        super().__init__(device.info, device.memory_bytes)
        self._device = device

    def room(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> Reservation:
        return self._device.room(key_bits=key_bits, rows=rows, what=what, runs=runs)

    def open_store(self, *, key_bits: int, rows: int, what: str, runs: int = SOME_RUNS) -> RunStore:
        room = self.room(key_bits=key_bits, rows=rows, what=what, runs=runs)
        self.reserve(room.nbytes, what)  # of this stand-in's memory, so that both sides count
        return cast(RunStore, room)  # has what is asked of a store until rows come
