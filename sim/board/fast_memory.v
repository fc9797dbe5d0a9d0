// An AXI4 memory that answers in order after a fixed latency, a beat a cycle in each direction at once.
//
// Bursts have whole beats with rising addresses. A burst waits in a queue with the cycle in which it may be answered.
// The build replaces the name of the module and the values of the parameters.

module fast_memory #(
    parameter BEAT_BITS = 128,
    parameter BEAT_SHIFT = 4,  // log2 of the bytes of a beat
    parameter ADDRESS_WIDTH = 32,
    parameter BEATS = 65536,
    parameter LATENCY = 20,
    parameter QUEUE_SHIFT = 5  // log2 of the bursts that may wait in each direction
) (
    input clk,
    input rst,

    // Share of cycles, in 256ths, in which a channel does nothing new.
    input [7:0] stall,
    // Addresses from start to before end answer this: 2 SLVERR, 3 DECERR, 0 no error.
    input [ADDRESS_WIDTH:0] error_start,
    input [ADDRESS_WIDTH:0] error_end,
    input [1:0] error_response,
    // Addresses from start to before end never answer.
    input [ADDRESS_WIDTH:0] silent_start,
    input [ADDRESS_WIDTH:0] silent_end,

    input axi0_arvalid,
    output axi0_arready,
    input axi0_arid,
    input [ADDRESS_WIDTH-1:0] axi0_araddr,
    input [7:0] axi0_arlen,
    input [2:0] axi0_arsize,
    input [1:0] axi0_arburst,
    output reg axi0_rvalid,
    input axi0_rready,
    output reg axi0_rid,
    output reg [BEAT_BITS-1:0] axi0_rdata,
    output reg [1:0] axi0_rresp,
    output reg axi0_rlast,

    input axi0_awvalid,
    output axi0_awready,
    input axi0_awid,
    input [ADDRESS_WIDTH-1:0] axi0_awaddr,
    input [7:0] axi0_awlen,
    input [2:0] axi0_awsize,
    input [1:0] axi0_awburst,
    input axi0_wvalid,
    output axi0_wready,
    input [BEAT_BITS-1:0] axi0_wdata,
    input [BEAT_BITS/8-1:0] axi0_wstrb,
    input axi0_wlast,
    output reg axi0_bvalid,
    input axi0_bready,
    output reg axi0_bid,
    output reg [1:0] axi0_bresp
);

  localparam DEPTH = 1 << QUEUE_SHIFT;
  localparam WORD_WIDTH = ADDRESS_WIDTH - BEAT_SHIFT;
  localparam [ADDRESS_WIDTH:0] SIZE = BEATS << BEAT_SHIFT;

  reg [BEAT_BITS-1:0] mem[0:BEATS-1];

  reg [31:0] now;
  always @(posedge clk) now <= rst ? 0 : now + 1;

  // An xorshift generator: eight fresh bits for each channel in every cycle.
  reg [63:0] noise;
  wire [63:0] noise_1 = noise ^ (noise << 13);
  wire [63:0] noise_2 = noise_1 ^ (noise_1 >> 7);
  always @(posedge clk) noise <= rst ? 64'h9e3779b97f4a7c15 : noise_2 ^ (noise_2 << 17);
  wire go_ar = noise[7:0] >= stall;
  wire go_r = noise[15:8] >= stall;
  wire go_aw = noise[23:16] >= stall;
  wire go_w = noise[31:24] >= stall;
  wire go_b = noise[39:32] >= stall;

  // Reads.
  reg [WORD_WIDTH-1:0] read_word[0:DEPTH-1];
  reg [7:0] read_len[0:DEPTH-1];
  reg read_id[0:DEPTH-1];
  reg [31:0] read_due[0:DEPTH-1];
  reg [QUEUE_SHIFT:0] read_in, read_out;
  reg [7:0] read_beat;
  wire [QUEUE_SHIFT-1:0] read_head = read_out[QUEUE_SHIFT-1:0];
  wire [WORD_WIDTH-1:0] read_at = read_word[read_head] + {{(WORD_WIDTH - 8) {1'b0}}, read_beat};
  wire [ADDRESS_WIDTH:0] read_address = {1'b0, read_at, {BEAT_SHIFT{1'b0}}};
  wire read_waits = read_in != read_out && $signed(now - read_due[read_head]) >= 0;
  wire read_silent = read_address >= silent_start && read_address < silent_end;
  wire read_error = error_response != 0 && read_address >= error_start && read_address < error_end;
  wire read_outside = read_address >= SIZE;
  wire read_go = read_waits && !read_silent && go_r && (!axi0_rvalid || axi0_rready);
  wire read_ends = read_beat == read_len[read_head];
  assign axi0_arready = read_in - read_out != DEPTH && go_ar;

  always @(posedge clk) begin
    if (axi0_rready) axi0_rvalid <= 0;
    if (read_go) begin
      axi0_rvalid <= 1;
      axi0_rid <= read_id[read_head];
      // What a failed access gives is never what is stored.
      axi0_rdata <= read_outside ? {BEAT_BITS{1'b1}} : read_error ? ~mem[read_at] : mem[read_at];
      axi0_rresp <= read_outside ? 2'd3 : read_error ? error_response : 2'd0;
      axi0_rlast <= read_ends;
      read_beat <= read_ends ? 0 : read_beat + 1;
      if (read_ends) read_out <= read_out + 1;
    end
    if (axi0_arvalid && axi0_arready) begin
      read_word[read_in[QUEUE_SHIFT-1:0]] <= axi0_araddr[ADDRESS_WIDTH-1:BEAT_SHIFT];
      read_len[read_in[QUEUE_SHIFT-1:0]] <= axi0_arlen;
      read_id[read_in[QUEUE_SHIFT-1:0]] <= axi0_arid;
      read_due[read_in[QUEUE_SHIFT-1:0]] <= now + LATENCY - 1;
      read_in <= read_in + 1;
    end
    if (rst) begin
      axi0_rvalid <= 0;
      read_in <= 0;
      read_out <= 0;
      read_beat <= 0;
    end
  end

  // Writes: beats are stored as they come, the acknowledgement follows after the latency.
  reg [WORD_WIDTH-1:0] write_word[0:DEPTH-1];
  reg write_id[0:DEPTH-1];
  reg [QUEUE_SHIFT:0] write_in, write_out;
  reg [7:0] write_beat;
  reg [1:0] write_response;
  reg write_mute;
  wire [QUEUE_SHIFT-1:0] write_head = write_out[QUEUE_SHIFT-1:0];
  wire [WORD_WIDTH-1:0] write_at = write_word[write_head] + {{(WORD_WIDTH - 8) {1'b0}}, write_beat};
  wire [ADDRESS_WIDTH:0] write_address = {1'b0, write_at, {BEAT_SHIFT{1'b0}}};
  wire write_error = error_response != 0 && write_address >= error_start && write_address < error_end;
  wire write_outside = write_address >= SIZE;
  wire [1:0] write_worst =
      write_response != 0 ? write_response : write_outside ? 2'd3 : write_error ? error_response : 2'd0;
  wire write_silent = write_mute || (write_address >= silent_start && write_address < silent_end);
  wire write_go = axi0_wvalid && axi0_wready;

  reg [1:0] answer_response[0:DEPTH-1];
  reg answer_id[0:DEPTH-1];
  reg answer_silent[0:DEPTH-1];
  reg [31:0] answer_due[0:DEPTH-1];
  reg [QUEUE_SHIFT:0] answer_in, answer_out;
  wire [QUEUE_SHIFT-1:0] answer_head = answer_out[QUEUE_SHIFT-1:0];
  wire answer_waits = answer_in != answer_out && $signed(now - answer_due[answer_head]) >= 0;
  wire answer_go = answer_waits && !answer_silent[answer_head] && go_b && (!axi0_bvalid || axi0_bready);

  assign axi0_awready = write_in - write_out != DEPTH && go_aw;
  assign axi0_wready = write_in != write_out && answer_in - answer_out != DEPTH && go_w;

  integer byte_number;
  always @(posedge clk) begin
    if (write_go) begin
      if (!write_outside && !write_error) begin
        if (&axi0_wstrb) mem[write_at] <= axi0_wdata;
        else
          for (byte_number = 0; byte_number < BEAT_BITS / 8; byte_number = byte_number + 1)
          if (axi0_wstrb[byte_number]) mem[write_at][8*byte_number+:8] <= axi0_wdata[8*byte_number+:8];
      end
      write_beat <= axi0_wlast ? 0 : write_beat + 1;
      write_response <= axi0_wlast ? 0 : write_worst;
      write_mute <= axi0_wlast ? 0 : write_silent;
      if (axi0_wlast) begin
        answer_response[answer_in[QUEUE_SHIFT-1:0]] <= write_worst;
        answer_id[answer_in[QUEUE_SHIFT-1:0]] <= write_id[write_head];
        answer_silent[answer_in[QUEUE_SHIFT-1:0]] <= write_silent;
        answer_due[answer_in[QUEUE_SHIFT-1:0]] <= now + LATENCY - 1;
        answer_in <= answer_in + 1;
        write_out <= write_out + 1;
      end
    end
    if (axi0_bready) axi0_bvalid <= 0;
    if (answer_go) begin
      axi0_bvalid <= 1;
      axi0_bid <= answer_id[answer_head];
      axi0_bresp <= answer_response[answer_head];
      answer_out <= answer_out + 1;
    end
    if (axi0_awvalid && axi0_awready) begin
      write_word[write_in[QUEUE_SHIFT-1:0]] <= axi0_awaddr[ADDRESS_WIDTH-1:BEAT_SHIFT];
      write_id[write_in[QUEUE_SHIFT-1:0]] <= axi0_awid;
      write_in <= write_in + 1;
    end
    if (rst) begin
      axi0_bvalid <= 0;
      write_in <= 0;
      write_out <= 0;
      write_beat <= 0;
      write_response <= 0;
      write_mute <= 0;
      answer_in <= 0;
      answer_out <= 0;
    end
  end

endmodule
