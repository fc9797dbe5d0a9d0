// PanJoin's window: a chain of subwindows, each with a structure of its own that divides its rows into partitions by key.
//
// Source: PanJoin, sections III-A, III-E (batch mode), III-F (which partitions a probe meets) and III-G. New rows go to
// the newest subwindow, and the oldest expires whole. What is ours: where the rows of a subwindow are not given, the
// first ones are small, so that what is learned from one for the next is learned soon.
#pragma once

#include <cmath>
#include <optional>

#include "index/llat.hpp"

namespace muntin {

// What a scope leaves to be checked of the rows of an extent, for the probes of a chunk.
class VisibleRange {
 public:
  VisibleRange(const KernelTable& kernels, const Extent& extent, const Scope& scope)
      : kernels_(kernels), scope_(scope), extent_(extent), base_(extent.first_row) {
    const int64_t least = scope.min_other_position - scope.span, most = scope.max_other_position - scope.span;
    none_ = extent.last_row < least || extent.first_row >= scope.max_other_position;
    by_row_ = extent.first_row < most || extent.last_row >= scope.min_other_position;
    if (scope.times != nullptr) {
      none_ |= extent.last_time < scope.low + scope.first_time || extent.first_time > scope.high + scope.last_time;
      by_time_ = extent.first_time < scope.low + scope.last_time || extent.last_time > scope.high + scope.first_time;
    }
  }

  bool none() const { return none_; }
  bool checks() const { return by_row_ || by_time_; }

  // Keeps the rows that a probe may see; returns how many. There is room for 16 rows more behind them.
  size_t keep(uint32_t place, Row* rows, size_t count) const {
    if (by_row_) {
      const int64_t other_position = scope_.other_position ? scope_.other_position[place] : scope_.same_other_position;
      const int64_t first = std::max(other_position - scope_.span, base_), end = std::min(other_position, extent_.last_row + 1);
      const auto span = static_cast<Row>(std::max<int64_t>(end - first, 0));
      count = kernels_.keep_rows(rows, count, static_cast<Row>(first), span, rows);
    }
    if (!by_time_) return count;
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      const int64_t row = base_ + static_cast<Row>(rows[i] - static_cast<Row>(base_));
      const Wide apart = static_cast<Wide>(scope_.stored_times->of(row)) - scope_.times[place];
      rows[kept] = rows[i];
      kept += (apart >= scope_.low) & (apart <= scope_.high);
    }
    return kept;
  }

 private:
  const KernelTable& kernels_;
  const Scope& scope_;
  const Extent extent_;
  const int64_t base_;
  bool none_ = false, by_row_ = false, by_time_ = false;
};

template <class Structure>
class SubwindowChain final : public WindowIndex<typename Structure::Key> {
 public:
  using Key = typename Structure::Key;
  using Learned = typename Structure::Learned;

  struct Options {
    typename Structure::Options structure;
    size_t subwindow_rows;  // 0: a quarter of the window
    size_t late_rows;       // of a subwindow, that lie in a buffer of their own
  };

  // `window`: rows of a count window, 0 for a time window.
  SubwindowChain(const KernelTable& kernels, const Options& options, size_t window, int64_t time_width)
      : kernels_(kernels), options_(options), window_(window), time_width_(time_width) {}

  void insert(Run<Key>&& run, const Times& times) override {
    const size_t length = run.length();
    if (length == 0) return;
    rows_ += length;
    const Extent extent = run.extent;
    if (open_ && extent.last_row < chain_.back()->end) {
      held_.push_back(std::move(run));
      put(*chain_.back(), {held_.back().words(), held_.back().rows(), length}, extent, times);
      return;
    }
    // Some rows are for subwindows to come: they are cut by arrival numbers, each part in the order of its keys.
    std::vector<int64_t> numbers(length);
    const auto number = [&](size_t at) {
      return extent.first_row + static_cast<Row>(run.row(at) - static_cast<Row>(extent.first_row));
    };
    for (size_t i = 0; i < length; ++i) numbers[i] = number(i);
    std::sort(numbers.begin(), numbers.end());
    for (size_t from = 0; from < length;) {
      if (!open_ || numbers[from] >= chain_.back()->end) open(numbers[from]);
      Subwindow& newest = *chain_.back();
      const size_t to = std::lower_bound(numbers.begin() + from, numbers.end(), newest.end) - numbers.begin();
      const int64_t first = numbers[from], last = numbers[to - 1];
      Run<Key> part(to - from, {first, last, extent.first_time, extent.last_time});
      size_t end = 0;
      for (size_t i = 0; i < length; ++i) {
        const int64_t row = number(i);
        if (row < first || row > last) continue;
        part.words()[end] = run.words()[i];
        if constexpr (Run<Key>::kRows) part.rows()[end] = run.rows()[i];
        ++end;
      }
      if (window_ == 0) part.extent = exact(part.words(), part.rows(), end, first, times);
      held_.push_back(std::move(part));
      put(newest, {held_.back().words(), held_.back().rows(), end}, held_.back().extent, times);
      from = to;
    }
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    for (const auto& subwindow : chain_) {
      if (subwindow->structure->rows() > 0) {
        const VisibleRange visible(kernels_, subwindow->extent, scope);
        if constexpr (kSorted) {
          if (!visible.none()) probe_sorted(*subwindow->structure, visible, probes, scope, matches);
        } else {
          if (!visible.none()) probe_structure(*subwindow->structure, visible, probes, scope, matches);
        }
      }
      if (!subwindow->late.words.empty()) {
        const VisibleRange visible(kernels_, subwindow->late.extent, scope);
        const Late& late = subwindow->late;
        if (!visible.none()) probe_few({late.words.data(), data(late.rows), late.words.size()}, visible, probes, scope, matches);
      }
    }
  }

  void expire_rows(int64_t before) override {
    drop_if([before](const Subwindow& subwindow) { return subwindow.extent.last_row < before; });
  }

  void expire_times(int64_t limit, const Times& times) override {
    for (const auto& subwindow : chain_) {
      if (subwindow->late.extent.first_time <= limit) keep_late(*subwindow, limit, times);
      const size_t rows = subwindow->structure->rows();
      if (rows == 0 || subwindow->extent.first_time > limit) continue;
      if (subwindow->extent.last_time <= limit) {
        rebuild(*subwindow, limit, times);
        continue;
      }
      // A few rows far ahead of their time would keep a subwindow that has expired but for them.
      if (static_cast<Wide>(limit) - subwindow->checked < time_width_ / 4) continue;
      subwindow->checked = limit;
      if (times.past(subwindow->extent.first_row, subwindow->extent.last_row, limit) < rows / 8) {
        rebuild(*subwindow, limit, times);
      }
    }
    drop_empty();
  }

  void purge(int64_t limit, const Times& times) override {
    for (const auto& subwindow : chain_) {
      keep_late(*subwindow, limit, times);
      if (subwindow->structure->rows() > 0 && subwindow->extent.first_time <= limit) rebuild(*subwindow, limit, times);
    }
    drop_empty();
  }

  // Rows of large batches are stored by several threads, each of which has partitions of its own.
  size_t plan(size_t) override {
    pieces_.clear();
    for (const auto& subwindow : chain_) {
      const size_t pieces = subwindow->structure->plan();
      for (size_t piece = 0; piece < pieces; ++piece) pieces_.push_back({subwindow->structure.get(), piece});
    }
    if (pieces_.empty()) held_.clear();
    return pieces_.size();
  }
  void work(size_t at) override { pieces_[at].first->work(pieces_[at].second); }
  void settle() override {
    for (const auto& subwindow : chain_) subwindow->structure->stored();
    held_.clear();
  }

  size_t rows() const override { return rows_; }
  size_t bytes() const override {
    size_t bytes = 0;
    for (const auto& subwindow : chain_) bytes += subwindow->structure->bytes();
    return bytes;
  }
  size_t runs() const override { return chain_.size(); }
  int64_t oldest(int64_t none) const override {
    int64_t oldest = none;
    for (const auto& subwindow : chain_) {
      oldest = subwindow == chain_.front() ? subwindow->extent.first_row : std::min(oldest, subwindow->extent.first_row);
    }
    return oldest;
  }

  Figures figures() const override {
    Figures figures{{"subwindows", static_cast<int64_t>(chain_.size())}, {"late_rows", late_rows_}};
    std::vector<int64_t> rows, late;
    std::vector<int64_t> errors;  // in thousandths
    for (const auto& subwindow : chain_) {
      rows.push_back(static_cast<int64_t>(subwindow->structure->rows()));
      late.push_back(static_cast<int64_t>(subwindow->late.words.size()));
      errors.push_back(std::llround(1000 * subwindow->structure->error()));
    }
    figures["rows"] = rows;
    figures["late"] = late;
    figures["errors_per_mille"] = errors;
    if (chain_.empty()) return figures;
    chain_.back()->structure->tell(figures);  // of the newest subwindow
    return figures;
  }

 private:
  static constexpr bool kSorted = requires(const Structure& structure) { structure.buffer(); };
  static constexpr size_t kMinRows = 1024;  // of a subwindow
  static constexpr size_t kMaxRows = size_t{1} << 30;

  static constexpr size_t kAhead = 16;
  static constexpr size_t kFewShared = 256;  // rows of a partition, below which to move what is found costs what it gains
  static constexpr size_t kManyShared = size_t{1} << 16;

  // Rows that came late for their subwindow: in order of arrival, looked at by every probe that their times concern.
  struct Late {
    std::vector<Word> words;
    std::vector<Row> rows;  // wide keys only
    Extent extent{};
  };

  struct Subwindow {
    Subwindow(const Options& options, int64_t first, size_t capacity, const Learned* before)
        : end(first + static_cast<int64_t>(capacity)),
          capacity(capacity),
          structure(std::make_unique<Structure>(options.structure, capacity, before)) {}

    int64_t end;  // takes rows before this number
    size_t capacity;
    std::unique_ptr<Structure> structure;
    Extent extent{};  // of rows and times of the structure; `first_row` and `last_row` of late rows too
    int64_t border = std::numeric_limits<int64_t>::min();  // rows before this time are late
    Late late;
    Wide checked = std::numeric_limits<int64_t>::min();
  };

  // Rows of the next subwindow.
  size_t capacity() const {
    if (options_.subwindow_rows > 0) return std::min(options_.subwindow_rows, kMaxRows);
    const size_t even = std::clamp((window_ == 0 ? rows_ : window_) / 4 + 1, kMinRows, kMaxRows);
    return opened_ < 10 ? std::min(even, kMinRows << 2 * opened_) : even;
  }

  void open(int64_t first) {
    learn();
    if constexpr (kSorted) {
      if (open_) chain_.back()->structure->close();
    }
    chain_.push_back(std::make_unique<Subwindow>(options_, first, capacity(), learned_ ? &*learned_ : nullptr));
    open_ = true;
    ++opened_;
  }

  // Keeps what the newest subwindow tells of the rows to come.
  void learn() {
    if (open_ && chain_.back()->structure->rows() > 0) learned_ = chain_.back()->structure->learned();
  }

  static Extent exact(const Word* words, const Row* rows, size_t count, int64_t base, const Times& times) {
    Extent extent{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (size_t i = 0; i < count; ++i) {
      const Row low = rows ? rows[i] : static_cast<Row>(words[i]);
      const int64_t row = base + static_cast<Row>(low - static_cast<Row>(base));
      const int64_t time = times.of(row);
      extent.join({row, row, time, time});
    }
    return extent;
  }

  // Puts rows into the newest subwindow.
  void put(Subwindow& to, const RowSpan<Key>& rows, const Extent& extent, const Times& times) {
    if (to.structure->rows() == 0) {
      to.extent = extent;
      to.border = extent.first_time;
    } else if (window_ == 0 && extent.first_time < to.border) {
      put_late(to, rows, extent, times);
      return;
    } else {
      to.extent.join(extent);
    }
    to.structure->insert(rows);
  }

  // Puts rows, some of which are late, into the newest subwindow.
  void put_late(Subwindow& to, const RowSpan<Key>& rows, const Extent& extent, const Times& times) {
    std::vector<size_t> late;
    for (size_t i = 0; i < rows.count; ++i) {
      if (times.of(number(rows, i, extent.first_row)) < to.border) late.push_back(i);
    }
    if (to.late.words.size() + late.size() > options_.late_rows) {
      // More than a few: they were not late, the subwindow began with rows ahead of theirs.
      to.border = extent.first_time;
      if (!to.late.words.empty()) {
        to.border = std::min(to.border, to.late.extent.first_time);
        Late few;
        std::swap(few, to.late);
        late_rows_ -= static_cast<int64_t>(few.words.size());
        held_.push_back(sorted(few.words, few.rows, few.extent));
        to.extent.join(few.extent);
        to.structure->insert({held_.back().words(), held_.back().rows(), held_.back().length()});
      }
      put(to, rows, extent, times);
      return;
    }
    Run<Key> timely(rows.count - late.size(), extent);
    size_t end = 0, next = 0;
    for (size_t i = 0; i < rows.count; ++i) {
      if (next < late.size() && late[next] == i) {
        to.late.words.push_back(rows.words[i]);
        if constexpr (Run<Key>::kRows) to.late.rows.push_back(rows.rows[i]);
        ++next;
        continue;
      }
      timely.words()[end] = rows.words[i];
      if constexpr (Run<Key>::kRows) timely.rows()[end] = rows.rows[i];
      ++end;
    }
    late_rows_ += static_cast<int64_t>(late.size());
    const int64_t base = std::min(to.extent.first_row, extent.first_row);
    to.late.extent = exact(to.late.words.data(), data(to.late.rows), to.late.words.size(), base, times);
    to.extent.last_row = std::max(to.extent.last_row, to.late.extent.last_row);
    if (end == 0) return;
    const Extent rest = exact(timely.words(), timely.rows(), end, extent.first_row, times);
    held_.push_back(std::move(timely));
    put(to, {held_.back().words(), held_.back().rows(), end}, rest, times);
  }

  static const Row* data(const std::vector<Row>& rows) { return rows.empty() ? nullptr : rows.data(); }
  static int64_t number(const RowSpan<Key>& rows, size_t at, int64_t base) {
    const Row low = rows.rows ? rows.rows[at] : static_cast<Row>(rows.words[at]);
    return base + static_cast<Row>(low - static_cast<Row>(base));
  }

  static Run<Key> sorted(const std::vector<Word>& words, const std::vector<Row>& rows, const Extent& extent) {
    std::vector<std::pair<Word, Row>> both(words.size());
    for (size_t i = 0; i < words.size(); ++i) both[i] = {words[i], rows.empty() ? 0 : rows[i]};
    std::sort(both.begin(), both.end());
    Run<Key> run(words.size(), extent);
    for (size_t i = 0; i < words.size(); ++i) {
      run.words()[i] = both[i].first;
      if constexpr (Run<Key>::kRows) run.rows()[i] = both[i].second;
    }
    return run;
  }

  // Gives a subwindow's structure up for one with the rows past a limit. Where one of its rows goes, so have all late ones
  // gone: those are older.
  void rebuild(Subwindow& subwindow, int64_t limit, const Times& times) {
    std::vector<Word> words;
    std::vector<Row> rows;
    const int64_t base = subwindow.extent.first_row;
    subwindow.structure->each([&](const RowSpan<Key>& some) {
      for (size_t i = 0; i < some.count; ++i) {
        if (times.of(number(some, i, base)) <= limit) continue;
        words.push_back(some.words[i]);
        if constexpr (Run<Key>::kRows) rows.push_back(some.rows[i]);
      }
    });
    if (words.size() == subwindow.structure->rows()) return;
    rows_ -= subwindow.structure->rows() - words.size();
    const bool newest = open_ && &subwindow == chain_.back().get();
    const size_t capacity = newest ? subwindow.capacity : std::max<size_t>(words.size(), 1);
    const Learned before = subwindow.structure->learned();
    subwindow.structure.reset();  // its memory may do for the next one
    subwindow.structure = std::make_unique<Structure>(options_.structure, capacity, &before);
    subwindow.extent = exact(words.data(), data(rows), words.size(), base, times);
    if (words.empty()) return;
    const Run<Key> kept = sorted(words, rows, subwindow.extent);
    subwindow.structure->insert({kept.words(), kept.rows(), kept.length()});
    subwindow.structure->flush();
  }

  // Keeps the late rows past a limit.
  void keep_late(Subwindow& subwindow, int64_t limit, const Times& times) {
    Late& late = subwindow.late;
    if (late.words.empty() || late.extent.first_time > limit) return;
    const int64_t base = subwindow.extent.first_row;
    size_t end = 0;
    for (size_t i = 0; i < late.words.size(); ++i) {
      const RowSpan<Key> rows{late.words.data(), data(late.rows), late.words.size()};
      if (times.of(number(rows, i, base)) <= limit) continue;
      late.words[end] = late.words[i];
      if constexpr (Run<Key>::kRows) late.rows[end] = late.rows[i];
      ++end;
    }
    rows_ -= late.words.size() - end;
    late.words.resize(end);
    if constexpr (Run<Key>::kRows) late.rows.resize(end);
    if (end > 0) late.extent = exact(late.words.data(), data(late.rows), end, base, times);
  }

  template <class Test>
  void drop_if(const Test& test) {
    if (open_ && test(*chain_.back())) {
      learn();
      open_ = false;
    }
    std::erase_if(chain_, [&](const auto& subwindow) {
      if (!test(*subwindow)) return false;
      rows_ -= subwindow->structure->rows() + subwindow->late.words.size();
      return true;
    });
  }
  void drop_empty() {
    drop_if([](const Subwindow& s) { return s.structure->rows() == 0; });
  }

  // Probing. The keys of probes ascend, so each starts its search from the partition of the one before, and neighbours
  // meet the same rows while they lie in the nearest cache.

  void probe_structure(const Structure& structure, const VisibleRange& visible, const Probes& probes, const Scope& scope,
                       Matches& matches) const {
    typename Structure::Cursor cursor(structure);
    const size_t before = matches.found.size();
    size_t checked = 0;
    uint32_t ahead[kAhead];  // partitions of some probes, on their way from memory
    for (size_t i = 0; i < probes.count; ++i) {
      if (i % kAhead == 0) {
        for (size_t j = i; j < std::min(i + kAhead, probes.count); ++j) {
          ahead[j - i] = cursor.find(Run<Key>::key(probes.lower[j]));
          structure.prefetch(ahead[j - i]);
        }
      }
      if (checked >= kCheckpoint) {
        matches.checkpoint();
        checked = 0;
      }
      const uint32_t first = ahead[i % kAhead];
      if (share(structure, ahead, i, probes)) {
        if (const size_t rows = scan_shared(structure, first, i, visible, probes, scope, matches)) {
          checked += kScanned * rows;
          i += kScanned - 1;
          continue;
        }
      }
      const Key high = Run<Key>::key(probes.upper[i]);
      const size_t start = matches.kept.size();
      for (uint32_t at = first;; at = structure.next(at)) {
        const bool last = structure.ends(at, high);
        const bool whole = at != first && !last;  // every row of it lies between the bounds
        structure.each(at, [&](const RowSpan<Key>& rows) {
          checked += rows.count;
          scan(rows, whole ? std::numeric_limits<Word>::min() : probes.lower[i],
               whole ? std::numeric_limits<Word>::max() : probes.upper[i], matches);
        });
        if (last) break;
      }
      keep(probes.places[i], start, visible, scope, matches);
    }
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  // Whether all rows that probe i and those behind it, which are scanned together, may meet lie in one partition.
  static bool share(const Structure& structure, const uint32_t* ahead, size_t i, const Probes& probes) {
    const size_t last = i + kScanned - 1;
    return i % kAhead + kScanned <= kAhead && last < probes.count && ahead[last % kAhead] == ahead[i % kAhead] &&
           structure.ends(ahead[i % kAhead], Run<Key>::key(probes.upper[last]));
  }

  // Section III-E: the rows of a partition are gone through once for the probes that share it, each row beside all of
  // them. Returns how many rows those are; 0, and nothing is done, where they are few or very many.
  size_t scan_shared(const Structure& structure, uint32_t partition, size_t i, const VisibleRange& visible,
                     const Probes& probes, const Scope& scope, Matches& matches) const {
    size_t rows = 0;
    structure.each(partition, [&rows](const RowSpan<Key>& some) { rows += some.count; });
    if (rows < kFewShared || rows > kManyShared) return 0;
    const size_t room = rows + 2 * kLeaf;
    size_t end = matches.kept.size(), found[kScanned] = {};
    matches.kept.resize(end + kScanned * room);
    Row* const out = matches.kept.data() + end;
    structure.each(partition, [&](const RowSpan<Key>& some) {
      kernels_.scan_together(some.words, some.rows, some.count, probes.lower + i, probes.upper + i, out, room, found);
    });
    // Those of each probe move up behind what is kept of the ones before, over no rows that are still to be moved.
    for (size_t probe = 0; probe < kScanned; ++probe) {
      std::memmove(matches.kept.data() + end, out + probe * room, found[probe] * sizeof(Row));
      matches.kept.resize(end + found[probe]);
      keep(probes.places[i + probe], end, visible, scope, matches);
      end = matches.kept.size();
    }
    return rows;
  }

  // A sorted structure gives ranges; rows are copied where they have to be checked.
  void probe_sorted(const Structure& structure, const VisibleRange& visible, const Probes& probes, const Scope& scope,
                    Matches& matches) const {
    probe_few(structure.buffer(), visible, probes, scope, matches);
    const size_t before = matches.found.size();
    matches.found.resize(before + probes.count);
    const size_t some = structure.search(probes, matches.found.data() + before);
    const RowSpan<Key> main = structure.main();
    if (!visible.checks() && !scope.counting) {
      matches.found.resize(before + some);
      for (size_t i = before; i < before + some; ++i) matches.pairs += matches.found[i].length;
      if (some > 0) {
        matches.parts.push_back({main.rows ? nullptr : main.words, main.rows ? main.rows : nullptr, before, before + some});
      }
      return;
    }
    size_t write = before, checked = 0;
    for (size_t i = before; i < before + some; ++i) {
      const Found range = matches.found[i];
      if ((checked += range.length) >= kCheckpoint) {
        matches.checkpoint();
        checked = 0;
      }
      size_t count = range.length;
      const size_t start = matches.kept.size();
      if (visible.checks()) {
        matches.kept.resize(start + count + 2 * kLeaf);
        Row* const rows = matches.kept.data() + start;
        for (size_t j = 0; j < count; ++j) {
          rows[j] = main.rows ? main.rows[range.start + j] : static_cast<Row>(main.words[range.start + j]);
        }
        count = visible.keep(range.probe, rows, count);
        matches.kept.resize(scope.counting ? start : start + count);
      }
      matches.pairs += count;
      if (scope.counting) {
        scope.counts[range.probe] += static_cast<int64_t>(count);
      } else if (count > 0) {
        matches.found[write++] = {range.probe, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
      }
    }
    matches.found.resize(write);
    if (write > before) matches.parts.push_back({nullptr, nullptr, before, write});
  }

  // Compares each probe with each of a few rows in no order.
  void probe_few(const RowSpan<Key>& rows, const VisibleRange& visible, const Probes& probes, const Scope& scope,
                 Matches& matches) const {
    if (rows.count == 0) return;
    const size_t before = matches.found.size();
    size_t checked = 0;
    for (size_t i = 0; i < probes.count; ++i) {
      if ((checked += rows.count) >= kCheckpoint) {
        matches.checkpoint();
        checked = 0;
      }
      const size_t start = matches.kept.size();
      scan(rows, probes.lower[i], probes.upper[i], matches);
      keep(probes.places[i], start, visible, scope, matches);
    }
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  void scan(const RowSpan<Key>& rows, Word lower, Word upper, Matches& matches) const {
    const size_t end = matches.kept.size();
    matches.kept.resize(end + rows.count + 2 * kLeaf);
    matches.kept.resize(end + kernels_.scan(rows.words, rows.rows, rows.count, lower, upper, matches.kept.data() + end));
  }

  // Of the rows from `start` on, those that the probe may see are what it has found.
  void keep(uint32_t place, size_t start, const VisibleRange& visible, const Scope& scope, Matches& matches) const {
    size_t count = matches.kept.size() - start;
    if (count == 0) return;
    matches.kept.resize(start + count + 2 * kLeaf);
    count = visible.keep(place, matches.kept.data() + start, count);
    matches.kept.resize(scope.counting ? start : start + count);
    matches.pairs += count;
    if (scope.counting) {
      scope.counts[place] += static_cast<int64_t>(count);
    } else if (count > 0) {
      const size_t at = matches.found.size();
      matches.found.resize(at + 1);
      matches.found[at] = {place, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
    }
  }

  const KernelTable& kernels_;
  const Options options_;
  const size_t window_;
  const int64_t time_width_;
  std::vector<std::unique_ptr<Subwindow>> chain_;  // oldest first
  bool open_ = false;                              // the last one takes rows
  size_t opened_ = 0;
  std::optional<Learned> learned_;
  std::vector<Run<Key>> held_;  // what pieces are stored from
  std::vector<std::pair<Structure*, size_t>> pieces_;
  size_t rows_ = 0;
  int64_t late_rows_ = 0;  // that came so far and were few
};

}  // namespace muntin
