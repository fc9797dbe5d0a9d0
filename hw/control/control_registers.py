"""The registers of a kernel behind AXI4-Lite."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from muntin.contract.registers import Access, KernelMap
from muntin.hw.control.layouts import Axi4LiteSignature, SettingsLayout, StatusLayout


class ControlRegisters(wiring.Component):
    """The registers of a kernel behind AXI4-Lite, as `muntin.contract.registers` lists them.

    Start, done and idle work as in OpenCL RTL kernels: the host sets start, which stays until the kernel has
    taken it; done and ready stay until the host has read them.

    Parameters
    ----------
    kernel : KernelMap
        Which registers there are.

    Attributes
    ----------
    axi : In(Axi4LiteSignature)
        From the host. An address without a register reads zero and takes no writes. Bytes without a strobe
        keep their value.
    start : Out(1)
        Until `ready`.
    auto_restart : Out(1)
    ready, done : In(1)
        The kernel has taken the start, has worked off its commands: high for one cycle each.
    idle : In(1)
        Nothing is under way.
    interrupt : Out(1)
        An event that is enabled has happened and was not cleared.
    pushed : Out(1)
        The host wrote `word` to QUEUE_PUSH; high for one cycle.
    word : Out(32)
    timeout_cycles : Out(32)
    error_clear, counter_clear : Out(1)
        The host cleared the error, the counters; high for one cycle each.
    status : In(StatusLayout)
        Values of the registers that the kernel gives.
    settings : Out(SettingsLayout)
        What the host wrote to the kernel's settings.

    Timing
    ------
    A read is answered in the cycle after its address was taken, a write in the cycle after both its address
    and its data were there; one of each every two cycles.

    Source
    ------
    The start/done/idle register is that of OpenCL RTL kernels (``ap_ctrl_hs`` behind AXI4-Lite).
    """

    def __init__(self, kernel: KernelMap):
        self._kernel = kernel
        last = max(register.offset for register in kernel.registers())
        super().__init__(
            {
                "axi": In(Axi4LiteSignature((last + 3).bit_length())),
                "start": Out(1),
                "auto_restart": Out(1),
                "ready": In(1),
                "done": In(1),
                "idle": In(1),
                "interrupt": Out(1),
                "pushed": Out(1),
                "word": Out(32),
                "timeout_cycles": Out(32),
                "error_clear": Out(1),
                "counter_clear": Out(1),
                "status": In(StatusLayout(kernel)),
                "settings": Out(SettingsLayout(kernel)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        axi = self.axi
        table = {register.name: register for register in self._kernel.registers()}

        # One write at a time, one read at a time.
        write = Signal()
        read = Signal()
        m.d.comb += [
            write.eq(axi.awvalid & axi.wvalid & (~axi.bvalid | axi.bready)),
            axi.awready.eq(write),
            axi.wready.eq(write),
            read.eq(axi.arvalid & (~axi.rvalid | axi.rready)),
            axi.arready.eq(read),
        ]
        with m.If(axi.bready):
            m.d.sync += axi.bvalid.eq(0)
        with m.If(write):
            m.d.sync += axi.bvalid.eq(1)
        with m.If(axi.rready):
            m.d.sync += axi.rvalid.eq(0)
        with m.If(read):
            m.d.sync += axi.rvalid.eq(1)

        # Values of all registers.
        values = {}
        for register in table.values():
            if register.access is Access.WRITE:
                values[register.name] = Signal(32, name=register.name.lower())
            elif register.access is Access.PULSE:
                values[register.name] = 0
            elif register.name.lower() in self.status.shape().members:
                values[register.name] = self.status[register.name.lower()]
        # A counter is read as it was when its low word was.
        high = Signal(32)
        lows = [register for register in self._kernel.counter_registers() if register.name.endswith("_LOW")]
        for low in lows:
            name = low.name.removesuffix("_LOW") + "_HIGH"
            with m.If(read & ((axi.araddr >> 2) == low.offset >> 2)):
                m.d.sync += high.eq(values[name])
            values[name] = high
        was_done = Signal()
        was_ready = Signal()
        events = Signal(2)
        fields = {
            "start": self.start,
            "done": was_done,
            "idle": self.idle,
            "ready": was_ready,
            "auto_restart": self.auto_restart,
        }
        control = Signal(32)
        for name, value in fields.items():
            m.d.comb += control[table["CONTROL"].field(name).lsb].eq(value)
        values["CONTROL"] = control
        values["INTERRUPT_STATUS"] = events

        with m.If(read):
            m.d.sync += axi.rdata.eq(0)
            with m.Switch(axi.araddr >> 2):
                for name, value in values.items():
                    with m.Case(table[name].offset >> 2):
                        m.d.sync += axi.rdata.eq(value)

        def written(name):
            return write & ((axi.awaddr >> 2) == table[name].offset >> 2)

        mask = Cat(axi.wstrb[byte].replicate(8) for byte in range(4))
        data = Signal(32)
        m.d.comb += data.eq(axi.wdata & mask)
        for name, value in values.items():
            if table[name].access is Access.WRITE:
                with m.If(written(name)):
                    m.d.sync += value.eq((value & ~mask) | data)

        # The handshake.
        lsb = {name: table["CONTROL"].field(name).lsb for name in fields}
        read_control = read & ((axi.araddr >> 2) == table["CONTROL"].offset >> 2)
        m.d.sync += [
            was_done.eq(self.done | (was_done & ~read_control)),
            was_ready.eq(self.ready | (was_ready & ~read_control)),
        ]
        with m.If(self.ready):
            m.d.sync += self.start.eq(0)
        with m.If(written("CONTROL") & axi.wstrb[0]):
            m.d.sync += self.auto_restart.eq(data[lsb["auto_restart"]])
            with m.If(data[lsb["start"]]):
                m.d.sync += self.start.eq(1)

        # Interrupts.
        cleared = Mux(written("INTERRUPT_STATUS"), data[:2], 0)
        enabled = values["INTERRUPT_ENABLE"][:2]
        m.d.sync += events.eq((events & ~cleared) | (Cat(self.done, self.ready) & enabled))
        m.d.comb += [
            self.interrupt.eq(values["GLOBAL_INTERRUPT_ENABLE"][0] & (events != 0)),
            self.timeout_cycles.eq(values["TIMEOUT_CYCLES"]),
            *(self.settings[setting.name.lower()].eq(values[setting.name]) for setting in self._kernel.settings),
            self.pushed.eq(written("QUEUE_PUSH")),
            self.word.eq(data),
            self.error_clear.eq(written("ERROR_CODE")),
            self.counter_clear.eq(written("COUNTER_CLEAR")),
        ]
        return m
