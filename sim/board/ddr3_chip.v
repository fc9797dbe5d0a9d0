// A DDR3 SDRAM, at the pins. What it is asked for before it was started, or sooner than its timings allow, it gives wrong;
// what is written with a strobe too far from its clock is lost.
// Source: JEDEC, JESD79-3: commands, mode registers, initialization, bursts, DQS.
module ddr3_chip #(
    parameter integer ROW_BITS = 15, COLUMN_BITS = 10, BANK_BITS = 3, WIDTH = 16,
    parameter integer RCD = 1, RP = 1, RAS = 1, RFC = 1, WR = 1 // in cycles
) (
    input tick, // both edges are a quarter of a cycle apart
    input [WIDTH/8*4-1:0] later, // quarters of a cycle that what is read is under way, for each lane
    input clk_p, cke, odt, ras_n, cas_n, we_n,
    input [BANK_BITS-1:0] ba, input [ROW_BITS-1:0] a, input [WIDTH/8-1:0] dm,
    inout [WIDTH-1:0] dq, inout [WIDTH/8-1:0] dqs_p
);
    localparam BANKS = 1 << BANK_BITS, LANES = WIDTH / 8, PLACE_BITS = BANK_BITS + ROW_BITS + COLUMN_BITS - 3;
    localparam MODE = 3'b000, REFRESH = 3'b001, PRECHARGE = 3'b010, ACTIVATE = 3'b011, WRITE = 3'b100, READ = 3'b101;
    localparam CALIBRATE = 3'b110;
    localparam RTP = 4;
    localparam NEVER = 32'hffff_0000; // so long ago that it does not matter

    reg [8*WIDTH-1:0] mem[0:(1 << PLACE_BITS) - 1]; // a burst each
    reg [ROW_BITS-1:0] row[0:BANKS-1];
    reg [31:0] now, opened[0:BANKS-1], closed[0:BANKS-1], closable[0:BANKS-1], refreshed;
    reg [BANKS-1:0] open;
    reg [3:0] loaded; // mode registers
    reg calibrated, wrong;
    reg [4:0] read_latency, write_latency;
    integer bank, lane;
    initial begin
        now = 0; refreshed = NEVER; open = 0; loaded = 0; calibrated = 0; wrong = 0; read_latency = 5; write_latency = 5;
        for (bank = 0; bank < BANKS; bank = bank + 1) begin
            opened[bank] = NEVER; closed[bank] = NEVER; closable[bank] = 0;
        end
    end

    // Commands, by cycles ago; the place that was asked for, by the cycle.
    reg [31:0] reads = 0, writes = 0;
    reg [PLACE_BITS-1:0] asked[0:31];
    reg clock_was = 0;
    reg [1:0] since = 0; // quarters since the clock rose

    // What is read: a burst, before it the strobe at 0 for a cycle; then its way to the pins.
    reg leads = 0, sends = 0;
    reg [3:0] at = 0;
    reg [8*WIDTH-1:0] sent;
    reg [4:0] quarter = 0;
    reg [WIDTH/8*10-1:0] ways[0:15];
    reg [LANES-1:0] drives = 0, strobe;
    reg [WIDTH-1:0] data;

    // What is written, by lanes.
    reg [LANES-1:0] strobe_was = 0, takes = 0;
    reg [2:0] beat[0:LANES-1];
    reg [PLACE_BITS-1:0] place[0:LANES-1];

    generate
        genvar pin;
        for (pin = 0; pin < LANES; pin = pin + 1) begin
            assign dqs_p[pin] = drives[pin] ? strobe[pin] : 1'bz;
            assign dq[8*pin +: 8] = drives[pin] ? data[8*pin +: 8] : 8'bz;
        end
    endgenerate

    wire ready = calibrated && open[ba] && now - opened[ba] >= RCD;
    always @(posedge tick or negedge tick) begin
        since = since + 1;
        if (sends) begin at = at + 1; if (at == 0) sends = 0; end
        if (clk_p && !clock_was) begin
            now = now + 1;
            since = 0;
            reads = reads << 1;
            writes = writes << 1;
            if (cke) case ({ras_n, cas_n, we_n})
                MODE: begin
                    if (open != 0) wrong = 1;
                    loaded[ba[1:0]] = 1;
                    case (ba)
                        // Bursts of eight; it is loaded last, and resets the chip's own clock.
                        0: begin
                            if (a[1:0] != 0 || !a[8] || loaded != 15) wrong = 1;
                            read_latency = a[2] ? 12 + a[6:4] : 4 + a[6:4];
                        end
                        1: if (a[0] || a[7] || a[12]) wrong = 1; // own clock and outputs on, no levelling of writes
                        2: write_latency = 5 + a[5:3];
                        3: if (a[2:0] != 0) wrong = 1; // reads give what was written
                    endcase
                end
                CALIBRATE: if (a[10]) calibrated = loaded == 15;
                REFRESH: begin
                    if (open != 0 || now - refreshed < RFC) wrong = 1; // LiteDRAM refreshes before the start, too
                    for (bank = 0; bank < BANKS; bank = bank + 1) if ($signed(now - closed[bank]) < RP) wrong = 1;
                    refreshed = now;
                end
                PRECHARGE: for (bank = 0; bank < BANKS; bank = bank + 1) if (a[10] || ba == bank) begin
                    if (open[bank] && (now - opened[bank] < RAS || now < closable[bank])) wrong = 1;
                    if (open[bank]) closed[bank] = now;
                    open[bank] = 0;
                end
                ACTIVATE: begin
                    if (open[ba] || !calibrated || $signed(now - closed[ba]) < RP || now - refreshed < RFC) wrong = 1;
                    open[ba] = 1; opened[ba] = now; row[ba] = a;
                end
                READ, WRITE: begin
                    if (!ready || a[2:0] != 0) wrong = 1;
                    if (we_n) reads[0] = 1; else writes[0] = 1;
                    asked[now[4:0]] = {ba, row[ba], a[COLUMN_BITS-1:3]};
                    closable[ba] = now + (we_n ? RTP : write_latency + 4 + WR);
                    if (a[10]) begin open[ba] = 0; closed[ba] = closable[ba]; end
                end
            endcase
            if (reads[read_latency]) begin
                if (sends) wrong = 1;
                sends = 1;
                at = 0;
                sent = wrong ? ~mem[asked[now[4:0] - read_latency]] : mem[asked[now[4:0] - read_latency]];
            end
            leads = reads[read_latency - 5'd1];
        end
        clock_was = clk_p;

        quarter = quarter + 1;
        for (lane = 0; lane < LANES; lane = lane + 1) begin
            ways[quarter[3:0]][10*lane +: 10] = {sends || leads, sends && !at[1], sent[WIDTH*at[3:1] + 8*lane +: 8]};
            {drives[lane], strobe[lane], data[8*lane +: 8]} <=
                ways[quarter[3:0] - later[4*lane +: 4]][10*lane +: 10];

            // A burst begins with the strobe's edge that is at most a quarter of a cycle from the clock's.
            if (dqs_p[lane] && !strobe_was[lane] && !takes[lane] && since != 2)
                if (writes[write_latency - {4'd0, since == 3}]) begin
                    takes[lane] = 1;
                    beat[lane] = 0;
                    place[lane] = asked[now[4:0] - write_latency + {4'd0, since == 3}];
                end
            if (takes[lane] && dqs_p[lane] != strobe_was[lane]) begin
                if (!dm[lane]) mem[place[lane]][WIDTH*beat[lane] + 8*lane +: 8] = dq[8*lane +: 8];
                if (beat[lane] == 7) takes[lane] = 0;
                beat[lane] = beat[lane] + 1;
            end
            strobe_was[lane] = dqs_p[lane];
        end
    end
endmodule
