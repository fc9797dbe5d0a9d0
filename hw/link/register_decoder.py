"""Registers of the kernel, of the memory controller, and the description, behind one bus."""

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from muntin.contract.link import DESCRIPTION_BASE, DRAM_BASE, KERNEL_BASE, REGION_BITS
from muntin.hw.control.layouts import Axi4LiteSignature
from muntin.hw.link.signatures import CsrSignature, RegisterBusSignature


class RegisterDecoder(wiring.Component):
    """Hands each access to what lies at its address.

    Parameters
    ----------
    control_address_width : int
        Bits of an address of the kernel's registers.
    description : bytes
        What is read at `DESCRIPTION_BASE`, its length first.

    Attributes
    ----------
    bus : In(RegisterBusSignature)
    control : Out(Axi4LiteSignature)
        Registers of the kernel.
    csr : Out(CsrSignature)
        Registers of the memory controller.

    Timing
    ------
    Three cycles for a register of the memory controller, and for a word of the description; for one of the kernel two,
    and what it makes wait.
    """

    def __init__(self, control_address_width: int, description: bytes):
        padded = len(description).to_bytes(4, "little") + description + bytes(-len(description) % 4)
        self._words = [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]
        super().__init__(
            {
                "bus": In(RegisterBusSignature()),
                "control": Out(Axi4LiteSignature(control_address_width)),
                "csr": Out(CsrSignature()),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus, control, csr = self.bus, self.control, self.csr
        words = 1 << ceil_log2(len(self._words))
        m.submodules.description = memory = Memory(shape=unsigned(32), depth=words, init=self._words)
        told = memory.read_port()
        region = bus.address[-REGION_BITS:]
        low = bus.address[:-REGION_BITS]
        address_sent, data_sent = Signal(), Signal()
        # The kernel is at a distance from the link. An access is there a cycle before it is handed on.
        m.d.sync += [
            control.awaddr.eq(bus.address),
            control.araddr.eq(bus.address),
            control.wdata.eq(bus.value),
        ]
        m.d.comb += [
            control.wstrb.eq(-1),
            csr.adr.eq(bus.address >> 2),
            csr.dat_w.eq(bus.value),
            told.addr.eq(bus.address >> 2),
        ]

        def base(address: int) -> int:
            return address >> (32 - REGION_BITS)

        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [address_sent.eq(0), data_sent.eq(0)]
                with m.If(bus.valid):
                    with m.If((region == base(KERNEL_BASE)) & (low >> len(control.araddr) == 0)):
                        with m.If(bus.write):
                            m.next = "WRITE"
                        with m.Else():
                            m.next = "READ"
                    with m.Elif((region == base(DRAM_BASE)) & (low >> (len(csr.adr) + 2) == 0)):
                        m.d.comb += [csr.we.eq(bus.write), csr.re.eq(~bus.write)]
                        m.next = "CSR"
                    with m.Elif((region == base(DESCRIPTION_BASE)) & (low < 4 * len(self._words)) & ~bus.write):
                        m.next = "DESCRIPTION"
                    with m.Else():
                        m.d.comb += [bus.done.eq(1), bus.error.eq(1)]
                        m.next = "DONE"
            with m.State("WRITE"):
                m.d.comb += [control.awvalid.eq(~address_sent), control.wvalid.eq(~data_sent), control.bready.eq(1)]
                with m.If(control.awready):
                    m.d.sync += address_sent.eq(1)
                with m.If(control.wready):
                    m.d.sync += data_sent.eq(1)
                with m.If(control.bvalid):
                    m.d.comb += [bus.done.eq(1), bus.error.eq(control.bresp != 0)]
                    m.next = "DONE"
            with m.State("READ"):
                m.d.comb += [control.arvalid.eq(~address_sent), control.rready.eq(1)]
                with m.If(control.arready):
                    m.d.sync += address_sent.eq(1)
                with m.If(control.rvalid):
                    m.d.comb += [bus.done.eq(1), bus.read.eq(control.rdata), bus.error.eq(control.rresp != 0)]
                    m.next = "DONE"
            with m.State("CSR"):
                m.d.comb += [bus.done.eq(1), bus.read.eq(csr.dat_r)]
                m.next = "DONE"
            with m.State("DESCRIPTION"):
                m.d.comb += [bus.done.eq(1), bus.read.eq(told.data)]
                m.next = "DONE"
            with m.State("DONE"):  # who asks takes its request back
                m.next = "IDLE"
        return m
