// Aggregates over ranges of keys and of arrival or time, without a look at the rows in them.
//
// A window is a ladder of sorted runs, as that of PanJoin, section III-A. A run keeps values in the order of its keys,
// and aggregates of blocks of them, so that those of any range of keys take a constant number of steps. A run that a
// limit of arrival or time cuts gets a wavelet tree over that limit: the same values once more on each of log2(n / 32)
// levels, each level split by the order of arrival or time. A range of keys and of arrival is then at most two nodes a
// level. Source of the tree: Grossi, Gupta, Vitter, High-order entropy-compressed text indexes, SODA 2003.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "core/memory.hpp"
#include "core/threads.hpp"
#include "core/window_index.hpp"

namespace muntin {

// What is kept of the values of a range.
enum class Fold {
  kSum,        // of int64 values, in 128 bits: exact
  kAdd,        // of double values, as an unevaluated sum of two
  kMoments,    // of double values and of their squares, each as an unevaluated sum of two
  kLeast,      // the least of int64 values
  kLeastWide,  // the least of 128-bit values
  kLeastRow,   // the least of ranked rows
  kEach,       // every ranked row
  kSome,       // how many uint8 values are 1
};

// A row by a key of 128 bits, then by a number. One with the greatest number is none.
struct Ranked {
  uint64_t low;
  int64_t high, row;
  friend bool operator<(const Ranked& a, const Ranked& b) {
    if (a.high != b.high) return a.high < b.high;
    return a.low != b.low ? a.low < b.low : a.row < b.row;
  }
};

template <class V>
constexpr V kNothing = std::numeric_limits<V>::max();
template <>
inline constexpr Ranked kNothing<Ranked>{~uint64_t{0}, kNothing<int64_t>, kNothing<int64_t>};

// s + c is the sum; exact but for the roundings of c. Source: Neumaier, ZAMM 54 (1974), with Knuth's sum of two numbers,
// which does not ask which is the larger.
struct Compensated {
  double s = 0, c = 0;
  void add(double x) {
    const double t = s + x, more = t - s;
    c += (s - (t - more)) + (x - more);  // of no meaning once s is not finite
    s = t;
  }
  void add(const Compensated& other) {
    add(other.s);
    c += other.c;
  }
  double value() const { return std::isfinite(s) ? s + c : s; }
};

// What x * x, rounded, lacks. Source: Dekker, Numerische Mathematik 18 (1971); a call of std::fma costs more than that
// where it is no instruction.
inline double square_error(double x, double square) {
#if defined(__FMA__) || defined(__aarch64__)
  return std::fma(x, x, -square);
#else
  const double large = x * 134217729.0, high = large - (large - x), low = x - high;
  return ((high * high - square) + 2 * high * low) + low * low;
#endif
}

struct Moments {
  Compensated sum, squares;
  void add(double x) {
    const double square = x * x;
    sum.add(x);
    squares.add(square);
    squares.c += square_error(x, square);
  }
  void add(const Moments& other) {
    sum.add(other.sum);
    squares.add(other.squares);
  }
};

// Values of all probes so far, by place.
struct Accumulator {
  Accumulator(Fold fold, size_t count) : fold(fold) {
    if (fold == Fold::kSum) wide.assign(count, 0);
    if (fold == Fold::kLeastWide) wide.assign(count, kNothing<Wide>);
    if (fold == Fold::kLeast) whole.assign(count, kNothing<int64_t>);
    if (fold == Fold::kLeastRow) ranked.assign(count, kNothing<Ranked>);
    if (fold == Fold::kMoments) moments.assign(count, {});
    if (fold == Fold::kSome) whole.assign(count, 0);
    if (fold == Fold::kAdd) {
      sum.assign(count, 0.0);
      error.assign(count, 0.0);
    }
  }

  // The values of some places of another, and back.
  void take(const Accumulator& all, const uint32_t* places) {
    each(all, [&](auto& own, const auto& others) {
      for (size_t at = 0; at < own.size(); ++at) own[at] = others[places[at]];
    });
  }
  void give(Accumulator& all, const uint32_t* places, std::mutex& appending) {
    each(all, [&](const auto& own, auto& others) {
      for (size_t at = 0; at < own.size(); ++at) others[places[at]] = own[at];
    });
    if (found.empty()) return;
    for (auto& [place, row] : found) place = places[place];
    const std::lock_guard guard(appending);
    all.found.insert(all.found.end(), found.begin(), found.end());
  }

  Fold fold;
  CallVector<Wide> wide;
  CallVector<int64_t> whole;
  CallVector<double> sum, error;
  CallVector<Ranked> ranked;
  CallVector<Moments> moments;
  CallVector<std::pair<uint32_t, Ranked>> found;  // of kEach, in any order

 private:
  template <class All, class F>
  void each(All& all, F&& f) {
    each_of(*this, all, f);
  }
  template <class Own, class All, class F>
  static void each_of(Own& own, All& all, F&& f) {
    f(own.wide, all.wide);
    f(own.whole, all.whole);
    f(own.sum, all.sum);
    f(own.error, all.error);
    f(own.ranked, all.ranked);
    f(own.moments, all.moments);
  }
};

template <class T>
class Array {
 public:
  Array() = default;
  explicit Array(size_t size) : size_(size) {
    if (size > 0) block_ = Block(size * sizeof(T));
  }
  T* data() const { return static_cast<T*>(block_.data()); }
  T& operator[](size_t at) const { return data()[at]; }
  size_t size() const { return size_; }
  size_t bytes() const { return block_.bytes(); }

 private:
  Block block_;
  size_t size_ = 0;
};

// NumPy's arrays need not lie where a 128-bit load may.
template <class T>
T loaded(const T* values, size_t at) {
  T value;
  std::memcpy(&value, reinterpret_cast<const char*>(values) + at * sizeof(T), sizeof(T));
  return value;
}

constexpr size_t kFoldBlock = 8;

// Values in some order. Ranges exclude their ends.
class Track {
 public:
  virtual ~Track() = default;
  // The values at `from`: below `length` of this track, else of `other`.
  virtual std::unique_ptr<Track> gather(const Track* other, const uint32_t* from, size_t count) const = 0;
  virtual void fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
                    Accumulator& into) const = 0;
  void fold(size_t start, size_t end, uint32_t place, Accumulator& into) const {
    const auto from = static_cast<uint32_t>(start), to = static_cast<uint32_t>(end);
    fold(&from, &to, &place, 1, into);
  }
  virtual size_t bytes() const = 0;
};

// Sums that can be taken back: that of all values before each.
template <class Value, class Sum>
class SummedTrack final : public Track {
 public:
  explicit SummedTrack(const Array<Value>& values) : before_(values.size() + 1) {
    before_[0] = 0;
    for (size_t at = 0; at < values.size(); ++at) before_[at + 1] = before_[at] + static_cast<Sum>(values[at]);
  }

  std::unique_ptr<Track> gather(const Track* other, const uint32_t* from, size_t count) const override {
    Array<Value> values(count);
    const size_t own = before_.size() - 1;
    const auto* more = static_cast<const SummedTrack*>(other);
    for (size_t at = 0; at < count; ++at) values[at] = from[at] < own ? value(from[at]) : more->value(from[at] - own);
    return std::make_unique<SummedTrack>(values);
  }

  using Track::fold;
  void fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
            Accumulator& into) const override {
    for (size_t at = 0; at < count; ++at) {
      const Sum sum = before_[end[at]] - before_[start[at]];
      if constexpr (std::is_same_v<Sum, Wide>) {
        into.wide[places[at]] += sum;
      } else {
        into.whole[places[at]] += sum;
      }
    }
  }
  size_t bytes() const override { return before_.bytes(); }

 private:
  Value value(size_t at) const { return static_cast<Value>(before_[at + 1] - before_[at]); }

  Array<Sum> before_;
};

struct AddFold {
  using Value = double;
  using Part = double;
  using Running = Compensated;
  static Part part(const Running& sum) { return sum.value(); }
  static Running get(const Accumulator& from, uint32_t place) { return {from.sum[place], from.error[place]}; }
  static void put(const Running& sum, Accumulator& into, uint32_t place) {
    into.sum[place] = sum.s;
    into.error[place] = sum.c;
  }
};

struct MomentsFold {
  using Value = double;
  using Part = Moments;
  using Running = Moments;
  static Part part(const Running& sums) { return sums; }
  static Running get(const Accumulator& from, uint32_t place) { return from.moments[place]; }
  static void put(const Running& sums, Accumulator& into, uint32_t place) { into.moments[place] = sums; }
};

template <class V>
struct LeastFold {
  using Value = V;
  using Part = V;
  struct Running {
    V least = kNothing<V>;
    void add(V value) { least = std::min(least, value); }
  };
  static Part part(const Running& running) { return running.least; }
  static Running get(const Accumulator& from, uint32_t place) { return {of(from)[place]}; }
  static void put(const Running& running, Accumulator& into, uint32_t place) { of(into)[place] = running.least; }

 private:
  template <class Held>
  static auto& of(Held& held) {
    if constexpr (std::is_same_v<V, Ranked>) {
      return held.ranked;
    } else if constexpr (sizeof(V) == 8) {
      return held.whole;
    } else {
      return held.wide;
    }
  }
};

// Adds one value.
template <class Kind>
void fold_one(Accumulator& into, uint32_t place, typename Kind::Value value) {
  typename Kind::Running running = Kind::get(into, place);
  running.add(value);
  Kind::put(running, into, place);
}

// Folds that cannot be taken back. A range in one block is looked at value by value. Any other is four folds at most:
// from its start to the end of a block, from the start of one to its end, and of the blocks between two rows of a table:
// row k has, in groups of 2**(k + 1) blocks, the fold of all between a block, itself included, and the group's middle.
// Where a fold takes much more than its values the ends are looked at value by value too: to read folds of them costs
// more than to add.
template <class Kind>
class Folded {
 public:
  using Value = typename Kind::Value;
  using Part = typename Kind::Part;
  using Running = typename Kind::Running;
  static constexpr bool kEnds = sizeof(Part) <= 16;
  explicit Folded(Array<Value>&& values) : values_(std::move(values)) {
    const size_t size = values_.size(), blocks = size / kFoldBlock;
    if constexpr (kEnds) {
      head_ = Array<Part>(size);
      tail_ = Array<Part>(size);
      for (size_t begin = 0; begin < size; begin += kFoldBlock) {
        const size_t end = std::min(size, begin + kFoldBlock);
        Running running;
        for (size_t at = begin; at < end; ++at) {
          running.add(values_[at]);
          head_[at] = Kind::part(running);
        }
        running = {};
        for (size_t at = end; at-- > begin;) {
          running.add(values_[at]);
          tail_[at] = Kind::part(running);
        }
      }
    }
    if (blocks == 0) return;
    const size_t rows = std::max<size_t>(std::bit_width(blocks - 1), 1);
    table_ = Array<Part>(rows * blocks);
    for (size_t block = 0; block < blocks; ++block) {
      Running running;
      for (size_t at = block * kFoldBlock; at < (block + 1) * kFoldBlock; ++at) running.add(values_[at]);
      table_[block] = Kind::part(running);
    }
    for (size_t row = 1; row < rows; ++row) {
      for (size_t middle = size_t{1} << row; middle < blocks; middle += size_t{2} << row) {
        Running running;
        for (size_t block = middle; block-- > middle - (size_t{1} << row);) {
          running.add(table_[block]);
          table_[row * blocks + block] = Kind::part(running);
        }
        running = {};
        for (size_t block = middle; block < std::min(blocks, middle + (size_t{1} << row)); ++block) {
          running.add(table_[block]);
          table_[row * blocks + block] = Kind::part(running);
        }
      }
    }
  }

  void add(size_t from, size_t to, Running& running) const {
    if (from >= to) return;
    const size_t first = from / kFoldBlock + 1, last = (to - 1) / kFoldBlock;  // whole blocks between
    if (first > last) {
      for (size_t at = from; at < to; ++at) running.add(values_[at]);
      return;
    }
    if constexpr (kEnds) {
      running.add(tail_[from]);
    } else {
      for (size_t at = from; at < first * kFoldBlock; ++at) running.add(values_[at]);
    }
    if (first + 1 == last) {
      running.add(table_[first]);
    } else if (first < last) {
      const Part* row = table_.data() + (std::bit_width(first ^ (last - 1)) - 1) * (values_.size() / kFoldBlock);
      running.add(row[first]);
      running.add(row[last - 1]);
    }
    if constexpr (kEnds) {
      running.add(head_[to - 1]);
    } else {
      for (size_t at = last * kFoldBlock; at < to; ++at) running.add(values_[at]);
    }
  }
  const Array<Value>& values() const { return values_; }
  size_t bytes() const {
    return values_.bytes() + head_.bytes() + tail_.bytes() + table_.bytes();
  }

 private:
  Array<Value> values_;
  Array<Part> head_, tail_;  // of the values of a block up to each, and from each on, itself included
  Array<Part> table_;
};

template <class Kind>
class FoldedTrack final : public Track {
 public:
  using Value = typename Kind::Value;
  explicit FoldedTrack(Array<Value>&& values) : folded_(std::move(values)) {}

  std::unique_ptr<Track> gather(const Track* other, const uint32_t* from, size_t count) const override {
    Array<Value> values(count);
    const size_t own = folded_.values().size();
    const Value* mine = folded_.values().data();
    const Value* more = other ? static_cast<const FoldedTrack*>(other)->folded_.values().data() : nullptr;
    for (size_t at = 0; at < count; ++at) values[at] = from[at] < own ? mine[from[at]] : more[from[at] - own];
    return std::make_unique<FoldedTrack>(std::move(values));
  }

  using Track::fold;
  void fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
            Accumulator& into) const override {
    for (size_t at = 0; at < count; ++at) {
      typename Kind::Running running = Kind::get(into, places[at]);
      folded_.add(start[at], end[at], running);
      Kind::put(running, into, places[at]);
    }
  }
  size_t bytes() const override { return folded_.bytes(); }

 private:
  Folded<Kind> folded_;
};

// The least of ranked rows: rows by their places in the order of all, which are short, and that order.
class RankedTrack final : public Track {
 public:
  explicit RankedTrack(const Array<Ranked>& rows);

  std::unique_ptr<Track> gather(const Track* other, const uint32_t* from, size_t count) const override;
  using Track::fold;
  void fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
            Accumulator& into) const override;
  size_t bytes() const override { return folded_.bytes() + order_->bytes(); }

 private:
  using Order = std::shared_ptr<const Array<Ranked>>;
  RankedTrack(Order order, Array<uint32_t>&& places) : order_(std::move(order)), folded_(std::move(places)) {}
  static Array<uint32_t> places_of(const Array<Ranked>& rows, Order& order);

  Order order_;  // of more rows, where some have gone: a run and its tree share it
  Folded<LeastFold<uint32_t>> folded_;
};

// Rows that are wanted one by one.
class EachTrack final : public Track {
 public:
  explicit EachTrack(Array<Ranked>&& rows) : rows_(std::move(rows)) {}

  std::unique_ptr<Track> gather(const Track* other, const uint32_t* from, size_t count) const override {
    Array<Ranked> rows(count);
    const size_t own = rows_.size();
    const Ranked* more = other ? static_cast<const EachTrack*>(other)->rows_.data() : nullptr;
    for (size_t at = 0; at < count; ++at) rows[at] = from[at] < own ? rows_[from[at]] : more[from[at] - own];
    return std::make_unique<EachTrack>(std::move(rows));
  }

  using Track::fold;
  void fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
            Accumulator& into) const override {
    size_t checked = 0;
    for (size_t at = 0; at < count; ++at) {
      for (size_t i = start[at]; i < end[at]; ++i) {
        if (rows_[i].row != kNothing<int64_t>) into.found.emplace_back(places[at], rows_[i]);
      }
      if ((checked += end[at] - start[at]) >= kCheckpoint) {
        checkpoint();
        checked = 0;
      }
    }
  }
  size_t bytes() const override { return rows_.bytes(); }

 private:
  Array<Ranked> rows_;
};

using Tracks = std::vector<std::unique_ptr<Track>>;

// The values of a run by the order of arrival or time, and within a part of that by key.
class WaveletTree {
 public:
  // `limited`: arrival numbers or times, in the order of keys, as `tracks` have their values.
  WaveletTree(const Array<int64_t>& limited, const Tracks& tracks);

  // The ranks of limited values in [first, last], the end excluded.
  std::pair<size_t, size_t> ranks(int64_t first, int64_t last) const;
  // Adds what rows in [start, end) of the order of keys hold whose limited values have these ranks, of tracks `which`.
  // Returns how many there are.
  size_t fold(size_t start, size_t end, std::pair<size_t, size_t> ranks, uint32_t place, const Tracks& tracks,
              const std::vector<uint32_t>& which, std::vector<Accumulator>& into) const;
  size_t bytes() const;

 private:
  static constexpr size_t kLeafRows = 32;

  struct Level {
    CallVector<uint64_t> bits;    // which half of its node a row goes to on the next level
    CallVector<uint32_t> before;  // set bits before each word
    Tracks tracks;                 // of the root: none, they are the run's
    size_t ones(size_t at) const {
      const uint64_t below = (uint64_t{1} << (at % 64)) - 1;
      return before[at / 64] + std::popcount(bits[at / 64] & below);
    }
  };
  struct Visit {
    size_t first, last;  // ranks
    uint32_t place;
    const Tracks& tracks;
    const std::vector<uint32_t>& which;
    std::vector<Accumulator>& into;
    size_t found = 0;
  };
  void visit(size_t level, size_t low, size_t start, size_t end, Visit& visit) const;

  size_t node_;  // ranks of the root, a power of two
  CallVector<int64_t> sorted_;
  CallVector<uint32_t> ranks_;  // on the last level
  std::vector<Level> levels_;
};

// Probes in the order of their keys, for one interval of the condition.
template <class Key>
struct AggregateProbes {
  const uint32_t* places;
  const Key *lower, *upper;  // bounds on keys, both included
  size_t count;
};

// What a batch of probes may see, by place.
struct AggregateScope {
  const int64_t *first, *last;  // arrival numbers, or times, both included
  const int64_t* end;           // of rows of the staged batch in time windows: arrival numbers below; null: all
  bool staged;                  // of the staged batch anything
  bool prevailing;              // and of earlier rows the newest
  bool own;                     // those within the limits at all
  size_t count;
};

// Keys of 64 bits, or of 128.
template <class Key>
class AggregateWindow {
 public:
  // `window`: rows of a count window, 0 for a time window; `width` of a time window. `several`: probes of one call have
  // limits of their own, some of which cut a run that others do not. `prevailing`: of the rows of a key that have expired
  // the newest by time, then by arrival, is held; probes have one key each, and rows of a key come in the order of time.
  AggregateWindow(std::vector<Fold> folds, int64_t window, int64_t width, bool several, bool prevailing)
      : folds_(std::move(folds)), window_(window), width_(width), several_(several), prevailing_(prevailing) {}

  // The next rows, in order of arrival, with the order of their keys; `values` by fold. They are met by probes, and
  // belong to the window from `store` on.
  void stage(const Key* keys, const int64_t* rows, const int64_t* times, const std::vector<const void*>& values,
             const uint32_t* order, size_t count);
  void store();
  // Adds to the counts and to an accumulator for each of the folds `which`.
  void probe(const std::vector<AggregateProbes<Key>>& intervals, const AggregateScope& scope,
             const std::vector<uint32_t>& which, int threads, Poll poll, CallVector<int64_t>& counts,
             std::vector<Accumulator>& into);
  // No probe will see arrival numbers, or times, below this.
  void expire(int64_t before);
  void purge(int64_t before);  // and every such row leaves now

  const std::vector<Fold>& folds() const { return folds_; }
  size_t rows() const { return rows_; }
  size_t held() const { return held_ ? held_->length() : 0; }
  // The arrival numbers of the rows that are held, in any order.
  const int64_t* held_rows() const { return held_ ? held_->rows.data() : nullptr; }
  size_t runs() const { return runs_.size(); }
  size_t bytes() const;
  int64_t oldest(int64_t none) const;

 private:
  struct SortedRun {
    Array<Key> keys;
    Array<int64_t> limited;        // arrival numbers, or times
    Array<int64_t> rows;           // arrival numbers, in a time window: what is kept beside begins with the oldest
    Tracks tracks;
    int64_t first = 0, last = 0;   // of limited
    int64_t first_row = 0;
    int64_t checked = std::numeric_limits<int64_t>::min() / 2;
    std::unique_ptr<WaveletTree> tree;
    size_t length() const { return keys.size(); }
  };
  static constexpr size_t kChunk = 2048;
  static constexpr size_t kFewRows = 64;  // of a run that a limit cuts, looked at one by one
  static constexpr size_t kFewProbes = 8;  // for each of them so many rows of a run may be gathered rather than get a tree
  static constexpr size_t kMinRows = 1024;
  static constexpr size_t kGrowth = 4;
  static constexpr size_t kTopRuns = 4;  // runs of the greatest size in a window

  SortedRun gathered(const SortedRun& a, const SortedRun* b, const Array<uint32_t>& from) const;
  bool due() const;
  void merge();
  void keep_from(SortedRun& run, int64_t before);
  void hold(const SortedRun& run, int64_t before);
  // Adds the newest row before the limits of each of these probes.
  void fold_prevailing(const AggregateProbes<Key>& probes, const AggregateScope& scope,
                       const std::vector<uint32_t>& which, CallVector<int64_t>& counts,
                       std::vector<Accumulator>& into) const;
  // `scope`, `counts` and `into` are of these probes alone.
  void fold_chunk(const SortedRun& run, bool staged, const AggregateProbes<Key>& probes, const AggregateScope& scope,
                  const std::vector<uint32_t>& which, CallVector<int64_t>& counts,
                  std::vector<Accumulator>& into) const;

  const std::vector<Fold> folds_;
  const int64_t window_, width_;
  const bool several_, prevailing_;
  std::vector<std::unique_ptr<SortedRun>> runs_;  // oldest first
  std::unique_ptr<SortedRun> staged_;
  std::unique_ptr<SortedRun> held_;  // a row a key
  size_t rows_ = 0;
};

}  // namespace muntin
