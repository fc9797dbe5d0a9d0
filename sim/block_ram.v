// One half of an ECP5's block RAM: where a port reads and writes, and how what it reads is held.
module ecp5_ram_port #(parameter WIDTH = 18) (
    input [13:0] ad,
    output [10:0] base, // the first of up to four bytes of nine bits
    output [35:0] mask, // of all bits of the port's word
    output [35:0] written, // of those that are written, where the port writes
    output [2:0] bit_at // of words of less than a byte
);
    assign base = WIDTH == 36 ? {ad[13:5], 2'b00} : WIDTH == 18 ? {ad[13:4], 1'b0} : ad[13:3];
    assign bit_at = WIDTH >= 9 ? 3'd0 : WIDTH == 4 ? {ad[2], 2'b00} : WIDTH == 2 ? {ad[2:1], 1'b0} : ad[2:0];
    assign mask = ({36{1'b1}} >> (36 - WIDTH)) << bit_at;
    assign written = mask & (
        WIDTH == 36 ? {{9{ad[3]}}, {9{ad[2]}}, {9{ad[1]}}, {9{ad[0]}}} :
        WIDTH == 18 ? {18'd0, {9{ad[1]}}, {9{ad[0]}}} : {36{1'b1}});
endmodule

// Both ports, as buses. Source: Lattice FPGA-TN-02204, ECP5 memory usage guide.
module ecp5_ram #(
    parameter WIDTH_A = 18, WIDTH_B = 18, KEPT_A = 0, KEPT_B = 0, ONE_CLOCK = 0,
    parameter NEW_A = 0, NEW_B = 0, OLD_A = 0, OLD_B = 0,
    parameter [20479:0] FIRST = 0
) (
    input clk_a, we_a, ce_a, oce_a, rst_a, input [13:0] ad_a, input [35:0] di_a, output [35:0] do_a,
    input clk_b, we_b, ce_b, oce_b, rst_b, input [13:0] ad_b, input [35:0] di_b, output [35:0] do_b
);
    reg [8:0] mem[0:2047];
    integer at;
    // Words of 18 bits take 20 each of what the memory holds first.
    initial for (at = 0; at < 2048; at = at + 1) mem[at] = FIRST[at / 2 * 20 + at % 2 * 9 +: 9];

    wire [10:0] base_a, base_b;
    wire [35:0] mask_a, mask_b, written_a, written_b;
    wire [2:0] bit_a, bit_b;
    ecp5_ram_port #(.WIDTH(WIDTH_A)) port_a(.ad(ad_a), .base(base_a), .mask(mask_a), .written(written_a), .bit_at(bit_a));
    ecp5_ram_port #(.WIDTH(WIDTH_B)) port_b(.ad(ad_b), .base(base_b), .mask(mask_b), .written(written_b), .bit_at(bit_b));
    wire write_a = ce_a && we_a && !rst_a, write_b = ce_b && we_b && !rst_b;
    wire [35:0] data_a = di_a << bit_a, data_b = di_b << bit_b;

    // Where one port writes what the other one reads in that cycle, it reads something wrong.
    function [35:0] met(input [10:0] to, input [35:0] bits, input [10:0] from);
        integer i, j;
        begin
            met = 0;
            for (i = 0; i < 4; i = i + 1) for (j = 0; j < 4; j = j + 1)
                if (to + 11'(j) == from + 11'(i)) met[9 * i +: 9] = met[9 * i +: 9] | bits[9 * j +: 9];
        end
    endfunction
    wire [35:0] old_a = {mem[base_a + 11'd3], mem[base_a + 11'd2], mem[base_a + 11'd1], mem[base_a]};
    wire [35:0] old_b = {mem[base_b + 11'd3], mem[base_b + 11'd2], mem[base_b + 11'd1], mem[base_b]};
    wire [35:0] wrong_a = ONE_CLOCK && write_b ? met(base_b, written_b, base_a) : 36'd0;
    wire [35:0] wrong_b = ONE_CLOCK && write_a ? met(base_a, written_a, base_b) : 36'd0;
    wire [35:0] new_a = write_a && NEW_A ? (old_a & ~written_a) | (data_a & written_a) : old_a;
    wire [35:0] new_b = write_b && NEW_B ? (old_b & ~written_b) | (data_b & written_b) : old_b;

    reg [35:0] latch_a = 0, latch_b = 0, kept_a = 0, kept_b = 0;
    integer i, j;
    always @(posedge clk_a) begin
        if (write_a) for (i = 0; i < 4; i = i + 1) if (|written_a[9 * i +: 9])
            mem[base_a + 11'(i)] <= (old_a[9 * i +: 9] & ~written_a[9 * i +: 9])
                | (data_a[9 * i +: 9] & written_a[9 * i +: 9]);
        if (rst_a) latch_a <= 0;
        else if (ce_a && (!we_a || NEW_A || OLD_A)) latch_a <= ((new_a ^ wrong_a) & mask_a) >> bit_a;
        if (rst_a) kept_a <= 0;
        else if (oce_a) kept_a <= latch_a;
    end
    always @(posedge clk_b) begin
        if (write_b) for (j = 0; j < 4; j = j + 1) if (|written_b[9 * j +: 9])
            mem[base_b + 11'(j)] <= (old_b[9 * j +: 9] & ~written_b[9 * j +: 9])
                | (data_b[9 * j +: 9] & written_b[9 * j +: 9]);
        if (rst_b) latch_b <= 0;
        else if (ce_b && (!we_b || NEW_B || OLD_B)) latch_b <= ((new_b ^ wrong_b) & mask_b) >> bit_b;
        if (rst_b) kept_b <= 0;
        else if (oce_b) kept_b <= latch_b;
    end
    assign do_a = KEPT_A ? kept_a : latch_a;
    assign do_b = KEPT_B ? kept_b : latch_b;
endmodule
