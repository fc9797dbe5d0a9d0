// What a step asks of the index over one side's window, and the sorted runs that it hands over.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/kernels.hpp"
#include "core/memory.hpp"
#include "core/threads.hpp"

namespace muntin {

// Least and greatest arrival number and event time of some rows, all included; times are 0 for count windows.
struct Extent {
  int64_t first_row, last_row, first_time, last_time;

  void join(const Extent& other) {
    first_row = std::min(first_row, other.first_row);
    last_row = std::max(last_row, other.last_row);
    first_time = std::min(first_time, other.first_time);
    last_time = std::max(last_time, other.last_time);
  }
};

// A sorted run with its index, in one block of memory. An empty one has no block.
template <class Key>
class Run {
 public:
  using Word = WordOf<Key>;
  static constexpr bool kRows = sizeof(Key) >= 8;  // narrow keys lie in one word with their rows

  Run() = default;
  Run(size_t length, const Extent& extent) : extent(extent), length_(length) {
    const size_t leaf_count = (length + kLeaf - 1) / kLeaf;
    const size_t line_count = (leaf_count + kFan<Key> - 1) / kFan<Key>;
    const size_t word_bytes = (leaf_count + 1) * kLeaf * sizeof(Word);
    const size_t row_bytes = kRows ? leaf_count * kLeaf * sizeof(Row) / 64 * 64 + 64 : 0;
    constexpr size_t fan_bytes = kFan<Key> * sizeof(Key);
    const size_t leaf_bytes = (line_count + 2) * fan_bytes;
    const size_t line_bytes = ((line_count + kFan<Key> - 1) / kFan<Key> + 2) * fan_bytes;
    block_ = Block(word_bytes + row_bytes + leaf_bytes + line_bytes);
    char* at = static_cast<char*>(block_.data());
    words_ = reinterpret_cast<Word*>(at);
    rows_ = kRows ? reinterpret_cast<Row*>(at + word_bytes) : nullptr;
    leaves_ = reinterpret_cast<Key*>(at + word_bytes + row_bytes);
    lines_ = reinterpret_cast<Key*>(at + word_bytes + row_bytes + leaf_bytes);
    leaf_count_ = leaf_count;
    line_count_ = line_count;
  }

  size_t length() const { return length_; }
  size_t bytes() const { return block_.bytes(); }
  Word* words() const { return words_; }
  Row* rows() const { return rows_; }
  Row row(size_t at) const { return kRows ? rows_[at] : static_cast<Row>(words_[at]); }
  RunView<Key> view() const { return {words_, rows_, leaves_, lines_, length_, leaf_count_, line_count_}; }

  static Key key(Word word) {
    if constexpr (kRows) {
      return word;
    } else {
      return static_cast<Key>(word >> 32);
    }
  }

  // Makes the index of leaves whose first word lies at `from` or later and before `to`.
  void index(size_t from, size_t to) {
    for (size_t leaf = (from + kLeaf - 1) / kLeaf; leaf * kLeaf < to; ++leaf) {
      leaves_[leaf] = key(words_[leaf * kLeaf]);
      if (leaf % kFan<Key> == 0) lines_[leaf / kFan<Key>] = leaves_[leaf];
    }
  }

  // Pads words and index once all words are there.
  void seal() {
    constexpr Key top = kGreatest<Key>;
    std::fill(words_ + length_, words_ + (leaf_count_ + 1) * kLeaf, kGreatest<Word>);
    std::fill(leaves_ + leaf_count_, leaves_ + (line_count_ + 2) * kFan<Key>, top);
    std::fill(lines_ + line_count_, lines_ + ((line_count_ + kFan<Key> - 1) / kFan<Key> + 2) * kFan<Key>, top);
  }

  // Keeps the first `length` words.
  void cut(size_t length) {
    length_ = length;
    leaf_count_ = (length + kLeaf - 1) / kLeaf;
    line_count_ = (leaf_count_ + kFan<Key> - 1) / kFan<Key>;
  }

  Extent extent{};

 private:
  Block block_;
  Word* words_ = nullptr;
  Row* rows_ = nullptr;
  Key* leaves_ = nullptr;
  Key* lines_ = nullptr;
  size_t length_ = 0, leaf_count_ = 0, line_count_ = 0;
};

// Event times of stored rows by arrival number.
class Times {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();

  // Adds times of rows in ascending order, past all before; the numbers between them have none.
  void put(const int64_t* rows, int64_t first, const int64_t* times, size_t count) {
    if (count == 0) return;
    const int64_t start = rows ? rows[0] : first, end = (rows ? rows[count - 1] : first + int64_t(count) - 1) + 1;
    if (begin_ == end_) begin_ = end_ = start;
    if (static_cast<uint64_t>(end - begin_) > size_) grow(end - begin_);
    for (int64_t row = end_; row < start; ++row) ring_[row & mask()] = kNone;
    if (rows == nullptr) {
      for (size_t i = 0; i < count; ++i) ring_[(first + i) & mask()] = times[i];
    } else {
      for (int64_t row = start; row < end; ++row) ring_[row & mask()] = kNone;
      for (size_t i = 0; i < count; ++i) ring_[rows[i] & mask()] = times[i];
    }
    end_ = end;
  }

  // What rows there are, to go back to: those put since are forgotten.
  struct Mark {
    int64_t begin, end;
  };
  Mark mark() const { return {begin_, end_}; }
  void take_back(const Mark& mark) {
    begin_ = mark.begin;
    end_ = mark.end;
  }

  // Forgets rows before `oldest`.
  void trim(int64_t oldest) { begin_ = std::clamp(oldest, begin_, end_); }

  const int64_t& of(int64_t row) const { return ring_[row & mask()]; }
  size_t bytes() const { return block_.bytes(); }

  // Rows of [first, last] whose time is past a limit.
  size_t past(int64_t first, int64_t last, int64_t limit) const {
    size_t count = 0;
    for (int64_t row = first; row <= last; ++row) count += of(row) > limit;
    return count;
  }

 private:
  uint64_t mask() const { return size_ - 1; }
  void grow(uint64_t rows) {
    uint64_t size = 1024;
    while (size < rows + rows / 4) size *= 2;
    Block block(size * sizeof(int64_t));
    auto* ring = static_cast<int64_t*>(block.data());
    for (int64_t row = begin_; row < end_; ++row) ring[row & (size - 1)] = of(row);
    block_ = std::move(block);
    ring_ = ring;
    size_ = size;
  }

  Block block_;
  int64_t* ring_ = nullptr;
  uint64_t size_ = 0;
  int64_t begin_ = 0, end_ = 0;
};

// An array that grows without initialising what is new. It begins as large as it was before.
template <class T>
class Buffer {
 public:
  T* data() const { return static_cast<T*>(block_.data()); }
  T& operator[](size_t at) const { return data()[at]; }
  size_t size() const { return size_; }
  void resize(size_t size) {
    if (size > capacity_) {
      capacity_ = std::max({size, capacity_ + capacity_ / 2, expected_, kLeast});
      Block grown(capacity_ * sizeof(T), Use::kResult);
      if (size_ > 0) std::memcpy(grown.data(), data(), size_ * sizeof(T));
      block_ = std::move(grown);
    }
    size_ = size;
  }
  // Forgets what lies in it; the memory goes back to the pool, where it is more than `most` values.
  void clear(size_t most = std::numeric_limits<size_t>::max()) {
    expected_ = size_ < capacity_ / 4 ? capacity_ / 2 : capacity_;
    size_ = 0;
    if (capacity_ <= most) return;
    block_ = Block();
    capacity_ = 0;
  }

 private:
  static constexpr size_t kLeast = 4096 / sizeof(T);

  Block block_;
  size_t size_ = 0, capacity_ = 0, expected_ = 0;
};

// Thrown where a step finds more pairs than it may.
struct TooManyPairs : std::exception {
  const char* what() const noexcept override { return "a step finds more pairs than it may"; }
};

// How many pairs the tasks of a step may find together.
class Budget {
 public:
  explicit Budget(uint64_t most) : most_(most) {}
  void take(uint64_t pairs) {
    if (found_.fetch_add(pairs, std::memory_order_relaxed) + pairs > most_) throw TooManyPairs();
  }

 private:
  const uint64_t most_;
  std::atomic<uint64_t> found_{0};
};

// What a chunk of sorted probes has found: ranges of runs, and ranges of rows that were copied as they passed a check.
struct Matches {
  struct Part {
    const Word* words;  // one of the two; both null: rows are those of `kept`
    const Row* rows;
    size_t first, last;  // of `found`
    int64_t run = 0;     // number of the run, where ranges are wanted and not rows
  };
  Buffer<Found> found;
  std::vector<Part> parts;
  Buffer<Row> kept;
  uint64_t pairs = 0;
  Budget* budget = nullptr;  // that they are taken from
  uint64_t taken = 0;

  // For a long probe, every few milliseconds: throws where its step is to end, or has found more than it may.
  void checkpoint() {
    muntin::checkpoint();
    settle();
  }
  void settle() {
    if (budget != nullptr) budget->take(pairs - std::exchange(taken, pairs));
  }

  void clear() {
    constexpr size_t most = size_t{1} << 16;
    found.clear(most);
    kept.clear(most);
    parts.clear();
    pairs = taken = 0;
    budget = nullptr;
  }
};

// Which stored rows probes may meet, beside the condition on keys.
struct Scope {
  // Arrival: `other_position[place] - span <= row < other_position[place]`; for all rows alike where `other_position` is null.
  const int64_t* other_position;
  int64_t same_other_position;
  int64_t min_other_position, max_other_position;
  int64_t span;
  // Event time of the stored row less that of the probing row, `low <= ... <= high`; not checked without `times`.
  const int64_t* times = nullptr;  // of probing rows, by place
  const Times* stored_times = nullptr;
  int64_t first_time = 0, last_time = 0;  // of the probing rows
  Wide low = 0, high = 0;
  bool counting = false;  // lengths are wanted, not rows: by place
  int64_t* counts = nullptr;
};

// Rows that are checked or pairs that are copied between two checkpoints.
constexpr size_t kCheckpoint = size_t{1} << 20;

// A chunk of probes with ascending bounds on words, both included.
template <class W>
struct ProbesOf {
  const W *lower, *upper;
  const uint32_t* places;
  size_t count;
};
using Probes = ProbesOf<Word>;

// How many rows at places from `from` on and before `to` have numbers in [first, first + span) modulo 2**32. Rows of
// equal keys lie in the order of their arrival, so that of many such rows two searches tell.
template <class Key>
size_t count_rows(const KernelTable& kernels, const Run<Key>& run, size_t from, size_t to, Row first, Row span) {
  constexpr size_t kMany = 512;
  const auto low = static_cast<Row>(run.extent.first_row);
  const bool in_order = Run<Key>::kRows || low <= static_cast<Row>(run.extent.last_row);  // words begin again at 0
  if (to - from < kMany || !in_order) {
    if constexpr (Run<Key>::kRows) {
      return kernels.count_between(run.rows() + from, to - from, first, span);
    } else {
      return kernels.count_words(run.words() + from, to - from, first, span);
    }
  }
  if (Run<Key>::key(run.words()[from]) != Run<Key>::key(run.words()[to - 1])) {
    const size_t middle = from + (to - from) / 2;
    return count_rows(kernels, run, from, middle, first, span) + count_rows(kernels, run, middle, to, first, span);
  }
  const auto place = [&](uint64_t number) {  // of the first row with this number behind `low`, or a later one
    size_t begin = from, end = to;
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      if (static_cast<Row>(run.row(middle) - low) < number) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  };
  const uint64_t start = static_cast<Row>(first - low);
  return place(start + span) - place(start);
}

// Finds a chunk's partners in one run: all that a check of extents leaves open is checked row by row.
template <class Key>
void probe_run(const KernelTable& kernels, const Run<Key>& run, const ProbesOf<WordOf<Key>>& probes, const Scope& scope,
               Matches& matches) {
  const Extent& extent = run.extent;
  const int64_t least = scope.min_other_position - scope.span, most = scope.max_other_position - scope.span;
  if (run.length() == 0 || extent.last_row < least || extent.first_row >= scope.max_other_position) return;
  const bool by_row = extent.first_row < most || extent.last_row >= scope.min_other_position;
  bool by_time = false;
  if (scope.times != nullptr) {
    const Wide from = scope.low + scope.first_time, to = scope.high + scope.last_time;
    if (extent.last_time < from || extent.first_time > to) return;
    by_time = extent.first_time < scope.low + scope.last_time || extent.last_time > scope.high + scope.first_time;
  }
  const size_t before = matches.found.size();
  matches.found.resize(before + probes.count);
  uint64_t candidates = 0;
  const size_t some = kernels.of<Key>().search(run.view(), probes.lower, probes.upper, probes.places, probes.count,
                                               matches.found.data() + before, &candidates);
  matches.found.resize(before + some);
  if (some == 0) return;
  if (!by_row && !by_time) {
    matches.pairs += candidates;
    if (scope.counting) {
      for (size_t i = before; i < before + some; ++i) scope.counts[matches.found[i].probe] += matches.found[i].length;
      matches.found.resize(before);
    } else {
      if constexpr (Run<Key>::kRows) {
        matches.parts.push_back({nullptr, run.rows(), before, before + some});
      } else {
        matches.parts.push_back({run.words(), nullptr, before, before + some});
      }
    }
    return;
  }
  const int64_t base = extent.first_row;
  const auto low = static_cast<Row>(base);
  const auto number = [base, low](Row row) { return base + static_cast<Row>(row - low); };
  // The rows of this run that a probe may see: the first of them, and how many numbers there are from it on.
  const auto visible = [&](uint32_t place) -> std::pair<Row, Row> {
    const int64_t other_position = scope.other_position ? scope.other_position[place] : scope.same_other_position;
    const int64_t first = std::max(other_position - scope.span, base), end = std::min(other_position, extent.last_row + 1);
    return {static_cast<Row>(first), static_cast<Row>(std::max<int64_t>(end - first, 0))};
  };
  // Differences of times fit 64 bits where these do.
  constexpr Wide far = Wide{1} << 61;
  const auto near = [](Wide x) { return -far < x && x < far; };
  const bool small = by_time && near(extent.first_time) && near(extent.last_time) && near(scope.first_time) &&
                     near(scope.last_time);
  const int64_t small_low = static_cast<int64_t>(std::max(scope.low, -2 * far));
  const int64_t small_high = static_cast<int64_t>(std::min(scope.high, 2 * far));
  const auto within = [&](uint32_t place, int64_t row) {
    if (small) {
      const int64_t apart = scope.stored_times->of(row) - scope.times[place];
      return (apart >= small_low) & (apart <= small_high);
    }
    const Wide apart = static_cast<Wide>(scope.stored_times->of(row)) - scope.times[place];
    return (apart >= scope.low) & (apart <= scope.high);
  };
  constexpr size_t ahead = 8;
  size_t write = before, end = matches.kept.size(), checked = 0;
  for (size_t i = before; i < before + some; ++i) {
    if (i + ahead < before + some) {
      if constexpr (Run<Key>::kRows) __builtin_prefetch(run.rows() + matches.found[i + ahead].start);
      if (by_time) {
        __builtin_prefetch(&scope.stored_times->of(number(run.row(matches.found[i + ahead / 2].start))));
      }
    }
    const Found range = matches.found[i];
    if ((checked += range.length) >= kCheckpoint) {
      matches.checkpoint();
      checked = 0;
    }
    const size_t start = end;
    uint64_t count = 0;
    if (!scope.counting) matches.kept.resize(end + range.length + kLeaf * 2);
    const auto [first, span] = by_row ? visible(range.probe) : std::pair<Row, Row>(low, 0xFFFFFFFF);
    if (!by_time && scope.counting && range.length > 4) {
      count = count_rows(kernels, run, range.start, size_t{range.start} + range.length, first, span);
    } else if (!by_time && !scope.counting && range.length > 4) {
      Row* out = matches.kept.data() + end;
      if constexpr (Run<Key>::kRows) {
        count = kernels.keep_rows(run.rows() + range.start, range.length, first, span, out);
      } else {
        count = kernels.keep_words(run.words() + range.start, range.length, first, span, out);
      }
      end += count;
    } else {
      for (size_t j = range.start; j < size_t{range.start} + range.length; ++j) {
        const Row stored = run.row(j);
        const bool met = static_cast<Row>(stored - first) < span && (!by_time || within(range.probe, number(stored)));
        if (!scope.counting) {
          matches.kept[end] = stored;
          end += met;
        }
        count += met;
      }
    }
    matches.pairs += count;
    if (scope.counting) {
      scope.counts[range.probe] += count;
      continue;
    }
    matches.found[write] = {range.probe, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
    write += count > 0;
  }
  if (!scope.counting) matches.kept.resize(end);
  matches.found.resize(write);
  if (scope.counting || write == before) return;
  matches.parts.push_back({nullptr, nullptr, before, write});
}

// What an index tells of its inside, by name; for users, in `Stats.index`.
using Figures = std::map<std::string, std::variant<int64_t, double, std::vector<int64_t>, std::vector<std::string>>>;

inline constexpr size_t kPieceRows = 1 << 14;  // of a piece of the work that an index puts off, at most

// What has made a run, or ended one: enough to follow all runs from the rows that came.
struct RunEvent {
  enum Kind : int64_t {
    kRows,   // of the rows with numbers from `first` to `second`
    kMerge,  // of the runs `first`, the elder, and `second`, which end
    kPast,   // of the rows of the run `first`, which ends, with times past `second`
    kDrop,   // none: this run ends
  };
  int64_t kind, run, first, second;
};

// Sorted runs that a probe's result can name.
template <class Key>
class NumberedRuns {
 public:
  // Calls `take(number, run)` for each run. Numbers are never given twice.
  virtual void each_run(const std::function<void(int64_t, const Run<Key>&)>& take) const = 0;
  virtual int64_t next_run() const = 0;
  virtual std::vector<RunEvent> take_events() = 0;

 protected:
  ~NumberedRuns() = default;
};

template <class Key>
class RangeSearch;  // index/range_search.hpp

// The index over one side's window. A call is for the rows of a step or for a chunk of its probes, never for one row, so
// that what a virtual call costs does not count.
template <class K>
class WindowIndex {
 public:
  using Key = K;
  using Probes = ProbesOf<WordOf<Key>>;

  virtual ~WindowIndex() = default;
  // The rows of a step, sorted; all later than those before. `times` are those of all rows stored, these included.
  virtual void insert(Run<Key>&& run, const Times& times) = 0;
  virtual void probe(const Probes& probes, const Scope& scope, Matches& matches) const = 0;  // by several threads at once
  virtual void observe(size_t /* probes */, size_t /* pairs */) {}  // a step of so many rows has found so many pairs
  virtual void expire_rows(int64_t before) = 0;                        // no probe will see rows before this number
  virtual void expire_times(int64_t limit, const Times& times) = 0;    // nor rows of this time or earlier
  virtual void purge(int64_t limit, const Times& times) = 0;           // the same, and every such row leaves now
  // Work that an index puts off: prepares what is worth so many rows, and gives the number of pieces; does one of them, by
  // several threads at once; after all of them. `behind`: more is due than the last plan held.
  virtual size_t plan(size_t /* budget */) { return 0; }
  virtual void work(size_t /* piece */) {}
  virtual void settle() {}
  virtual bool behind() const { return false; }
  virtual size_t rows() const = 0;
  virtual size_t bytes() const = 0;
  virtual size_t runs() const = 0;                     // that a probe may meet
  virtual int64_t oldest(int64_t none) const = 0;      // least arrival number stored, or `none`
  virtual Figures figures() const = 0;
  // Null where the index cannot do it.
  virtual NumberedRuns<Key>* numbered_runs() { return nullptr; }
  virtual RangeSearch<Key>* range_search() { return nullptr; }
};

}  // namespace muntin
