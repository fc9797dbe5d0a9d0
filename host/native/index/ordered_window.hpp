// A window in one ordered structure of (key, row) entries, such as a tree or a trie: rows go in one by one, and leave one
// by one in order of arrival.
#pragma once

#include <concepts>
#include <deque>

#include "index/range_search.hpp"

namespace muntin {

// An ordered structure of entries, whose keys may come more than once; one thread changes it, several may read it.
template <class Tree>
concept OrderedEntries = requires(Tree& tree, const Tree& same, typename Tree::Key key, Row row, Tree&& gone,
                                  bool (*visit)(typename Tree::Key, Row)) {
  typename Tree::Cursor;                                      // Cursor(tree, low, high), next(key, row)
  tree.insert(key, row);                                      // behind the entries of the same key
  { tree.erase(key, row) } -> std::convertible_to<bool>;      // whether there was one
  { same.map(key, key, visit) } -> std::convertible_to<bool>;  // in order, until `visit` returns false
  { same.size() } -> std::convertible_to<size_t>;
  { same.bytes() } -> std::convertible_to<size_t>;
  { same.figures() } -> std::convertible_to<Figures>;
  tree = std::move(gone);
};

// Parameters
//   make: gives an empty tree.
//   logged: rows leave one by one, by a log of keys in order of arrival. Without it they leave by `purge` alone: for a
//     slice of a window, which goes whole.
//   time_width: of the window, 0 where it is counted; how often a few rows that are far ahead of their time are looked for.
template <OrderedEntries Tree>
class OrderedWindow final : public WindowIndex<typename Tree::Key>, public RangeSearch<typename Tree::Key> {
 public:
  using Key = typename Tree::Key;
  using Visit = typename RangeSearch<Key>::Visit;
  using Make = std::function<Tree()>;

  OrderedWindow(Make make, bool logged, int64_t time_width)
      : make_(std::move(make)), logged_(logged), time_width_(time_width), tree_(make_()) {}

  void insert(Run<Key>&& run, const Times&) override {
    const size_t length = run.length();
    if (length == 0) return;
    admit(run.extent);
    std::vector<Entry>* log = logged_ ? log_for(run.extent, length) : nullptr;
    for (size_t i = 0; i < length; ++i) {
      const Key key = Run<Key>::key(run.words()[i]);
      tree_.insert(key, run.row(i));
      if (log != nullptr) log->push_back({key, run.row(i)});
    }
  }

  RangeSearch<Key>* range_search() override { return this; }

  void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) override {
    if (count == 0) return;
    const Extent extent = extent_of(times, count, first_row);
    admit(extent);
    std::vector<Entry>* log = logged_ ? log_for(extent, count) : nullptr;
    auto row = static_cast<Row>(extent.first_row);
    for (size_t i = 0; i < count; ++i, ++row) {
      tree_.insert(keys[i], row);
      if (log != nullptr) log->push_back({keys[i], row});
    }
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    const int64_t least = scope.min_other_position - scope.span;
    if (tree_.size() == 0 || extent_.last_row < least || extent_.first_row >= scope.max_other_position) return;
    bool by_time = false;
    if (scope.times != nullptr) {
      if (extent_.last_time < scope.low + scope.first_time || extent_.first_time > scope.high + scope.last_time) return;
      by_time = extent_.first_time < scope.low + scope.last_time || extent_.last_time > scope.high + scope.first_time;
    }
    const int64_t base = extent_.first_row;
    const auto low = static_cast<Row>(base);
    const size_t before = matches.found.size();
    size_t end = matches.kept.size(), room = end, checked = 0;
    for (size_t i = 0; i < probes.count; ++i) {
      const uint32_t place = probes.places[i];
      const int64_t other_position = scope.other_position ? scope.other_position[place] : scope.same_other_position;
      const int64_t from = std::max(other_position - scope.span, base), to = std::min(other_position, extent_.last_row + 1);
      if (from >= to) continue;
      const size_t start = end;
      uint64_t count = 0;
      tree_.map(Run<Key>::key(probes.lower[i]), Run<Key>::key(probes.upper[i]), [&](Key, Row stored) {
        if (++checked % kCheckpoint == 0) matches.checkpoint();
        const int64_t row = base + static_cast<Row>(stored - low);
        if (row < from || row >= to) return true;
        if (by_time) {
          const Wide apart = static_cast<Wide>(scope.stored_times->of(row)) - scope.times[place];
          if (apart < scope.low || apart > scope.high) return true;
        }
        ++count;
        if (scope.counting) return true;
        if (end == room) matches.kept.resize(room = end + 1024);
        matches.kept[end++] = stored;
        return true;
      });
      matches.pairs += count;
      if (scope.counting) {
        scope.counts[place] += count;
      } else if (count > 0) {
        matches.found.resize(matches.found.size() + 1);
        matches.found[matches.found.size() - 1] = {place, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
      }
    }
    matches.kept.resize(end);
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  void expire_rows(int64_t before) override {
    drop_if([before](const Batch& batch) { return batch.extent.last_row < before; });
  }

  void expire_times(int64_t limit, const Times& times) override {
    drop_if([limit](const Batch& batch) { return batch.extent.last_time <= limit; });
    // A few rows far ahead of their time would keep all that came with them.
    bool some = false;
    for (Batch& batch : log_) {
      if (batch.extent.first_time > limit || static_cast<Wide>(limit) - batch.checked < time_width_ / 4) continue;
      batch.checked = limit;
      const int64_t base = batch.extent.first_row;
      size_t live = 0;
      for (const Entry& entry : batch.entries) live += times.of(number(base, entry.row)) > limit;
      if (live >= batch.entries.size() / 8) continue;
      keep_past(batch, limit, times);
      some = true;
    }
    if (some) drop_if([](const Batch& batch) { return batch.entries.empty(); });
  }

  void purge(int64_t limit, const Times& times) override {
    if (!logged_) {
      rebuild(limit, times);
      return;
    }
    for (Batch& batch : log_) {
      if (batch.extent.first_time <= limit) keep_past(batch, limit, times);
    }
    drop_if([](const Batch& batch) { return batch.entries.empty(); });
  }

  void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times& times) const override {
    const auto number = numbers();
    for (size_t i = 0; i < count; ++i) {
      tree_.map(keys[i], keys[i], [&](Key, Row row) {
        const int64_t found = number(row);
        if (at == nullptr || times.of(found) == at[i]) rows[i] = std::max(rows[i], found);
        return true;
      });
    }
  }
  void fold(Key low, Key high, RangeTotals& totals) const override {
    const auto number = numbers();
    switch (totals.kind) {
      case RangeTotals::kCount:
        if (totals.times == nullptr) {
          tree_.map(low, high, [&](Key, Row) { return ++totals.count, true; });
          break;
        }
        [[fallthrough]];
      case RangeTotals::kWhole:
      case RangeTotals::kReal:
        tree_.map(low, high, [&](Key, Row row) { return totals.add(number(row)), true; });
        break;
      case RangeTotals::kRows:
        tree_.map(low, high, [&](Key, Row row) {
          const int64_t value = number(row);
          if (totals.sees(value)) totals.add_whole(value);
          return true;
        });
        break;
    }
  }
  bool visit(Key low, Key high, const Visit& f) const override {
    const auto number = numbers();
    return tree_.map(low, high, [&](Key key, Row row) { return f(key, number(row)); });
  }
  std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const override {
    if (scan == Scan::kPlace) return std::make_unique<Cursor<typename Tree::Cursor>>(tree_, low, high, numbers());
    if constexpr (requires { typename Tree::RootCursor; }) {
      return std::make_unique<Cursor<typename Tree::RootCursor>>(tree_, low, high, numbers());
    }
    throw std::invalid_argument("this index has no iterator that starts at the root");
  }

  size_t rows() const override { return tree_.size(); }
  size_t bytes() const override { return tree_.bytes() + log_bytes_; }
  size_t runs() const override { return tree_.size() > 0; }
  int64_t oldest(int64_t none) const override { return tree_.size() > 0 ? extent_.first_row : none; }
  Figures figures() const override {
    Figures figures = tree_.figures();
    if (logged_) figures["erased"] = erased_;
    return figures;
  }

 private:
  static constexpr size_t kBatchRows = 1024;  // steps of fewer rows are logged together

  struct Entry {
    Key key;
    Row row;
  };
  struct Batch {
    Extent extent;
    std::vector<Entry> entries;
    int64_t checked = std::numeric_limits<int64_t>::min() / 2;
  };

  // Whole arrival numbers of the rows stored.
  struct Numbers {
    int64_t base;
    int64_t operator()(Row row) const { return base + static_cast<Row>(row - static_cast<Row>(base)); }
  };
  Numbers numbers() const { return {oldest(0)}; }

  template <class Inner>
  class Cursor final : public RangeCursor<Key> {
   public:
    Cursor(const Tree& tree, Key low, Key high, const Numbers& number) : number_(number), cursor_(tree, low, high) {}
    bool next(Key& key, int64_t& row) override {
      Row stored;
      if (!cursor_.next(key, stored)) return false;
      row = number_(stored);
      return true;
    }

   private:
    const Numbers number_;
    Inner cursor_;
  };

  static int64_t number(int64_t base, Row row) { return base + static_cast<Row>(row - static_cast<Row>(base)); }

  void admit(const Extent& extent) {
    if (tree_.size() == 0) {
      extent_ = extent;
    } else {
      extent_.join(extent);
    }
  }

  std::vector<Entry>* log_for(const Extent& extent, size_t count) {
    if (log_.empty() || log_.back().entries.size() + count > kBatchRows) {
      log_.push_back({extent, {}});
      log_.back().entries.reserve(std::max(count, kBatchRows / 8));
      log_bytes_ += log_.back().entries.capacity() * sizeof(Entry);
    } else {
      log_.back().extent.join(extent);
      const size_t before = log_.back().entries.capacity();
      if (before < log_.back().entries.size() + count) log_.back().entries.reserve(kBatchRows);
      log_bytes_ += (log_.back().entries.capacity() - before) * sizeof(Entry);
    }
    return &log_.back().entries;
  }

  template <class Test>
  void drop_if(const Test& test) {
    std::erase_if(log_, [&](const Batch& batch) {
      if (!test(batch)) return false;
      for (const Entry& entry : batch.entries) erased_ += tree_.erase(entry.key, entry.row);
      log_bytes_ -= batch.entries.capacity() * sizeof(Entry);
      return true;
    });
    if (log_.empty()) return;
    extent_ = log_.front().extent;
    for (const Batch& batch : log_) extent_.join(batch.extent);
  }

  void keep_past(Batch& batch, int64_t limit, const Times& times) {
    const int64_t base = batch.extent.first_row;
    Extent extent{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    std::erase_if(batch.entries, [&](const Entry& entry) {
      const int64_t row = number(base, entry.row), time = times.of(row);
      if (time > limit) {
        extent.join({row, row, time, time});
        return false;
      }
      erased_ += tree_.erase(entry.key, entry.row);
      return true;
    });
    batch.extent = extent;
  }

  // The rows past a limit in a tree of their own.
  void rebuild(int64_t limit, const Times& times) {
    const int64_t base = extent_.first_row;
    Tree kept = make_();
    Extent extent{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    tree_.map(std::numeric_limits<Key>::min(), std::numeric_limits<Key>::max(), [&](Key key, Row stored) {
      const int64_t row = number(base, stored), time = times.of(row);
      if (time > limit) {
        extent.join({row, row, time, time});
        kept.insert(key, stored);
      }
      return true;
    });
    tree_ = std::move(kept);
    extent_ = extent;
  }

  const Make make_;
  const bool logged_;
  const int64_t time_width_;
  Tree tree_;
  Extent extent_{};
  std::deque<Batch> log_;
  size_t log_bytes_ = 0;
  int64_t erased_ = 0;
};

}  // namespace muntin
