"""How Radiona's ULX3S with an ECP5-85 is built.

Source of pins: amaranth-boards; litex-boards has the same. Of the memory: litex-boards, whose target takes MT48LC16M16,
AS4C16M16 or AS4C32M16, by what a version carries; all have four banks of 8192 rows. The least of them is built for,
with a refresh that is long enough for each; half of a larger one stays unused. The clock at the chip is a quarter of a
cycle behind, as there, and drives nothing but its pin: all registers have one clock. Pin L2 goes to the ESP32, which
may load another bitstream unless it is held at 1.
"""

from muntin.contract.boards import board
from muntin.hw.boards.ecp5_board import Ecp5Board
from muntin.hw.dram.dram_settings import SdrSettings

_BOARD = board("ulx3s")

BUILD = Ecp5Board.of(
    _BOARD,
    platform="amaranth_boards.ulx3s:ULX3S_85F_Platform",
    device="85k",
    package="CABGA381",
    speed="6",
    pins={
        "clk25": "clk25",
        "rst": "button_fire",
        "uart_rx": "uart.rx",
        "uart_tx": "uart.tx",
        "led": "led",
        "led_clock": "led:1",
        "led_memory": "led:2",
        "esp32_gpio0": "esp32.gpio0",
        **{f"sdram_{pad}": f"sdram.{pad}" for pad in ("clk", "a", "ba", "dq")},
        "sdram_cke": "sdram.clk_en",
        "sdram_cs_n": "sdram.cs",
        "sdram_ras_n": "sdram.ras",
        "sdram_cas_n": "sdram.cas",
        "sdram_we_n": "sdram.we",
        "sdram_dm": "sdram.dqm",
    },
    high=("esp32_gpio0",),
    input_hz=25_000_000,
    dram=SdrSettings(
        module="MT48LC16M16",
        speedgrade="default",
        refresh_ns=70,
        chip_bits=16,
        beat_transfers=4,
        clock_hz=_BOARD.parameters["bisort"].clock_hz,
        ports=1,
        read_buffer=64,
        write_buffer=32,
        command_buffer=8,
        read_time=32,
        write_time=16,
        refresh_postponing=1,
    ),
    row_bits=13,
    bank_bits=2,
    seeds=(1, 2, 3),
    crossings=(),
)
