// The as-of join's state: right rows by group and time, and the left rows that wait. A group is the rows of one value of
// the `by` columns; without any there is one.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/memory.hpp"
#include "core/threads.hpp"

namespace muntin {

enum class Direction { kBackward, kForward, kNearest };

struct AsOfRule {
  Direction direction = Direction::kBackward;
  bool exact = true;         // equal times match
  bool floats = false;       // times are encoded float64, as host/keys/key_type.py has them
  bool limited = false;      // there is a tolerance
  uint64_t tolerance = 0;    // for integer times
  double float_tolerance = 0;  // for floats
};

// Integer times: distances are unsigned differences, which are exact.
struct Integers {
  // Whether a row at `row`, on either side of a left row's `time`, is within the tolerance.
  static bool within(int64_t time, int64_t row, const AsOfRule& rule) { return !rule.limited || distance(time, row) <= rule.tolerance; }
  static bool before_is_nearer(int64_t before, int64_t time, int64_t after) { return distance(before, time) <= distance(time, after); }
  static uint64_t distance(int64_t a, int64_t b) {
    return a < b ? static_cast<uint64_t>(b) - static_cast<uint64_t>(a) : static_cast<uint64_t>(a) - static_cast<uint64_t>(b);
  }
};

// Float times: sums are compared with what was lost in them, so the comparison is that of the exact sums.
struct Floats {
  static double value(int64_t code) {
    return std::bit_cast<double>(code ^ ((code >> 63) & std::numeric_limits<int64_t>::max()));
  }
  // The sign of a + b - c - d; all finite, and small enough that no sum overflows.
  static int sign(double a, double b, double c, double d) {
    const auto [s, e] = sum(a, b);
    const auto [t, f] = sum(c, d);
    if (s != t) {
      // s and t are the sums rounded to nearest, which keeps their order.
      return s < t ? -1 : 1;
    }
    return e < f ? -1 : e > f ? 1 : 0;
  }
  static std::pair<double, double> sum(double a, double b) {
    const double s = a + b, t = s - a;
    return {s, (a - (s - t)) + (b - t)};
  }
  static bool large(double x) { return std::abs(x) > 0x1p1000; }
  static int scaled(double a, double b, double c, double d) {
    // Beyond 2**1000 what a quarter loses of the smallest numbers decides nothing but between numbers as small.
    if (large(a) || large(b) || large(c) || large(d)) return sign(a / 4, b / 4, c / 4, d / 4);
    return sign(a, b, c, d);
  }
  static bool within(int64_t left, int64_t row, const AsOfRule& rule) {
    if (!rule.limited || left == row) return true;
    const double low = value(std::min(left, row)), high = value(std::max(left, row));
    if (std::isinf(low) || std::isinf(high)) return false;
    return scaled(low, rule.float_tolerance, high, 0) >= 0;
  }
  static bool before_is_nearer(int64_t before, int64_t time, int64_t after) {
    const double b = value(before), t = value(time), a = value(after);
    if (std::isinf(b)) return b == t || std::isinf(a) || std::isinf(t);
    if (std::isinf(t)) return a != t;
    if (std::isinf(a)) return true;
    return scaled(t, t, a, b) <= 0;  // t - b <= a - t
  }
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
  void each_slot(F&& f) {
    for (size_t i = head_; i < rows_.size(); ++i) f(rows_[i].slot);
  }

 private:
  CallVector<AsOfRow> rows_;  // what every row looks at lies in one cache line
  size_t head_ = 0;
  size_t sorted_ = 0;
  uint32_t hint_ = 0;

 public:
  size_t waiting = 0;  // left rows, but those of fresh chunks
  int64_t oldest_waiting = 0;  // of left rows that have been probed and wait, where `probed` is the newest probe
  uint64_t probed = 0;
};

// The numbers of the groups, each known by its word of 64 bits; those of groups that are forgotten are given again.
class AsOfGroups {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Of each word, kNone where it has none.
  void find(std::span<const int64_t> words, CallVector<uint32_t>& groups, int max_threads) const;
  // Of each word, new ones where it had none.
  void add(std::span<const int64_t> words, CallVector<uint32_t>& groups, int max_threads);
  uint32_t add(int64_t word);
  void forget(uint32_t group);

  size_t size() const { return used_; }
  uint32_t end() const { return static_cast<uint32_t>(words_.size()); }  // past the greatest
  bool live(uint32_t group) const { return live_[group]; }
  CallVector<int64_t> words() const;
  size_t bytes() const { return table_.size() * sizeof(Entry) + near_.size() * sizeof(uint32_t) + words_.size() * (sizeof(int64_t) + 1); }

 private:
  static constexpr uint64_t kNear = 1 << 16;  // codes and small integers: words below it have a table of their own
  struct Entry {
    int64_t word;
    uint32_t group;
  };

  uint32_t group_of(int64_t word) const {
    if (static_cast<uint64_t>(word) < kNear) return static_cast<size_t>(word) < near_.size() ? near_[static_cast<size_t>(word)] : kNone;
    return table_[place_of(word)].group;
  }
  size_t home(int64_t word) const { return (static_cast<uint64_t>(word) * 0x9e3779b97f4a7c15ull) >> (64 - std::countr_zero(table_.size())); }
  size_t place_of(int64_t word) const;  // in the table: of the word, or where it would go
  void grow();

  CallVector<Entry> table_{64, Entry{0, kNone}};  // open addressing, by word
  CallVector<uint32_t> near_;
  CallVector<int64_t> words_;
  CallVector<char> live_;
  CallVector<uint32_t> free_;
  size_t used_ = 0, hashed_ = 0;
};

// Numbers of rows, 64 bits each, in memory for results.
struct AsOfNumbers {
  Block block;
  size_t size = 0;

  int64_t* data() const { return static_cast<int64_t*>(block.data()); }
  void reserve(size_t rows) { block = Block(std::max<size_t>(rows, 1) * sizeof(int64_t), Use::kResult); }
};

// New rows of one side in the order of their arrival: the word of each row's group, its time, and the caller's number
// for it, its slot.
struct AsOfRows {
  std::span<const int64_t> words;  // empty: one group
  std::span<const int64_t> times;
  const int64_t* slots = nullptr;  // ascending; null: `first` and those that follow
  int64_t first = 0;
  bool grouped = false;  // there are words

  int64_t slot(size_t at) const { return slots == nullptr ? first + static_cast<int64_t>(at) : slots[at]; }
};

// What an as-of join holds. One call at a time.
class AsOfState {
 public:
  virtual ~AsOfState() = default;

  // Adds rows, and tells the left rows that no right row past `watermark` can do better for, or with `all` every left row,
  // in the order of their arrival, each with its right row or -1; they wait no longer. With `matched` those without one are left out.
  // Then drops right rows that no left row that waits, or comes with a time past `useless` (none: any), can meet, and
  // groups that have no row.
  virtual void step(const AsOfRows& left, const AsOfRows& right, std::optional<int64_t> watermark, std::optional<int64_t> useless, bool all,
                    bool matched, int max_threads, AsOfNumbers& lefts, AsOfNumbers& rights) = 0;

  // The slots of all rows of the right or the left side; calls `f` with each, a reference to int64_t.
  virtual void each_slot(bool right, const std::function<void(int64_t&)>& f) = 0;

  virtual size_t right_rows() const = 0;
  virtual size_t left_rows() const = 0;
  virtual size_t bytes() const = 0;
  size_t groups() const { return numbers_.size(); }
  CallVector<int64_t> words() const { return numbers_.words(); }  // of the groups that have rows

 protected:
  explicit AsOfState(const AsOfRule& rule) : rule_(rule) {}
  AsOfRule rule_;
  AsOfGroups numbers_;
  Block window_{1};  // pages of results are kept while there is memory for windows
};

// The state whose left rows search their group's right rows: for any direction and watermark.
class AsOfSearch final : public AsOfState {
 public:
  explicit AsOfSearch(const AsOfRule& rule) : AsOfState(rule) {}

  void step(const AsOfRows& left, const AsOfRows& right, std::optional<int64_t> watermark, std::optional<int64_t> useless, bool all, bool matched,
            int max_threads, AsOfNumbers& lefts, AsOfNumbers& rights) override;
  void each_slot(bool right, const std::function<void(int64_t&)>& f) override;
  size_t right_rows() const override { return right_rows_; }
  size_t left_rows() const override;
  size_t bytes() const override;

 private:
  struct Waiting {
    int64_t time;
    int64_t slot;
    uint32_t group;
  };
  // Left rows in the order of arrival.
  struct Chunk {
    CallVector<Waiting> rows;
    bool fresh = false;  // its groups do not count them as waiting yet
    int64_t oldest = std::numeric_limits<int64_t>::max();
    int64_t newest = std::numeric_limits<int64_t>::min();
    void add(const Waiting& row) {
      rows.push_back(row);
      oldest = std::min(oldest, row.time);
      newest = std::max(newest, row.time);
    }
  };

  void number(const AsOfRows& rows, int max_threads);  // the groups of rows, in `numbered_`
  void add_right(const AsOfRows& rows, int max_threads);
  void add_left(const AsOfRows& rows, int max_threads);
  void ready(std::optional<int64_t> watermark, bool all, bool matched, int max_threads, AsOfNumbers& left, AsOfNumbers& right);
  void expire(std::optional<int64_t> watermark);
  void settle(Chunk& chunk);

  // What a left row of this time meets as of now: the index of a row of its group, or -1; and whether that is final by
  // this watermark.
  template <class Time>
  std::pair<ptrdiff_t, bool> find(AsOfGroup& group, int64_t time, int64_t watermark) const;

  // `final` may be null: then the watermark is any.
  template <class Time>
  void probe(const Chunk& chunk, size_t first, size_t last, int64_t watermark, int64_t* found, char* final);

  std::vector<AsOfGroup> groups_;
  CallVector<uint32_t> numbered_;
  std::vector<Chunk> chunks_;
  CallVector<uint32_t> unordered_;  // groups with an insertion buffer
  uint64_t probes_ = 1;
  size_t since_sweep_ = 0;
  size_t right_rows_ = 0;
};

}  // namespace muntin
