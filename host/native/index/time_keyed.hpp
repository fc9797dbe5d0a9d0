// Incremental deletion, with which the partitioned temporal window index is compared: one ordered index over the whole
// window, whose keys begin with the time. What has expired lies at its beginning, and is erased entry by entry.
//
// Source: the partitioned temporal window index, section 3.3.1. A range of keys is searched at each time there is.
#pragma once

#include "index/range_search.hpp"

namespace muntin {

template <class Tree>
class TimeKeyed final : public WindowIndex<int32_t>, public RangeSearch<int32_t> {
 public:
  using Key = int32_t;
  explicit TimeKeyed(Tree&& tree) : tree_(std::move(tree)) {}

  RangeSearch<Key>* range_search() override { return this; }

  // It is searched, and of no join.
  void insert(Run<Key>&&, const Times&) override { refuse(); }
  void probe(const Probes&, const Scope&, Matches&) const override { refuse(); }
  void expire_rows(int64_t) override { refuse(); }

  void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) override {
    for (size_t i = 0; i < count; ++i) add(keys[i], times[i], first_row + static_cast<int64_t>(i));
  }

  void expire_times(int64_t limit, const Times&) override {
    while (!live_.empty() && live_.begin()->first <= limit) {
      const int64_t time = live_.begin()->first;
      while (true) {
        batch_.clear();
        tree_.map(key_of(time, kLeast), key_of(time, kMax), [&](int64_t key, Row row) {
          batch_.push_back({key, row});
          return batch_.size() < 1024;
        });
        if (batch_.empty()) break;
        for (const auto& [key, row] : batch_) erased_ += tree_.erase(key, row);
      }
      live_.erase(live_.begin());
    }
  }
  void purge(int64_t limit, const Times& times) override { expire_times(limit, times); }
  size_t rows() const override { return tree_.size(); }
  size_t bytes() const override { return tree_.bytes(); }
  size_t runs() const override { return tree_.size() > 0; }
  int64_t oldest(int64_t none) const override {
    if (live_.empty()) return none;
    int64_t oldest = std::numeric_limits<int64_t>::max();
    for (const auto& [time, first_row] : live_) oldest = std::min(oldest, first_row);
    return oldest;
  }
  Figures figures() const override {
    Figures figures = tree_.figures();
    figures["erased"] = erased_;
    figures["times"] = static_cast<int64_t>(live_.size());
    return figures;
  }

  void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times&) const override {
    const auto number = numbers();
    for (size_t i = 0; i < count; ++i) {
      map(keys[i], keys[i], at ? at[i] : kFirst, at ? at[i] : kLast, [&](Key, Row row) { return rows[i] = std::max(rows[i], number(row)), true; });
    }
  }
  void fold(Key low, Key high, RangeTotals& totals) const override {
    const auto number = numbers();
    map(low, high, totals.times ? static_cast<Wide>(totals.after) + 1 : kFirst, kLast, [&](Key, Row row) {
      totals.add(number(row));
      return true;
    });
  }
  bool visit(Key low, Key high, const Visit& f) const override {
    const auto number = numbers();
    return map(low, high, kFirst, kLast, [&](Key key, Row row) { return f(key, number(row)); });
  }
  std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const override {
    if (scan == Scan::kRoot) throw std::invalid_argument("this index has no iterator that starts at the root");
    return std::make_unique<Cursor>(*this, low, high);
  }

 private:
  [[noreturn]] static void refuse() { throw std::invalid_argument("no join takes an index of time and key"); }

  static constexpr Key kLeast = std::numeric_limits<Key>::min(), kMax = std::numeric_limits<Key>::max();
  static constexpr Wide kFirst = std::numeric_limits<int64_t>::min(), kLast = std::numeric_limits<int64_t>::max();

  // One time after the other.
  class Cursor final : public RangeCursor<Key> {
   public:
    Cursor(const TimeKeyed& index, Key low, Key high)
        : index_(index), number_(index.numbers()), time_(index.live_.begin()), low_(low), high_(high) {}
    bool next(Key& key, int64_t& row) override {
      int64_t found;
      Row stored;
      while (true) {
        if (inner_ != nullptr && inner_->next(found, stored)) {
          key = static_cast<Key>(static_cast<uint32_t>(found) ^ 0x80000000u);
          row = number_(stored);
          return true;
        }
        if (time_ == index_.live_.end() || low_ > high_) return false;
        inner_ = std::make_unique<typename Tree::Cursor>(index_.tree_, index_.key_of(time_->first, low_), index_.key_of(time_->first, high_));
        ++time_;
      }
    }

   private:
    const TimeKeyed& index_;
    decltype(std::declval<const TimeKeyed&>().numbers()) number_;
    std::map<int64_t, int64_t>::const_iterator time_;
    const Key low_, high_;
    std::unique_ptr<typename Tree::Cursor> inner_;
  };
  friend class Cursor;

  auto numbers() const {
    return [base = oldest(0)](Row row) { return base + static_cast<Row>(row - static_cast<Row>(base)); };
  }
  int64_t key_of(int64_t time, Key key) const {
    const Wide apart = static_cast<Wide>(time) - origin_;
    return static_cast<int64_t>(static_cast<uint64_t>(apart) << 32 | (static_cast<uint32_t>(key) ^ 0x80000000u));
  }

  void add(Key key, int64_t time, int64_t row) {
    if (!begun_) origin_ = time;
    begun_ = true;
    const Wide apart = static_cast<Wide>(time) - origin_;
    if (apart < kLeast || apart > kMax) {
      throw std::invalid_argument("keys of time and key hold times within 2**31 units of the first one");
    }
    const auto [at, first] = live_.try_emplace(time, row);
    if (!first) at->second = std::min(at->second, row);
    tree_.insert(key_of(time, key), static_cast<Row>(row));
  }

  template <class Each>
  bool map(Key low, Key high, Wide from, Wide to, const Each& f) const {
    if (low > high || from > kLast || to < kFirst) return true;
    for (auto at = live_.lower_bound(static_cast<int64_t>(std::max(from, kFirst))); at != live_.end() && at->first <= to; ++at) {
      const bool on = tree_.map(key_of(at->first, low), key_of(at->first, high), [&](int64_t key, Row row) {
        return f(static_cast<Key>(static_cast<uint32_t>(key) ^ 0x80000000u), row);
      });
      if (!on) return false;
    }
    return true;
  }

  Tree tree_;
  bool begun_ = false;
  int64_t origin_ = 0;
  std::map<int64_t, int64_t> live_;  // times there are, each with the least arrival number of its rows
  std::vector<std::pair<int64_t, Row>> batch_;
  int64_t erased_ = 0;
};

}  // namespace muntin
