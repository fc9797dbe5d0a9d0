// The as-of join's state: right rows by group and time, and the left rows that wait.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "threads.hpp"

namespace mullion {

enum class Direction { kBackward, kForward, kNearest };

struct AsOfRule {
  Direction direction = Direction::kBackward;
  bool exact = true;         // equal times match
  bool floats = false;       // times are encoded float64, as host/float_order.py has them
  bool limited = false;      // there is a tolerance
  uint64_t tolerance = 0;    // for integer times
  double float_tolerance = 0;  // for floats
};

// A right row: its time and the caller's number for it.
struct AsOfRow {
  int64_t time;
  int64_t slot;
};

// The right rows of one value of the `by` columns: in order of time, those of one time in order of arrival, and behind
// them an insertion buffer of rows that came out of order. Of equal times no more rows are kept than can be chosen.
class AsOfGroup {
 public:

  std::span<const AsOfRow> rows() const { return {rows_.data() + head_, rows_.size() - head_}; }
  bool ordered() const { return sorted_ == rows_.size(); }
  std::atomic_ref<uint32_t> hint() { return std::atomic_ref<uint32_t>(hint_); }
  size_t bytes() const { return sizeof(AsOfGroup) + rows_.capacity() * sizeof(AsOfRow); }

  size_t add(AsOfRow row, Direction direction);  // rows more
  size_t order(Direction direction);             // merges the insertion buffer; rows less
  void drop(size_t count);                       // the oldest rows
  template <class F>
  void renumber(F&& f) {
    for (size_t i = head_; i < rows_.size(); ++i) rows_[i].slot = f(rows_[i].slot);
  }

 private:
  std::vector<AsOfRow> rows_;  // what every row looks at lies in one cache line
  size_t head_ = 0;
  size_t sorted_ = 0;
  uint32_t hint_ = 0;

 public:
  bool live = false;   // has a place in the table
  size_t waiting = 0;  // left rows, but those of fresh chunks
  int64_t word = 0;
  int64_t oldest_waiting = 0;  // of left rows that have been probed and wait, where `probed` is the newest probe
  uint64_t probed = 0;
};

// Numbers of rows, 64 bits each, in memory for results.
struct AsOfNumbers {
  Block block;
  size_t size = 0;

  int64_t* data() const { return static_cast<int64_t*>(block.data()); }
  void reserve(size_t rows) { block = Block(std::max<size_t>(rows, 1) * sizeof(int64_t), Use::kResult); }
};

class AsOfState {
 public:
  explicit AsOfState(const AsOfRule& rule) : rule_(rule), table_(64, {0, kNone}) {}

  // Right rows, and left rows, in the order of their arrival: word of the `by` value, time, the caller's number.
  void add_right(std::span<const int64_t> words, std::span<const int64_t> times, std::span<const int64_t> slots, int most_threads);
  void add_left(std::span<const int64_t> words, std::span<const int64_t> times, std::span<const int64_t> slots, int most_threads);

  // The left rows that no right row past `watermark` can do better for, or `all` of them, in the order of their
  // arrival, each with its right row or -1; they wait no longer. With `matched` those without one are left out.
  void ready(std::optional<int64_t> watermark, bool all, bool matched, int most_threads, AsOfNumbers& left, AsOfNumbers& right);

  // Drops right rows that no left row that waits, or comes with a time past `watermark` (none: any), can meet, and
  // groups that have no row.
  void expire(std::optional<int64_t> watermark);

  // The caller's numbers of all rows of the right or the left side, ascending; all are before `end`.
  std::vector<int64_t> slots(bool right, size_t end) const;
  std::vector<int64_t> words() const;  // of the `by` values that have rows
  void renumber(bool right, std::span<const int64_t> numbers);  // each number becomes numbers[number]

  size_t right_rows() const { return right_rows_; }
  size_t left_rows() const;
  size_t groups() const { return used_; }
  size_t bytes() const;

 private:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  struct Waiting {
    int64_t time;
    int64_t slot;
    uint32_t group;
  };
  // Left rows in the order of arrival.
  struct Chunk {
    std::vector<Waiting> rows;
    bool fresh = false;  // its groups do not count them as waiting yet
    int64_t oldest = std::numeric_limits<int64_t>::max();
    int64_t newest = std::numeric_limits<int64_t>::min();
    void add(const Waiting& row) {
      rows.push_back(row);
      oldest = std::min(oldest, row.time);
      newest = std::max(newest, row.time);
    }
  };

  const std::vector<uint32_t>& groups_of(std::span<const int64_t> words, int most_threads);
  uint32_t group_of(int64_t word);
  size_t place_of(int64_t word) const;  // in the table: of the word, or where it would go
  void settle(Chunk& chunk);
  void grow();
  void forget(uint32_t group);
  size_t home(int64_t word) const { return (static_cast<uint64_t>(word) * 0x9e3779b97f4a7c15ull) >> (64 - std::countr_zero(table_.size())); }

  // What a left row of this time meets as of now: the index of a row of its group, or -1; and whether that is final.
  template <class Time>
  std::pair<ptrdiff_t, bool> find(AsOfGroup& group, int64_t time, std::optional<int64_t> watermark) const;

  // `final` may be null.
  template <class Time>
  void probe(const Chunk& chunk, size_t first, size_t last, std::optional<int64_t> watermark, int64_t* found, char* final);

  AsOfRule rule_;
  Block window_{1};  // pages of results are kept while there is memory for windows
  std::vector<AsOfGroup> groups_;
  std::vector<uint32_t> free_;
  struct Entry {
    int64_t word;
    uint32_t group;
  };
  std::vector<Entry> table_;  // open addressing, by word
  std::vector<uint32_t> found_groups_;
  size_t used_ = 0;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> unordered_;  // groups with an insertion buffer
  uint64_t probes_ = 1;
  size_t since_sweep_ = 0;
  size_t right_rows_ = 0;
};

void bind_as_of(nanobind::module_& m);

}  // namespace mullion
