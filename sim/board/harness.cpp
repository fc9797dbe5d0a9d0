// Drives a verilated board: what has to happen in every cycle happens here, everything else in Python.
//
// ports.inc, made with the board, has a PORT(index, name, words) for every port and an ARRAY(index, name) for every
// memory array.

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "Vboard.h"
#include "Vboard___024root.h"
#include "verilated.h"
#ifdef WAVES
#include "verilated_vcd_c.h"
#endif

namespace {

struct Board {
    std::unique_ptr<VerilatedContext> context{new VerilatedContext};
    std::unique_ptr<Vboard> top{new Vboard{context.get(), "board"}};
#ifdef WAVES
    VerilatedVcdC waves;
#endif
    uint64_t cycles = 0;
    // Activity, summed over windows of cycles.
    uint64_t window = 0;
    uint64_t in_window = 0;
    size_t bits = 0;
    std::vector<uint32_t> sums;
    std::vector<uint32_t> history;

    void sample() { sample_activity(*top); }

    template <typename Top>
    void sample_activity([[maybe_unused]] Top& top) {
        if constexpr (requires { top.activity; }) {
            uint32_t words[(sizeof(top.activity) + 3) / 4] = {};
            std::memcpy(words, &top.activity, sizeof(top.activity));
            for (size_t bit = 0; bit < bits; ++bit) sums[bit] += words[bit / 32] >> (bit % 32) & 1;
            if (++in_window == window) close_window();
        }
    }

    void close_window() {
        if (in_window == 0) return;
        history.push_back(static_cast<uint32_t>(in_window));
        history.insert(history.end(), sums.begin(), sums.end());
        sums.assign(bits, 0);
        in_window = 0;
    }

    void cycle() {
        if (window != 0) sample();
        top->clk = 1;
        top->eval();
        dump(2 * cycles);
        top->clk = 0;
        top->eval();
        dump(2 * cycles + 1);
        ++cycles;
    }

    // Half a cycle is one unit of time.
    void dump([[maybe_unused]] uint64_t time) {
#ifdef WAVES
        waves.dump(time);
#endif
    }
};

template <typename Ready>
bool wait_for(Board& board, uint64_t limit, Ready ready) {
    for (; !ready(); --limit) {
        if (limit == 0) return false;
        board.cycle();
    }
    return true;
}

// Templates, as a board may be without a control port.
template <typename Top>
bool write_words(Board& board, Top& top, uint32_t address, const uint32_t* words, size_t count, uint64_t limit) {
    if constexpr (requires { top.control___05Fawaddr; }) {
        bool taken = true;
        for (size_t at = 0; at < count && taken; ++at) {
            top.control___05Fawaddr = address;
            top.control___05Fwdata = words[at];
            top.control___05Fawvalid = top.control___05Fwvalid = 1;
            top.eval();
            taken = wait_for(board, limit, [&] { return top.control___05Fawready && top.control___05Fwready; });
            if (taken) board.cycle();
        }
        top.control___05Fawvalid = top.control___05Fwvalid = 0;
        top.eval();
        return taken && wait_for(board, limit, [&] { return !top.control___05Fbvalid; });
    }
    return false;
}

template <typename Top>
bool read_word(Board& board, Top& top, uint32_t address, uint32_t* word, uint64_t limit) {
    if constexpr (requires { top.control___05Faraddr; }) {
        top.control___05Faraddr = address;
        top.control___05Farvalid = 1;
        top.eval();
        const bool taken = wait_for(board, limit, [&] { return top.control___05Farready; });
        if (taken) board.cycle();
        top.control___05Farvalid = 0;
        top.eval();
        if (!taken || !wait_for(board, limit, [&] { return top.control___05Frvalid; })) return false;
        *word = top.control___05Frdata;
        board.cycle();
        return true;
    }
    return false;
}

// The far end of a board's Ethernet, whose packets go to and come from a socket that keeps them apart. Its clock is three
// times as fast as the board's, and stands still until the first packet comes.
template <typename Top>
class Wire {
public:
    Wire(Top& top, int file) : top_(top), file_(file) {}

    int file() const { return file_; }
    bool awake() const { return awake_; }

    // Whether nothing has been on the wire for long, nor in what stands behind it.
    bool quiet() const { return !awake_ || still_ > kStill; }

    // A cycle of the board.
    void run() {
        if (!awake_) return;
        for (int tick = 0; tick < kTicks; ++tick) {
            listen();
            drive();
            top_.eth_clk = 1;
            top_.eval();
            top_.eth_clk = 0;
            top_.eval();
        }
        if (waiting()) ++still_; else still_ = 0;
    }

    // Passes packets on in both directions, as far as there are any.
    void exchange() {
        while (!from_board_.empty() && write(file_, from_board_.front().data(), from_board_.front().size()) >= 0) {
            from_board_.pop_front();
        }
        for (;;) {
            std::vector<uint8_t> packet(kRead);
            const ssize_t got = read(file_, packet.data(), kRead);
            if (got <= 0) return;
            packet.resize(got);
            to_board_.push_back(std::move(packet));
            awake_ = true;
            still_ = 0;
        }
    }

private:
    static constexpr int kTicks = 3;
    static constexpr int kGap = 12;
    static constexpr uint32_t kStill = 16384;  // cycles; as many as the bytes that may wait behind it take, and more
    static constexpr size_t kRead = 4096;

    bool waiting() const { return to_board_.empty() && receiving_.empty() && from_board_.empty() && !top_.busy; }

    void drive() {
        top_.eth_rx_valid = 0;
        if (gap_ != 0) {
            --gap_;
        } else if (!to_board_.empty()) {
            top_.eth_rx_valid = 1;
            top_.eth_rx_data = to_board_.front()[next_++];
            if (next_ == to_board_.front().size()) {
                to_board_.pop_front();
                next_ = 0;
                gap_ = kGap;
            }
        }
    }

    void listen() {
        if (top_.eth_tx_valid) {
            receiving_.push_back(top_.eth_tx_data);
        } else if (!receiving_.empty()) {
            from_board_.push_back(std::move(receiving_));
            receiving_.clear();
        }
    }

    Top& top_;
    int file_;
    bool awake_ = false;
    std::deque<std::vector<uint8_t>> to_board_, from_board_;
    std::vector<uint8_t> receiving_;
    size_t next_ = 0;
    int gap_ = 0;
    uint32_t still_ = 0;
};

// A board without Ethernet.
struct NoWire {
    template <typename Top>
    NoWire(Top&, int) {}
    int file() const { return -1; }
    bool quiet() const { return true; }
    void run() {}
    void exchange() {}
};

template <typename Top>
auto wire_of(Top& top, int file) {
    if constexpr (requires { top.eth_clk; }) {
        return Wire<Top>{top, file};
    } else {
        return NoWire{top, file};
    }
}

// The far end of a board's serial line, whose bytes go to and come from a file.
template <typename Top>
class Line {
public:
    Line(Board& board, Top& top, int file, uint32_t divisor) : board_(board), top_(top), file_(file), divisor_(divisor) {}

    // Whether the board has nothing to do: no byte on its way, and no request being carried out.
    bool quiet() const { return waiting() && still_ > kStill * divisor_; }

    // Lets the clock run for some cycles with the line, and the wire, moving.
    template <typename Other>
    void run(uint32_t cycles, Other& wire) {
        for (; cycles != 0; --cycles) {
            drive();
            wire.run();
            board_.cycle();
            listen();
            if (waiting()) ++still_; else still_ = 0;
        }
    }

    // Passes bytes on in both directions, as far as there are any. False if the file is closed for good.
    bool exchange() {
        while (!from_board_.empty()) {
            const ssize_t written = write(file_, from_board_.data(), from_board_.size());
            if (written < 0) {
                if (errno == EAGAIN || errno == EINTR) break;
                return false;
            }
            from_board_.erase(from_board_.begin(), from_board_.begin() + written);
        }
        if (next_ < to_board_.size()) return true;
        to_board_.resize(kRead);
        const ssize_t got = read(file_, to_board_.data(), kRead);
        next_ = 0;
        to_board_.resize(got > 0 ? got : 0);
        if (got > 0) still_ = 0;
        return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR || errno == EIO));
    }

private:
    static constexpr uint32_t kStill = 64;
    static constexpr size_t kRead = 4096;

    bool waiting() const {
        return next_ == to_board_.size() && sending_ == 0 && receiving_ == 0 && from_board_.empty() && !top_.busy;
    }

    void drive() {
        if (send_timer_ != 0) {
            --send_timer_;
            return;
        }
        if (sending_ == 0 && next_ < to_board_.size()) {
            // A start bit, the byte, a stop bit.
            send_bits_ = 0x200u | static_cast<uint32_t>(to_board_[next_++]) << 1;
            sending_ = 10;
        }
        if (sending_ != 0) {
            top_.rx = send_bits_ & 1;
            send_bits_ >>= 1;
            --sending_;
            send_timer_ = divisor_ - 1;
        } else {
            top_.rx = 1;
        }
    }

    void listen() {
        if (receiving_ == 0) {
            if (top_.tx) return;
            receiving_ = 10;  // the start bit is taken in its middle, and so are the others
            receive_timer_ = divisor_ / 2;
            return;
        }
        if (receive_timer_ != 0) {
            --receive_timer_;
            return;
        }
        receive_timer_ = divisor_ - 1;
        receive_bits_ = receive_bits_ >> 1 | static_cast<uint32_t>(top_.tx) << 9;
        if (--receiving_ == 0) from_board_.push_back(static_cast<uint8_t>(receive_bits_ >> 1));
    }

    Board& board_;
    Top& top_;
    int file_;
    uint32_t divisor_;
    std::vector<uint8_t> to_board_;
    std::vector<uint8_t> from_board_;
    size_t next_ = 0;
    uint32_t send_bits_ = 0, send_timer_ = 0, sending_ = 0;
    uint32_t receive_bits_ = 0, receive_timer_ = 0, receiving_ = 0;
    uint64_t still_ = 0;
};

template <typename Top>
bool serve(Board& board, Top& top, int file, uint32_t divisor, int wire_file, const volatile int32_t* stop) {
    if constexpr (requires { top.rx; top.tx; top.busy; }) {
        Line<Top> line{board, top, file, divisor};
        auto wire = wire_of(top, wire_file);
        while (*stop == 0) {
            if (line.quiet() && wire.quiet()) {
                pollfd asked[2] = {{file, POLLIN, 0}, {wire.file(), POLLIN, 0}};
                poll(asked, 2, 20);
                // Nobody has the other end open: that is no end, as somebody may yet.
                if (asked[0].revents & POLLHUP && !(asked[0].revents & POLLIN) && !asked[1].revents) usleep(20000);
            } else {
                line.run(512, wire);
            }
            wire.exchange();
            if (!line.exchange()) return false;
        }
        return true;
    }
    return false;
}

}  // namespace

extern "C" {

// `waves` is where the waveforms go, if the board was compiled for them.
Board* board_new([[maybe_unused]] const char* waves) {
    Board* board = new Board;
#ifdef WAVES
    board->context->traceEverOn(true);
    board->top->trace(&board->waves, 99);
    board->waves.open(waves);
#endif
    return board;
}

void board_delete(Board* board) {
    // A model is taken out of the context that its thread used last, which may be another board's, or gone with it.
    Verilated::threadContextp(board->context.get());
    board->top->final();
#ifdef WAVES
    board->waves.close();
#endif
    delete board;
}

uint64_t board_cycles(const Board* board) { return board->cycles; }

void board_set(Board* board, int port, const uint32_t* words) {
    switch (port) {
#define PORT(index, name, count) \
    case index: \
        std::memcpy(&board->top->name, words, sizeof(board->top->name)); \
        break;
#define ARRAY(index, name)
#include "ports.inc"
#undef PORT
#undef ARRAY
    }
    board->top->eval();
}

void board_get(const Board* board, int port, uint32_t* words) {
    switch (port) {
#define PORT(index, name, count) \
    case index: \
        std::memcpy(words, &board->top->name, sizeof(board->top->name)); \
        break;
#define ARRAY(index, name)
#include "ports.inc"
#undef PORT
#undef ARRAY
    }
}

void* board_array(Board* board, int array) {
    switch (array) {
#define PORT(index, name, count)
#define ARRAY(index, name) \
    case index: \
        return &board->top->rootp->name;
#include "ports.inc"
#undef PORT
#undef ARRAY
    }
    return nullptr;
}

// Runs until a port has a value, at most `limit` cycles; returns the cycles run, or UINT64_MAX if it never had it.
// A port of -1 runs all the cycles.
uint64_t board_run(Board* board, uint64_t limit, int port, uint32_t value) {
    uint64_t run = 0;
    switch (port) {
        case -1:
            for (; run < limit; ++run) board->cycle();
            return run;
#define PORT(index, name, count) \
    case index: \
        for (;; ++run) { \
            uint32_t now = 0; \
            std::memcpy(&now, &board->top->name, sizeof(now) < sizeof(board->top->name) ? sizeof(now) : sizeof(board->top->name)); \
            if (now == value) return run; \
            if (run == limit) return UINT64_MAX; \
            board->cycle(); \
        }
#define ARRAY(index, name)
#include "ports.inc"
#undef PORT
#undef ARRAY
    }
    return UINT64_MAX;
}

// Writes words to a register behind AXI4-Lite, one after the other, waiting at most `limit` cycles for each; whether all
// were taken. The board is ready for answers all the time.
bool board_write(Board* board, uint32_t address, const uint32_t* words, size_t count, uint64_t limit) {
    return write_words(*board, *board->top, address, words, count, limit);
}

// Reads a register behind AXI4-Lite; whether it answered within `limit` cycles.
bool board_read(Board* board, uint32_t address, uint32_t* word, uint64_t limit) {
    return read_word(*board, *board->top, address, word, limit);
}

// Joins the pins `rx` and `tx` of a board, at so many cycles a bit, to a file that does not block, and its Ethernet, if it
// has any, to a socket, until `stop` is set. While the board has nothing to do its clock stands still. False if the file
// failed, or the board has no such pins.
bool board_serve(Board* board, int file, uint32_t divisor, int wire, const volatile int32_t* stop) {
    Verilated::threadContextp(board->context.get());
    return serve(*board, *board->top, file, divisor, wire, stop);
}

// Sums each bit of `activity` over windows of `window` cycles from now on; 0 stops.
void board_watch(Board* board, uint64_t window, size_t bits) {
    board->window = window;
    board->bits = bits;
    board->in_window = 0;
    board->sums.assign(bits, 0);
    board->history.clear();
}

// The windows so far, each the number of its cycles and a sum for every bit.
const uint32_t* board_history(Board* board, size_t* count) {
    board->close_window();
    *count = board->history.size();
    return board->history.data();
}

}  // extern "C"
