// SplitJoin on threads: a k-ary distribution tree, join cores that share both windows, punctuated mergers, a combiner.
//
// Source: SplitJoin (Najafi, Sadoghi, Jacobsen, USENIX ATC 2016): algorithms 1 to 3 and section 4 for the distribution
// and the join cores, section 5 and algorithm 5 for punctuation and merging. Limits on arrival numbers and event times
// that each pair is checked against, marks that empty time windows, and cores that fail are ours.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.hpp"

namespace muntin {

enum class PairOrder { kNone, kOuter, kInner };

struct SplitJoinSettings {
  explicit SplitJoinSettings(const Options& options)
      : cores(options.whole("cores", 1, 1)), fan_out(options.whole("fan_out", 2, 2)),
        queue_rows(options.whole("queue_rows", 1, 1024)), active(options.flag("active", false)),
        order(static_cast<PairOrder>(options.choice("order", {"none", "outer", "inner"}))),
        every(static_cast<int64_t>(options.whole("every", 1, 1))), timed(options.flag("timed", false)),
        schedule(options.whole("schedule", 0, 0)) {}

  size_t cores, fan_out;
  size_t queue_rows;     // of each queue, rounded up to a power of two
  bool active;           // a probing row first drops the rows that no later one can meet; else new rows push out old ones
  PairOrder order;
  int64_t every;         // probing rows of a group (outer), comparisons of each core (inner)
  bool timed;            // latencies are measured
  uint64_t schedule;     // seed of random yields and pauses of the threads, for tests; 0: none
};

// What a thread waits for. Others notify it when they have put something into its queues, or made room behind it.
class EventCount {
 public:
  uint32_t count() const { return count_.load(); }
  void notify() {
    count_.fetch_add(1);
    if (!asleep_.load()) return;
    { const std::lock_guard lock(mutex_); }
    changed_.notify_one();
  }
  // Returns once it was notified more than `seen` times, or after a while.
  void wait(uint32_t seen);

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<bool> asleep_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

// A queue with a single producer and a single consumer.
template <class T>
class Queue {
 public:
  explicit Queue(size_t capacity) : items_(capacity) {
    if ((capacity & (capacity - 1)) != 0) throw std::invalid_argument("a queue's capacity is a power of two");
  }
  // The producer's.
  bool full() {
    if (tail_ - seen_head_ < items_.size()) return false;
    seen_head_ = head_.load(std::memory_order_acquire);
    return tail_ - seen_head_ == items_.size();
  }
  void push(const T& item) {  // not when full
    items_[tail_ & (items_.size() - 1)] = item;
    shared_tail_.store(++tail_, std::memory_order_release);
  }
  // The consumer's. Null where nothing is there.
  const T* front() {
    if (taken_ == seen_tail_) {
      seen_tail_ = shared_tail_.load(std::memory_order_acquire);
      if (taken_ == seen_tail_) return nullptr;
    }
    return &items_[taken_ & (items_.size() - 1)];
  }
  void pop() { head_.store(++taken_, std::memory_order_release); }
  size_t bytes() const { return items_.size() * sizeof(T); }

 private:
  std::vector<T> items_;
  alignas(64) size_t tail_ = 0;
  size_t seen_head_ = 0;
  std::atomic<size_t> shared_tail_{0};
  alignas(64) size_t taken_ = 0;
  size_t seen_tail_ = 0;
  std::atomic<size_t> head_{0};
};

}  // namespace muntin
