// Cells of an ECP5 that make clocks or are at pins, as a board in simulation has them: its clock is the harness's.

// A phase-locked loop that gives the clock it takes, and on the second output the same some part of a cycle later, which
// is half a one here. Source: Lattice, FPGA-TN-02200: pins and dividers.
module EHXPLLL #(
    parameter CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 8, CLKOS_DIV = 8, CLKOS2_DIV = 8, FEEDBK_PATH = "",
    parameter CLKOP_CPHASE = 0, CLKOP_FPHASE = 0, CLKOS_CPHASE = 0, CLKOS_FPHASE = 0, CLKOS2_CPHASE = 0, CLKOS2_FPHASE = 0,
    parameter CLKOP_ENABLE = "ENABLED", CLKOS_ENABLE = "DISABLED", CLKOS2_ENABLE = "DISABLED"
) (
    input CLKI, RST, STDBY,
    output CLKOP, CLKOS, CLKOS2, LOCK
);
    generate
        if (FEEDBK_PATH != "INT_OS2" || CLKFB_DIV * CLKOS2_DIV != CLKOP_DIV * CLKI_DIV || CLKOS_DIV != CLKOP_DIV)
            there_is_no_model_of_a_loop_that_multiplies its_clock();
    endgenerate
    reg [3:0] cycles = 0;
    always @(posedge CLKI or posedge RST) if (RST) cycles <= 0; else if (!LOCK) cycles <= cycles + 1;
    assign LOCK = &cycles;
    assign {CLKOP, CLKOS, CLKOS2} = {CLKI, ~CLKI, CLKI};
endmodule

// An output that changes with both edges: `D0` while the clock is 1, `D1` while it is 0.
module ODDRX1F #(
    parameter GSR = "ENABLED"
) (
    input SCLK, RST, D0, D1,
    output Q
);
    assign Q = SCLK ? D0 : D1;
endmodule

// A pin that goes both ways. Yosys' model asks whether `T` is driven, which Verilator does not know of wires.
module TRELLIS_IO #(
    parameter DIR = "BIDIR"
) (
    inout B,
    input I, T,
    output O
);
    assign B = T ? 1'bz : I;
    assign O = B;
endmodule
