"""Model of LiteDRAM's physical layer for the ECP5, with chips behind it."""

from __future__ import annotations

from litedram.phy.dfi import Interface
from litedram.phy.model import SDRAMPHYModel
from litex.soc.interconnect.csr import CSR, AutoCSR, CSRStatus, CSRStorage
from migen import Case, If, Module, Record, Signal

from muntin.hw.dram.dram_settings import Ddr3Settings
from muntin.hw.dram.ecp5_dram import ecp5_phy

WORKING = ((1, 2, 5), (3, 1, 6))
"""For each byte lane in turn the bitslip, and the first and the last delay, with which data are read right."""


class Ecp5PhyModel(Module, AutoCSR):
    """Model of LiteDRAM's `ECP5DDRPHY` over LiteDRAM's model of the chips, read wrong until it is levelled.

    It has the registers, the latencies and the phases of the physical layer. Unlike there, a lane reads right with
    the bitslip and the delays of `WORKING` alone, and wrong otherwise.

    Parameters
    ----------
    chip : SDRAMModule
    dram : Ddr3Settings
    """

    def __init__(self, chip, dram: Ddr3Settings):
        chip_bits = dram.chip_bits
        lanes = chip_bits // 8
        single = ("clk_p", "cke", "odt", "ras_n", "cas_n", "we_n")
        pads = Record(
            [
                *((name, 1) for name in single),
                ("a", chip.geom_settings.rowbits),
                ("ba", chip.geom_settings.bankbits),
                ("dm", lanes),
                ("dq", chip_bits),
                ("dqs_p", lanes),
            ]
        )
        # Made for its settings alone; what it is built of goes nowhere.
        self.settings = settings = ecp5_phy(pads, dram).settings
        self.submodules.chips = chips = SDRAMPHYModel(chip, settings, clk_freq=dram.clock_hz)
        self.dfi = dfi = Interface(
            chip.geom_settings.addressbits, chip.geom_settings.bankbits, 1, settings.dfi_databits, settings.nphases
        )
        # Both ways, but what is read; LiteDRAM's model marks it in the first phase alone.
        valid = chips.dfi.phases[0].rddata_valid
        self.comb += dfi.connect(chips.dfi, omit={"rddata", "rddata_valid"})
        self.comb += [phase.rddata_valid.eq(valid) for phase in dfi.phases]

        self._dly_sel = CSRStorage(lanes)
        self._rdly_dq_rst = CSR()
        self._rdly_dq_inc = CSR()
        self._rdly_dq_bitslip_rst = CSR()
        self._rdly_dq_bitslip = CSR()
        self._burstdet_clr = CSR()
        self._burstdet_seen = CSRStatus(lanes)
        for lane in range(lanes):
            bitslip, first, last = WORKING[lane % len(WORKING)]
            chosen = self._dly_sel.storage[lane]
            delay, slipped = Signal(max=settings.delays), Signal(max=settings.bitslips)
            in_time, right = Signal(), Signal()
            self.sync += [
                If(chosen & self._rdly_dq_inc.re, delay.eq(delay + 1)),
                If(chosen & self._rdly_dq_rst.re, delay.eq(0)),
                If(chosen & self._rdly_dq_bitslip.re, slipped.eq(slipped + 1)),
                If(chosen & self._rdly_dq_bitslip_rst.re, slipped.eq(0)),
                If(valid & in_time, self._burstdet_seen.status[lane].eq(1)),
                If(self._burstdet_clr.re, self._burstdet_seen.status[lane].eq(0)),
            ]
            self.comb += [
                in_time.eq((delay >= first) & (delay <= last)),
                right.eq(in_time & (slipped == bitslip) & ~chosen),
            ]
            for phase, of_chips in zip(dfi.phases, chips.dfi.phases, strict=True):
                for at in range(8 * lane, settings.dfi_databits, chip_bits):
                    data = of_chips.rddata[at : at + 8]
                    self.comb += Case(
                        right, {1: phase.rddata[at : at + 8].eq(data), 0: phase.rddata[at : at + 8].eq(~data)}
                    )
