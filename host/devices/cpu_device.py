"""The native core on the processor's cores: the default device."""

from __future__ import annotations

from typing import ClassVar

from muntin.host.aggregates.plan import AggregatePlan
from muntin.host.devices.device import Device, DeviceInfo
from muntin.host.engine.aggregate_engine import AggregateEngine
from muntin.host.engine.engine import EngineSpec
from muntin.host.engine.native_engine import NativeEngine, SharedEngine, SpoEngine
from muntin.host.engine.splitjoin_cores import SplitJoinCores
from muntin.host.engines import EngineKind, Shared, SplitJoin, Steps
from muntin.host.errors import DeviceError, UnsupportedError
from muntin.host.index import Index, open_index
from muntin.host.keys.boundary_generator import BoundaryGenerator
from muntin.host.keys.constants import whole_number
from muntin.host.memory import usable_memory
from muntin.host.native import INDEXES, _core
from muntin.host.sides import Sides

_ALL_THREADS = 1 << 20  # more than any pool has


class CpuDevice(Device):
    """The native core, in this process's memory.

    All joins of a process share one pool of threads, which `muntin.set_threads` sizes; as many as there are cores by
    default. A join that finds the pool at work for another one goes on with its own thread alone.

    Parameters
    ----------
    threads : int or None
        The most threads that a call of a join on this device uses; None for all of the pool.
    memory_bytes : int or None
        Memory that windows may take; half the machine's by default.
    engine : str or None
        The engine of joins that name none, instead of the first of `engines`.

    Raises
    ------
    DeviceError
        If `threads` is not a positive number, or there is no such engine.
    """

    indexes = tuple(name for name, entry in INDEXES.items() if Steps.name in entry.engines)
    range_indexes: ClassVar[tuple[str, ...]] = tuple(name for name, entry in INDEXES.items() if entry.ranges)
    in_process: ClassVar[bool] = True
    as_of: ClassVar[bool] = True
    aggregates: ClassVar[bool] = True
    engines: tuple[str, ...] = (Steps.name, SplitJoin.name, Shared.name)

    def __init__(self, threads: int | None = None, memory_bytes: int | None = None, engine: str | None = None):
        most = _ALL_THREADS if threads is None else whole_number(threads)
        if most is None or most < 1:
            raise DeviceError(f"threads must be a whole number of at least 1, not {threads!r}")
        memory = usable_memory() if memory_bytes is None else memory_bytes
        if engine is not None:
            if engine not in self.engines:
                raise DeviceError(f"device cpu has no engine {engine!r}: it has {', '.join(self.engines)}")
            self.engines = (engine, *(name for name in self.engines if name != engine))
        given = [
            f"{option}={value}" for option, value in (("threads", threads), ("engine", engine)) if value is not None
        ]
        name = ":".join(["cpu", *filter(None, [",".join(given)])])
        super().__init__(
            DeviceInfo(name, "cpu", f"native core, {_core.isa()}, {_core.threads()} threads", memory), memory
        )
        self.threads = min(most, _ALL_THREADS)

    @classmethod
    def found(cls) -> list[DeviceInfo]:
        """This device is always there."""
        return [cls().info]

    @classmethod
    def open(cls, which: str = "") -> CpuDevice:
        """Opens it: ``"cpu"``, ``"cpu:threads=N"``, ``"cpu:engine=NAME"``, or both. Raises DeviceError for the rest."""
        options: dict[str, str] = {}
        for part in which.split(",") if which else ():
            option, _, value = part.partition("=")
            if (
                option in options
                or option not in ("threads", "engine")
                or (option == "threads" and not value.isdecimal())
            ):
                raise DeviceError(
                    "behind 'cpu:' comes threads=N, the most threads of a call, or engine=NAME, that of joins that "
                    f"name none, not {which!r}"
                )
            options[option] = value
        threads = int(options["threads"]) if "threads" in options else None
        return cls(threads=threads, engine=options.get("engine"))

    def trial(self) -> CpuDevice:
        """See `Device`."""
        device = CpuDevice(memory_bytes=self.memory_bytes)
        device.engines = self.engines
        return device

    def indexes_of(self, engine: EngineKind) -> tuple[str, ...]:
        """See `Device`."""
        return tuple(name for name, entry in INDEXES.items() if engine.name in entry.engines)

    def index(self, chosen: str | Index, engine: EngineKind) -> Index:
        """See `Device`."""
        if chosen != "auto":
            check_built(open_index(chosen))
        return super().index(chosen, engine)

    def key_bits(self, index: Index, engine: EngineKind) -> int:
        """See `Device`."""
        return max(INDEXES[index.name].key_bits) if engine.name == Steps.name else 64

    def open_engine(
        self, spec: EngineSpec, generator: BoundaryGenerator, key_bits: Sides[int], index: Index
    ) -> NativeEngine:
        """See `Device`."""
        if index.conjunctive:
            return SpoEngine(self, spec, generator, key_bits, index)
        kind = {SplitJoin.name: SplitJoinCores, Shared.name: SharedEngine}.get(spec.engine.name, NativeEngine)
        return kind(self, spec, generator, key_bits, index)

    def open_aggregates(
        self, spec: EngineSpec, generator: BoundaryGenerator, plan: AggregatePlan, *, itself: bool, close: bool
    ) -> AggregateEngine:
        """The engine of a join with ``form="aggregate"``; parameters as of `AggregateEngine`."""
        return AggregateEngine(self, self.threads, spec, generator, plan, itself=itself, close=close)


def check_built(index: Index) -> None:
    """Raises UnsupportedError where an index is, or holds, one that this build of the core leaves out: Judy arrays."""
    inner = getattr(index, "of", index)
    if not INDEXES[inner.name].built:
        raise UnsupportedError(
            f"index {index.name!r} needs Judy arrays, which this build of the native core leaves out: "
            "install Debian's libjudy-dev and build Muntin again"
        )
