"""How LambdaConcept's ECPIX-5 is built.

Source of pins: amaranth-boards, which has those of revision R03; of the memory part and the pulled up pins of Ethernet:
litex-boards. The two differ in the reset button's pin (AB1, N5): pulled up, one that leads nowhere resets nothing.
"""

from muntin.contract.boards import board
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.hw.dram.dram_settings import Ddr3Settings

_BOARD = board("ecpix5")

BUILD = Ecp5Board.of(
    _BOARD,
    platform="amaranth_boards.ecpix5:ECPIX585Platform",
    device="um5g-85k",
    package="CABGA554",
    speed="8",
    pins={
        "clk100": "clk100",
        "rst_n": "rst",
        "uart_rx": "uart.rx",
        "uart_tx": "uart.tx",
        "led_n": "rgb_led.g",
        "led_clock_n": "rgb_led:1.g",
        "led_memory_n": "rgb_led:2.g",
        **{f"ddram_{pad}": f"ddr3.{pad}" for pad in ("a", "ba", "dm", "dq", "odt")},
        "ddram_clk_p": "ddr3.clk",
        "ddram_cke": "ddr3.clk_en",
        "ddram_ras_n": "ddr3.ras",
        "ddram_cas_n": "ddr3.cas",
        "ddram_we_n": "ddr3.we",
        "ddram_dqs_p": "ddr3.dqs",
        **{f"eth_{pad}": f"eth_rgmii.{pad}" for pad in ("tx_data", "rx_data")},
        "eth_clk_tx": "eth_rgmii.tx_clk",
        "eth_clk_rx": "eth_rgmii.rx_clk",
        "eth_tx_ctl": "eth_rgmii.tx_ctrl",
        "eth_rx_ctl": "eth_rgmii.rx_ctrl",
        "eth_rst_n": "eth_rgmii.rst",
    },
    pulled_up=("rst_n", "eth_rx_data"),  # the latter tells the chip, in its reset, to offer all rates of RGMII
    input_hz=100_000_000,
    dram=Ddr3Settings(
        module="MT41K256M16",
        speedgrade="800",
        refresh_ns=260,
        chip_bits=16,
        beat_transfers=8,
        clock_hz=_BOARD.parameters["bisort"].clock_hz,
        ports=2,
        read_buffer=64,
        write_buffer=32,
        command_buffer=8,
        read_time=255,
        write_time=255,
        refresh_postponing=8,
    ),
    output_registers=("splitjoin",),
    free_rows=("splitjoin", "bisort-ethernet"),
    row_bits=15,
    bank_bits=3,
    seeds=(2, 1, 3),
    for_delays=("splitjoin", "bisort-ethernet"),
    crossings=(
        # Resets, which begin at once and end through two registers of the clock they belong to.
        "clk100$TRELLIS_IO_IN -> clk",
        "clk100$TRELLIS_IO_IN -> dram.core_clkout1",
        "dram.core_clkout1 -> clk",
        # The same, and Ethernet's FIFOs, by Gray codes through two registers.
        "clk -> eth_clk_rx$TRELLIS_IO_IN",
        "eth_clk_rx$TRELLIS_IO_IN -> clk",
    ),
)
