"""One memory port spread over several."""

from amaranth import Array, Module, Signal
from amaranth.lib import fifo, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from muntin.contract import ParameterError
from muntin.hw.memory.axi4_signature import Axi4Signature
from muntin.hw.memory.port_shape import PortShape


class PortInterleaver(wiring.Component):
    """Spreads the bursts of one memory port over several by address.

    A controller that keeps the commands of a port in order, as LiteDRAM does, opens the next row only once
    the last one is done with, and loses about eleven cycles at every row. With neighbouring rows on two ports
    it opens the next row while it still reads this one. Where the ports are channels, this makes one memory
    of them.

    Parameters
    ----------
    shape : PortShape
        Widths and limits; `outstanding` counts all bursts of a direction.
    ports : int
        How many: a power of two.
    stride : int
        Bytes after which the next port follows: a power of two, at least a burst.

    Attributes
    ----------
    i : In(Axi4Signature)
        From an engine. No burst may cross a multiple of `stride`.
    axi : array of Out(Axi4Signature)
        To the memory; each port must answer in order. All see the whole address.

    Timing
    ------
    Everything passes through in the same cycle. Data and acknowledgements come back in the order of their
    addresses.

    Raises
    ------
    ParameterError
        If `ports` or `stride` is not a power of two, or a burst is longer than `stride`.
    """

    def __init__(self, shape: PortShape, *, ports: int, stride: int):
        if ports < 2 or ports & (ports - 1):
            raise ParameterError(f"ports must be a power of two, at least 2, not {ports!r}")
        if stride & (stride - 1) or stride < shape.burst_bytes:
            raise ParameterError(
                f"stride must be a power of two, at least burst_bytes ({shape.burst_bytes}), not {stride!r}"
            )
        self._shape = shape
        self._ports = ports
        self._stride = stride
        signature = Axi4Signature(shape.address_width, shape.data_width, shape.id_width)
        super().__init__({"i": In(signature), "axi": Out(signature).array(ports)})

    def elaborate(self, platform):
        m = Module()
        ports = list(self.axi)
        low = exact_log2(self._stride)
        width = exact_log2(self._ports)
        orders = {}
        for name in ("read", "write", "answer"):
            orders[name] = fifo.SyncFIFO(width=width, depth=self._shape.outstanding)
            m.submodules[f"{name}_order"] = orders[name]
        read, write, answer = orders.values()

        # Addresses go to the port that they name, as long as there is room to remember it.
        for channel, room, kept in (
            ("ar", read.w_rdy, (read,)),
            ("aw", write.w_rdy & answer.w_rdy, (write, answer)),
        ):
            valid, ready = getattr(self.i, f"{channel}valid"), getattr(self.i, f"{channel}ready")
            number = Signal(width, name=f"{channel}_port")
            m.d.comb += [
                number.eq(getattr(self.i, f"{channel}addr")[low : low + width]),
                ready.eq(room & Array(getattr(port, f"{channel}ready") for port in ports)[number]),
            ]
            for order in kept:
                m.d.comb += [order.w_data.eq(number), order.w_en.eq(valid & ready)]
            for index, port in enumerate(ports):
                m.d.comb += getattr(port, f"{channel}valid").eq(valid & room & (number == index))
                for field in ("id", "addr", "len", "size", "burst"):
                    source = getattr(self.i, f"{channel}{field}")
                    m.d.comb += getattr(port, f"{channel}{field}").eq(source)

        # Data to write follow the order of their addresses.
        data_port = Array(ports)[write.r_data]
        m.d.comb += [
            self.i.wready.eq(write.r_rdy & data_port.wready),
            write.r_en.eq(self.i.wvalid & self.i.wready & self.i.wlast),
        ]
        for index, port in enumerate(ports):
            m.d.comb += [
                port.wvalid.eq(self.i.wvalid & write.r_rdy & (write.r_data == index)),
                port.wdata.eq(self.i.wdata),
                port.wstrb.eq(self.i.wstrb),
                port.wlast.eq(self.i.wlast),
            ]

        # What comes back is taken in that order too.
        for channel, order, fields, last in (
            ("r", read, ("id", "data", "resp", "last"), self.i.rlast),
            ("b", answer, ("id", "resp"), 1),
        ):
            valid, ready = getattr(self.i, f"{channel}valid"), getattr(self.i, f"{channel}ready")
            source = Array(ports)[order.r_data]
            m.d.comb += [
                valid.eq(order.r_rdy & getattr(source, f"{channel}valid")),
                order.r_en.eq(valid & ready & last),
            ]
            for field in fields:
                m.d.comb += getattr(self.i, f"{channel}{field}").eq(getattr(source, f"{channel}{field}"))
            for index, port in enumerate(ports):
                m.d.comb += getattr(port, f"{channel}ready").eq(ready & order.r_rdy & (order.r_data == index))
        return m
