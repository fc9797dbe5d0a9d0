// Cells of an ECP5 that LiteDRAM's physical layer for DDR3 is made of, and its clocks. Both edges of `board.clk` are a
// quarter of a cycle of the memory's clock apart, so that a shift by 90 degrees is one of them. No cell reacts to an
// edge at a pin: what is at pins is sampled, so that nothing depends on the order of what happens at once.
// Source: Lattice, FPGA-TN-02035: pins, gearing, positions of the READ pulse; FPGA-TN-02200: clocks. They do not give
// the latencies: those here are the ones that LiteDRAM's physical layer counts on.

// A phase-locked loop that gives the memory's clock, two cycles of `board.clk` long, on all outputs, whatever it is to
// multiply by.
module EHXPLLL #(
    parameter CLKI_DIV = 1, CLKFB_DIV = 1, CLKOP_DIV = 8, CLKOS_DIV = 8, CLKOS2_DIV = 8, FEEDBK_PATH = "",
    parameter CLKOP_CPHASE = 0, CLKOP_FPHASE = 0, CLKOS_CPHASE = 0, CLKOS_FPHASE = 0, CLKOS2_CPHASE = 0, CLKOS2_FPHASE = 0,
    parameter CLKOP_ENABLE = "ENABLED", CLKOS_ENABLE = "DISABLED", CLKOS2_ENABLE = "DISABLED"
) (
    input CLKI, RST, STDBY,
    output CLKOP, CLKOS, CLKOS2, LOCK
);
    reg half = 0;
    reg [3:0] cycles = 0;
    always @(posedge CLKI or posedge RST)
        if (RST) {cycles, half} <= 0;
        else begin half <= ~half; if (!LOCK) cycles <= cycles + 1; end
    assign LOCK = &cycles;
    assign {CLKOP, CLKOS, CLKOS2} = {3{half}};
endmodule

module ECLKBRIDGECS (
    input CLK0, CLK1, SEL,
    output ECSOUT
);
    assign ECSOUT = SEL ? CLK1 : CLK0;
endmodule

// Stops a clock while it is 0.
module ECLKSYNCB (
    input ECLKI, STOP,
    output ECLKO
);
    reg stopped = 0;
    always @(negedge ECLKI) stopped <= STOP;
    assign ECLKO = ECLKI & ~stopped;
endmodule

module CLKDIVF #(
    parameter DIV = "2.0", GSR = "DISABLED"
) (
    input CLKI, RST, ALIGNWD,
    output reg CDIVX
);
    generate if (DIV != "2.0") there_is_no_model_of_a_clock_divided_by_another_number than_two(); endgenerate
    initial CDIVX = 0;
    always @(posedge CLKI or posedge RST) if (RST) CDIVX <= 0; else CDIVX <= ~CDIVX;
endmodule

// Finds what a quarter of a cycle is. `DDRDEL` is 1 once the cells that shift by it are told.
module DDRDLLA #(
    parameter FORCE_MAX_DELAY = "NO", GSR = "ENABLED"
) (
    input CLK, RST, UDDCNTLN, FREEZE,
    output reg DDRDEL,
    output LOCK
);
    reg [3:0] cycles = 0;
    initial DDRDEL = 0;
    always @(posedge CLK or posedge RST)
        if (RST) {cycles, DDRDEL} <= 0;
        else begin
            if (!LOCK && !FREEZE) cycles <= cycles + 1;
            if (LOCK && !UDDCNTLN) DDRDEL <= 1;
        end
    assign LOCK = &cycles;
endmodule

// A delay in steps of 25 ps, to the nearest quarter of a cycle. That which makes up for the way of DQS' clock is none.
module DELAYG #(
    parameter DEL_MODE = "USER_DEFINED", DEL_VALUE = 0,
    parameter QUARTER_PS = 2500
) (
    input A,
    output Z
);
    localparam integer QUARTERS = (DEL_VALUE * 25 + QUARTER_PS / 2) / QUARTER_PS;
    generate
        if (DEL_MODE != "USER_DEFINED" || QUARTERS == 0) assign Z = A;
        else begin
            reg [QUARTERS:0] line = 0;
            always @(posedge board.clk or negedge board.clk) line <= {line[QUARTERS-1:0], A};
            assign Z = line[QUARTERS-1];
        end
    endgenerate
endmodule

// Takes four bits in a cycle of the slow clock and gives two in each of the memory's clock, the first ones a cycle later.
module output_gear (
    input SCLK, ECLK, RST,
    input [3:0] D,
    output reg [1:0] Q
);
    reg [3:0] held = 0, left = 0;
    reg turn = 0, seen = 0;
    always @(posedge SCLK) begin held <= RST ? 4'd0 : D; turn <= ~turn; end
    always @(negedge ECLK) begin left <= turn == seen ? left >> 2 : held; seen <= turn; end
    always @(posedge ECLK) Q <= left[1:0];
endmodule

// The clock and the commands come two cycles later than the data and their strobe.
module ODDRX2F #(
    parameter GSR = "ENABLED"
) (
    input SCLK, ECLK, RST, D0, D1, D2, D3,
    output Q
);
    wire [1:0] first;
    reg [1:0] second = 0, third = 0;
    output_gear gear(.SCLK(SCLK), .ECLK(ECLK), .RST(RST), .D({D3, D2, D1, D0}), .Q(first));
    always @(posedge ECLK) begin second <= first; third <= second; end
    assign Q = ECLK ? third[0] : third[1];
endmodule

module ODDRX2DQSB #(
    parameter GSR = "ENABLED"
) (
    input SCLK, ECLK, DQSW, RST, D0, D1, D2, D3,
    output Q
);
    wire [1:0] pair;
    output_gear gear(.SCLK(SCLK), .ECLK(ECLK), .RST(RST), .D({D3, D2, D1, D0}), .Q(pair));
    assign Q = DQSW ? pair[0] : pair[1];
endmodule

// Each bit begins a quarter of a cycle before the edge of the strobe that it belongs to.
module ODDRX2DQA #(
    parameter GSR = "ENABLED"
) (
    input SCLK, ECLK, DQSW270, RST, D0, D1, D2, D3,
    output Q
);
    wire [1:0] pair;
    reg [1:0] shifted = 0;
    output_gear gear(.SCLK(SCLK), .ECLK(ECLK), .RST(RST), .D({D3, D2, D1, D0}), .Q(pair));
    always @(negedge DQSW270) shifted <= pair;
    assign Q = DQSW270 ? shifted[1] : shifted[0];
endmodule

module TSHX2DQSA #(
    parameter GSR = "ENABLED", REGSET = "SET"
) (
    input SCLK, ECLK, DQSW, RST, T0, T1,
    output Q
);
    wire [1:0] driven;
    output_gear gear(.SCLK(SCLK), .ECLK(ECLK), .RST(RST), .D({1'b0, ~T1, 1'b0, ~T0}), .Q(driven));
    assign Q = ~driven[0];
endmodule

module TSHX2DQA #(
    parameter GSR = "ENABLED", REGSET = "SET"
) (
    input SCLK, ECLK, DQSW270, RST, T0, T1,
    output reg Q
);
    wire [1:0] driven;
    initial Q = 1;
    output_gear gear(.SCLK(SCLK), .ECLK(ECLK), .RST(RST), .D({1'b0, ~T1, 1'b0, ~T0}), .Q(driven));
    always @(negedge DQSW270) Q <= ~driven[0];
endmodule

// What belongs to a strobe. The READ pulse, moved by `READCLKSEL` quarters of a cycle, lets the strobe through until it
// is 0 behind the pulse: what comes before or after the strobe is driven must not pass. The pulse that begins before
// the strobe is driven, or after its first edge, lets through another number of edges than were sent, so that reads are
// out of step until `PAUSE`. `READ1` is like `READ0`.
module DQSBUFM #(
    parameter DQS_LI_DEL_ADJ = "FACTORYONLY", DQS_LI_DEL_VAL = 4, DQS_LO_DEL_ADJ = "FACTORYONLY", DQS_LO_DEL_VAL = 0,
    parameter GSR = "ENABLED"
) (
    input SCLK, ECLK, RST, DDRDEL, PAUSE, DQSI, READ0, READ1, READCLKSEL0, READCLKSEL1, READCLKSEL2,
    input RDLOADN, RDMOVE, RDDIRECTION, WRLOADN, WRMOVE, WRDIRECTION,
    output RDPNTR0, RDPNTR1, RDPNTR2, WRPNTR0, WRPNTR1, WRPNTR2,
    output DQSW, DATAVALID,
    output reg DQSR90, DQSW270, BURSTDET
);
    wire still = RST | PAUSE;
    reg [2:0] select = 0;
    reg read_held = 0, read_turned = 0, read = 0;
    reg [7:0] later = 0; // by cycles
    reg [2:0] from = 0, to = 0;
    always @(posedge SCLK) read_held <= READ0;
    always @(negedge ECLK) read_turned <= read_held;
    always @(posedge ECLK) begin
        read <= read_turned;
        later <= {later[6:0], read};
        from <= still ? 3'd0 : from + {2'd0, DATAVALID};
    end
    assign DATAVALID = select[2] ? later[7] : later[6];

    reg [6:0] moved = 0; // by quarters
    wire [7:0] pulses = {moved, read};
    wire pulse = pulses[select];
    reg passes = 0, fell = 0, began_low = 0;
    reg [3:0] edges = 0;
    initial {DQSR90, DQSW270, BURSTDET} = 0;
    always @(posedge board.clk or negedge board.clk) begin
        DQSW270 <= ~ECLK & DDRDEL;
        moved <= pulses[6:0];
        passes <= ~still & (pulse | passes & DQSI);
        DQSR90 <= passes & DQSI & DDRDEL;
        fell <= DQSR90 & ~(passes & DQSI);
        if (still) to <= 0; else if (fell) to <= to + 1;
        if (PAUSE) select <= {READCLKSEL2, READCLKSEL1, READCLKSEL0};
        if (pulse && !passes) begin began_low <= ~DQSI; edges <= 0; BURSTDET <= 0; end
        if (passes && DQSI && !DQSR90) edges <= edges + 1;
        if (passes && !pulse && !DQSI) BURSTDET <= began_low && edges != 0 && edges[1:0] == 0;
    end
    assign DQSW = ECLK;
    assign {RDPNTR2, RDPNTR1, RDPNTR0} = from;
    assign {WRPNTR2, WRPNTR1, WRPNTR0} = to;
endmodule

module IDDRX2DQA #(
    parameter GSR = "ENABLED"
) (
    input SCLK, ECLK, DQSR90, D, RST, RDPNTR0, RDPNTR1, RDPNTR2, WRPNTR0, WRPNTR1, WRPNTR2,
    output reg Q0, Q1, Q2, Q3
);
    reg [1:0] pairs[0:7];
    reg [1:0] previous, now;
    reg first;
    always @(posedge DQSR90) first <= D;
    always @(negedge DQSR90) pairs[{WRPNTR2, WRPNTR1, WRPNTR0}] <= {D, first};
    always @(negedge ECLK) {now, previous} <= {pairs[{RDPNTR2, RDPNTR1, RDPNTR0}], now};
    always @(posedge SCLK) {Q3, Q2, Q1, Q0} <= {now, previous};
endmodule
