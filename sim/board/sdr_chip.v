// An SDR SDRAM. What it is asked for before it was started, or sooner than its timings allow, it gives wrong.
// Source: Micron, MT48LC16M16A2 data sheet: commands, mode register, initialization.
module sdr_chip #(
    parameter integer ROW_BITS = 13, COLUMN_BITS = 9, BANK_BITS = 2, WIDTH = 16,
    parameter integer RCD = 1, RP = 1, RAS = 1, RFC = 1 // in cycles
) (
    input clk, cke, cs_n, ras_n, cas_n, we_n,
    input [BANK_BITS-1:0] ba, input [ROW_BITS-1:0] a, input [WIDTH/8-1:0] dm,
    inout [WIDTH-1:0] dq
);
    localparam BANKS = 1 << BANK_BITS;
    localparam MODE = 3'b000, REFRESH = 3'b001, PRECHARGE = 3'b010, ACTIVATE = 3'b011, WRITE = 3'b100, READ = 3'b101;
    localparam NEVER = 32'hffff_0000; // so long ago that it does not matter

    reg [WIDTH-1:0] mem[0:(1 << (BANK_BITS + ROW_BITS + COLUMN_BITS)) - 1];
    reg [ROW_BITS-1:0] row[0:BANKS-1];
    reg [31:0] now, opened[0:BANKS-1], closed[0:BANKS-1], refreshed;
    reg [BANKS-1:0] open;
    reg [2:0] latency; // 0 until the mode register is loaded
    reg [1:0] refreshes; // since all banks were closed for the first time; the mode is loaded behind two of them
    reg all_closed, wrong;
    integer bank;
    initial begin
        now = 0; refreshed = NEVER; open = 0; latency = 0; refreshes = 0; all_closed = 0; wrong = 0;
        for (bank = 0; bank < BANKS; bank = bank + 1) begin opened[bank] = NEVER; closed[bank] = NEVER; end
    end

    // What is read is at the pins from one edge before the one at which it is to be taken.
    reg [WIDTH-1:0] data[0:1];
    reg [1:0] read = 0;
    reg [WIDTH-1:0] out;
    reg driven = 0;
    assign dq = driven ? out : {WIDTH{1'bz}};

    wire [2:0] command = {ras_n, cas_n, we_n};
    wire chosen = cke && !cs_n;
    wire [BANK_BITS+ROW_BITS+COLUMN_BITS-1:0] place = {ba, row[ba], a[COLUMN_BITS-1:0]};
    wire ready = latency != 0 && open[ba] && now - opened[ba] >= RCD;
    integer lane;
    always @(posedge clk) begin
        now <= now + 1;
        if (chosen) case (command)
            MODE: begin
                if (open != 0) wrong <= 1;
                // One transfer a command, one after the other; the bits above are of no meaning.
                latency <= refreshes == 2 && a[3:0] == 0 && (a[6:4] == 2 || a[6:4] == 3) ? a[6:4] : 3'd0;
            end
            REFRESH: begin
                if (open != 0 || !all_closed || now - refreshed < RFC) wrong <= 1;
                for (bank = 0; bank < BANKS; bank = bank + 1) if (now - closed[bank] < RP) wrong <= 1;
                refreshed <= now;
                if (refreshes != 2) refreshes <= refreshes + 1;
            end
            PRECHARGE: for (bank = 0; bank < BANKS; bank = bank + 1) if (a[10] || ba == bank) begin
                if (open[bank] && now - opened[bank] < RAS) wrong <= 1;
                if (open[bank]) closed[bank] <= now;
                open[bank] <= 0;
                if (a[10]) all_closed <= 1;
            end
            ACTIVATE: begin
                if (open[ba] || now - closed[ba] < RP || now - refreshed < RFC) wrong <= 1;
                open[ba] <= 1; opened[ba] <= now; row[ba] <= a;
            end
            READ, WRITE: begin
                if (!ready) wrong <= 1;
                if (a[10]) begin open[ba] <= 0; closed[ba] <= now + 1; end
            end
        endcase
        if (chosen && command == WRITE)
            for (lane = 0; lane < WIDTH / 8; lane = lane + 1) if (!dm[lane])
                mem[place][8 * lane +: 8] <= dq[8 * lane +: 8];
        data[0] <= wrong || !ready ? ~mem[place] : mem[place];
        data[1] <= data[0];
        read <= {read[0], chosen && command == READ};
        driven <= latency == 2 ? read[0] : latency == 3 && read[1];
        out <= latency == 2 ? data[0] : data[1];
    end
endmodule
