// Range search over a window: by native mapper, which folds what lies in a range, and by iterators.
//
// Source: the partitioned temporal window index, section 3.2.
#pragma once

#include <bit>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "core/window_index.hpp"

namespace muntin {

// What a range search by native mapper has added up, of arrival numbers or of the rows' values.
struct RangeTotals {
  enum Kind { kCount, kRows, kWhole, kReal };
  Kind kind;
  const Times* values = nullptr;  // by arrival number; bits of doubles with kReal
  const Times* times = nullptr;   // null: every row is seen
  int64_t after = 0;              // else rows of later times than this

  uint64_t count = 0;
  Wide sum = 0;
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  double real_sum = 0, real_least = std::numeric_limits<double>::infinity(), real_most = -std::numeric_limits<double>::infinity();

  bool sees(int64_t row) const { return times == nullptr || times->of(row) > after; }
  void add_whole(int64_t value) {
    ++count;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void add_real(double value) {
    ++count;
    real_sum += value;
    real_least = std::min(real_least, value);
    real_most = std::max(real_most, value);
  }
  void add(int64_t row) {
    if (!sees(row)) return;
    switch (kind) {
      case kCount: ++count; break;
      case kRows: add_whole(row); break;
      case kWhole: add_whole(values->of(row)); break;
      case kReal: add_real(std::bit_cast<double>(values->of(row))); break;
    }
  }
};

// An iterator over a range, row by row.
template <class Key>
class RangeCursor {
 public:
  virtual ~RangeCursor() = default;
  virtual bool next(Key& key, int64_t& row) = 0;
};

// Iterators: with a place in the structure, or from its root on for each key.
enum class Scan { kPlace, kRoot };

// What an index has that can be searched by ranges of keys, both ends included. A call is for many rows.
template <class Key>
class RangeSearch {
 public:
  using Visit = std::function<bool(Key, int64_t)>;

  virtual void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) = 0;  // in order of arrival
  // The greatest arrival number of each key's rows, where it is greater than what `rows` holds; where `at` is not null, of
  // those rows whose time is the key's in it.
  virtual void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times& times) const = 0;
  virtual void fold(Key low, Key high, RangeTotals& totals) const = 0;
  virtual bool visit(Key low, Key high, const Visit& f) const = 0;  // until it returns false
  virtual std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const = 0;

 protected:
  ~RangeSearch() = default;
};

// An iterator by thread and buffer: a mapper runs in a thread of its own and fills one buffer while the other is read.
//
// Source: the partitioned temporal window index, section 3.2.
template <class Key>
class ThreadCursor final : public RangeCursor<Key> {
 public:
  ThreadCursor(const RangeSearch<Key>& index, Key low, Key high) : producer_([this, &index, low, high] {
    try {
      index.visit(low, high, [this](Key key, int64_t row) {
        filling_.push_back({key, row});
        return filling_.size() < kBuffer || hand_over(false);
      });
    } catch (...) {
      error_ = std::current_exception();
    }
    hand_over(true);
  }) {}
  ~ThreadCursor() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    producer_.join();
  }
  bool next(Key& key, int64_t& row) override {
    if (at_ == reading_.size() && !fetch()) return false;
    std::tie(key, row) = reading_[at_++];
    return true;
  }

 private:
  static constexpr size_t kBuffer = 4096;
  using Entries = std::vector<std::pair<Key, int64_t>>;

  // The producer's: gives its buffer to the reader, who must have taken the one before. False: there is no reader left.
  bool hand_over(bool last) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || !full_; });
    if (stopped_) return false;
    full_buffer_.swap(filling_);
    filling_.clear();
    full_ = true;
    ended_ = last;
    changed_.notify_all();
    return true;
  }
  bool fetch() {
    while (true) {
      std::unique_lock lock(mutex_);
      if (done_) return false;
      changed_.wait(lock, [this] { return full_; });
      reading_.swap(full_buffer_);
      at_ = 0;
      full_ = false;
      done_ = ended_;
      changed_.notify_all();
      if (done_ && error_) std::rethrow_exception(error_);
      if (!reading_.empty()) return true;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Entries filling_, full_buffer_, reading_;  // the producer's, the one between, the reader's
  size_t at_ = 0;
  bool full_ = false, ended_ = false, done_ = false, stopped_ = false;
  std::exception_ptr error_;
  std::thread producer_;  // the last: it uses the others
};

// Of one row at least.
inline Extent extent_of(const int64_t* times, size_t count, int64_t first_row) {
  Extent extent{first_row, first_row + static_cast<int64_t>(count) - 1, 0, 0};
  if (times != nullptr) {
    const auto [least, most] = std::minmax_element(times, times + count);
    extent.first_time = *least;
    extent.last_time = *most;
  }
  return extent;
}

}  // namespace muntin
