// Low-latency handshake join: what SplitJoin and PIM-Tree are compared with in their papers. A peer for benchmarks.
//
// Source: Roy, Teubner, Gemulla, "Low-latency handshake join", PVLDB 7(9), 2014. Cores stand in a chain. Left rows pass
// it from one end to the other, right rows the other way, each row forwarded before it is joined. A coordinator gives
// each row a home core, round robin, where it is stored, and sends an expiry message for each row that leaves a window.
// Rows of both sides may cross on their way: a core remembers the rows that have passed it until no earlier row of the
// other side can come any more, so that every pair is met exactly once, at the home of its earlier row.
//
// Pairs match where x and a, and y and b, are at most `reach` apart. They are counted, not put out.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

namespace {

struct Message {
  enum Kind : int32_t { kRow, kExpire, kEnd };
  int64_t sequence;  // in the order of arrival of both streams; of a mark: all rows before it have been sent
  int32_t x;
  float y;
  int32_t home;
  Kind kind;
};

class Queue {  // of a single producer and a single consumer
 public:
  bool full() const { return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) == kSize; }
  void push(const Message& message) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    items_[tail % kSize] = message;
    tail_.store(tail + 1, std::memory_order_release);
  }
  const Message* front() const {
    const size_t head = head_.load(std::memory_order_relaxed);
    return head == tail_.load(std::memory_order_acquire) ? nullptr : &items_[head % kSize];
  }
  void pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

 private:
  static constexpr size_t kSize = 1024;
  Message items_[kSize];
  alignas(64) std::atomic<size_t> tail_{0};
  alignas(64) std::atomic<size_t> head_{0};
};

// Stored rows of one side, oldest first; those before `begin` have expired.
struct SubWindow {
  std::vector<int32_t> x;
  std::vector<float> y;
  std::vector<int64_t> sequence;
  size_t begin = 0;

  void store(const Message& row) {
    x.push_back(row.x), y.push_back(row.y), sequence.push_back(row.sequence);
  }
  void expire(int64_t row) {
    while (begin < sequence.size() && sequence[begin] <= row) ++begin;
    if (begin < 1024 || begin * 2 < sequence.size()) return;
    const auto gone = static_cast<std::ptrdiff_t>(begin);
    x.erase(x.begin(), x.begin() + gone), y.erase(y.begin(), y.begin() + gone);
    sequence.erase(sequence.begin(), sequence.begin() + gone);
    begin = 0;
  }
};

class Chain {
 public:
  Chain(int cores, int64_t window, int32_t reach) : window_(window), reach_(reach), cores_(static_cast<size_t>(cores)) {
    for (int side = 0; side < 2; ++side) {
      for (int queue = 0; queue <= cores; ++queue) queues_[side].push_back(std::make_unique<Queue>());
    }
  }

  // Rows in turns, a left one first: the first `warm` of each side fill the windows. Returns pairs; seconds for the rest.
  int64_t run(const int32_t* x, const float* y, const int32_t* a, const float* b, int64_t count, int64_t warm,
              double* seconds) {
    std::vector<std::thread> threads;
    for (size_t core = 0; core < cores_.size(); ++core) threads.emplace_back([this, core] { serve(core); });
    auto start = std::chrono::steady_clock::now();
    for (int64_t row = 0; row < count; ++row) {
      if (row == warm) start = std::chrono::steady_clock::now();
      for (int side = 0; side < 2; ++side) {
        const int64_t sequence = 2 * row + side;
        const auto home = static_cast<int32_t>(row % static_cast<int64_t>(cores_.size()));
        send(side, {sequence, side ? a[row] : x[row], side ? b[row] : y[row], home, Message::kRow});
        if (row < window_) continue;
        const auto old = static_cast<int32_t>((row - window_) % static_cast<int64_t>(cores_.size()));
        send(side, {sequence - 2 * window_, 0, 0, old, Message::kExpire});
      }
    }
    for (int side = 0; side < 2; ++side) send(side, {INT64_MAX, 0, 0, 0, Message::kEnd});
    for (std::thread& thread : threads) thread.join();
    *seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    int64_t pairs = 0;
    for (const Core& core : cores_) pairs += core.pairs;
    return pairs;
  }

 private:
  struct Core {
    SubWindow stored[2];
    std::deque<Message> passed[2];  // rows of which earlier ones of the other side may still come
    bool ended[2] = {false, false};
    int64_t pairs = 0;
    char line[64];
  };

  Queue& in(int side, size_t core) { return *queues_[side][side == 0 ? core : cores_.size() - 1 - core]; }
  Queue* out(int side, size_t core) {
    const bool last = side == 0 ? core + 1 == cores_.size() : core == 0;
    return last ? nullptr : queues_[side][side == 0 ? core + 1 : cores_.size() - core].get();
  }
  void send(int side, const Message& message) {
    while (queues_[side][0]->full()) std::this_thread::yield();
    queues_[side][0]->push(message);
  }

  void serve(size_t at) {
    Core& core = cores_[at];
    while (!core.ended[0] || !core.ended[1]) {
      bool moved = false;
      for (int side = 0; side < 2; ++side) {
        const Message* front = in(side, at).front();
        Queue* next = out(side, at);
        if (front == nullptr || (next != nullptr && next->full())) continue;
        const Message message = *front;
        in(side, at).pop();
        if (next != nullptr) next->push(message);  // before anything is done with it
        take(core, at, side, message);
        moved = true;
      }
      if (!moved) std::this_thread::yield();
    }
  }

  bool matches(const Message& one, int32_t x, float y) const {
    return std::abs(one.x - x) <= reach_ && std::abs(one.y - y) <= static_cast<float>(reach_);
  }

  void take(Core& core, size_t at, int side, const Message& message) {
    const bool own = message.home == static_cast<int32_t>(at);
    if (message.kind == Message::kEnd) core.ended[side] = true;
    if (message.kind == Message::kExpire) {
      // Rows of the other side that were sent before may be on their way still: queues of 1,024 a core and side.
      if (own) core.stored[side].expire(message.sequence - 4096 * static_cast<int64_t>(cores_.size() + 1));
      return;
    }
    // Rows of the other side that have passed, and came before this one: nothing later of this side is before them.
    std::deque<Message>& passed = core.passed[1 - side];
    while (!passed.empty() && passed.front().sequence < message.sequence) passed.pop_front();
    if (message.kind != Message::kRow) return;
    const SubWindow& other = core.stored[1 - side];
    const int64_t least = message.sequence / 2 + (side == 1) - window_;  // of the rows that it may meet
    const size_t end = other.sequence.size();
    size_t from = other.begin;
    while (from < end && other.sequence[from] / 2 < least) ++from;
    int64_t pairs = 0;
    for (size_t i = from; i < end; ++i) {
      pairs += (std::abs(message.x - other.x[i]) <= reach_) & (std::abs(message.y - other.y[i]) <= static_cast<float>(reach_)) &
               (other.sequence[i] < message.sequence);
    }
    if (own) {  // later rows of the other side that have been here already
      for (const Message& later : passed) {
        pairs += matches(message, later.x, later.y) && later.sequence / 2 + (side == 0) - window_ <= message.sequence / 2;
      }
      core.stored[side].store(message);
    }
    core.pairs += pairs;
    core.passed[side].push_back(message);
  }

  const int64_t window_;
  const int32_t reach_;
  std::vector<Core> cores_;
  std::vector<std::unique_ptr<Queue>> queues_[2];  // by how many cores a row has passed
};

}  // namespace

extern "C" int64_t handshake_join(const int32_t* x, const float* y, const int32_t* a, const float* b, int64_t count,
                                  int64_t warm, int64_t window, int32_t reach, int32_t cores, double* seconds) {
  return Chain(cores, window, reach).run(x, y, a, b, count, warm, seconds);
}
