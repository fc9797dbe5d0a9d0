// PIM-Tree and the indexes that its paper compares it with: one B+-Tree, and chains of trees. Each is filled row by row or by
// the rows of a step.
//
// Source: PIM-Tree, section 2.2.
#pragma once

#include <deque>

#include "index/pim_tree.hpp"
#include "index/registry.hpp"

namespace muntin {

// One B+-Tree, from which rows are removed one by one as they expire.
template <class K>
class BPlusIndex final : public RowIndex<BPlusIndex<K>, K> {
  using Base = RowIndex<BPlusIndex<K>, K>;
  using Base::oldest_;

 public:
  static constexpr bool kOwnLocks = false, kMerges = false;
  using typename Base::Item;
  using typename Base::Key;

  void insert(Run<Key>&& run, const Times&) override {
    int64_t number = run.extent.first_row;
    for (const Item& item : this->arrivals(run)) {
      number += static_cast<Row>(row_of(item) - static_cast<Row>(number));
      add(item, number, 0, false);
    }
    settle();
  }

  void add(const Item& item, int64_t number, int64_t, bool) {
    if (window_.empty()) oldest_ = number;
    tree_.insert(item, pool_);
    window_.push_back(item);
    ++fresh_;
  }

  // Rows that several threads have added are not in order of arrival.
  void settle() override {
    const Row base = static_cast<Row>(oldest_ - (int64_t{1} << 31));
    std::sort(window_.end() - static_cast<ptrdiff_t>(std::min(fresh_, window_.size())), window_.end(),
              [base](const Item& a, const Item& b) {
                return static_cast<Row>(row_of(a) - base) < static_cast<Row>(row_of(b) - base);
              });
    fresh_ = 0;
    if (!window_.empty()) oldest_ = Keep{0, oldest_ - (int64_t{1} << 31)}.number(row_of(window_.front()));
  }

  void expire_rows(int64_t before) override {
    while (!window_.empty() && front() < before) pop();
    if (!window_.empty()) oldest_ = front();
  }
  // The same while rows are added that need not come in order: some with each, as the step can be ended in between.
  void expire(int64_t before) {
    for (int most = kExpiredAtOnce; most > 0 && !window_.empty(); --most) {
      if (static_cast<int32_t>(static_cast<Row>(before) - row_of(window_.front())) <= 0) return;
      pop();
    }
  }
  void expire_times(int64_t limit, const Times& times) override {
    while (!window_.empty() && times.of(front()) <= limit) pop();
    if (!window_.empty()) oldest_ = front();
  }
  void purge(int64_t limit, const Times& times) override {
    const Keep keep{0, oldest_};
    std::deque<Item> kept;
    for (const Item& item : window_) {
      if (times.of(keep.number(row_of(item))) > limit) {
        kept.push_back(item);
      } else {
        tree_.erase(item, pool_);
        ++expired_;
      }
    }
    window_.swap(kept);
    if (!window_.empty()) oldest_ = keep.number(row_of(window_.front()));
  }

  template <class See>
  void range(Key low, Key high, const See& see) const {
    if (low > high) return;
    tree_.from(make_item(low, 0), [&](const Item& item) {
      if (key_of(item) > high) return false;
      see(row_of(item));
      return true;
    });
  }

  size_t rows() const override { return window_.size(); }
  size_t bytes() const override { return pool_.bytes() + window_.size() * sizeof(Item); }
  size_t runs() const override { return window_.empty() ? 0 : 1; }
  Figures figures() const override {
    return {{"depth", static_cast<int64_t>(tree_.depth())},
            {"fan_out", static_cast<int64_t>(BPlusTree<Key>::Inner::kMax)},
            {"leaf_items", static_cast<int64_t>(BPlusTree<Key>::Leaf::kMax)},
            {"nodes", static_cast<int64_t>(pool_.used())},
            {"removed", static_cast<int64_t>(expired_)},
            {"rows", static_cast<int64_t>(rows())}};
  }

 private:
  static constexpr int kExpiredAtOnce = 32;

  int64_t front() const { return Keep{0, oldest_}.number(row_of(window_.front())); }
  void pop() {
    tree_.erase(window_.front(), pool_);
    window_.pop_front();
    ++expired_;
  }

  NodePool pool_;
  BPlusTree<Key> tree_;
  std::deque<Item> window_;  // in the order of arrival
  size_t fresh_ = 0;         // at its end, that may not be
  uint64_t expired_ = 0;
};

// A chain of sub-indexes over slices of the window, the youngest of them active; whole ones are dropped once all of
// their rows have expired. Each is a B+-Tree; with `immutable` those that are full become immutable trees.
template <class K>
class ChainIndex final : public RowIndex<ChainIndex<K>, K> {
  using Base = RowIndex<ChainIndex<K>, K>;
  using Base::oldest_;

 public:
  static constexpr bool kOwnLocks = false, kMerges = false;
  using typename Base::Item;
  using typename Base::Key;

  // `slice_rows` arrival numbers, or `slice_time` units of time where that is not 0, to a sub-index.
  ChainIndex(size_t length, size_t window_rows, int64_t width, bool immutable)
      : length_(length), slice_rows_((window_rows + length - 2) / (length - 1)),
        slice_time_(window_rows > 0 ? 0 : std::max<int64_t>(width / static_cast<int64_t>(length - 1), 1)),
        immutable_(immutable) {}

  void insert(Run<Key>&& run, const Times&) override {
    const Extent& extent = run.extent;
    int64_t number = extent.first_row;
    for (const Item& item : this->arrivals(run)) {
      number += static_cast<Row>(row_of(item) - static_cast<Row>(number));
      add(item, number, extent.last_time, false);
      chain_.back()->first_time = std::min(chain_.back()->first_time, extent.first_time);
    }
  }

  void add(const Item& item, int64_t number, int64_t time, bool) {
    // Where the newest slice has expired before older ones, the one that is left may be immutable.
    if (chain_.empty() || archived(*chain_.back()) || past(*chain_.back(), number, time)) open(number, time);
    Sub& sub = *chain_.back();
    sub.tree.insert(item, sub.pool);
    sub.least = std::min(sub.least, number);
    sub.last = std::max(sub.last, number);
    sub.first_time = std::min(sub.first_time, time);
    sub.last_time = std::max(sub.last_time, time);
    ++sub.count;
    ++rows_;
    oldest_ = std::min(oldest_, number);
  }

  void expire_rows(int64_t before) override { expire(before); }
  void expire(int64_t before) {
    drop([before](const Sub& sub) { return sub.last < before; });
  }
  void expire_times(int64_t limit, const Times&) override {
    drop([limit](const Sub& sub) { return sub.last_time <= limit; });
  }
  void purge(int64_t limit, const Times& times) override {
    std::deque<std::unique_ptr<Sub>> chain;
    chain.swap(chain_);
    const Keep keep{0, oldest_};
    rows_ = 0;
    for (const auto& old : chain) {
      std::vector<std::pair<int64_t, Item>> kept;
      const auto see = [&](const Item& item) {
        const int64_t number = keep.number(row_of(item));
        if (times.of(number) > limit) kept.emplace_back(number, item);
      };
      for (size_t i = 0; i < old->archive.size(); ++i) see(old->archive.items()[i]);
      old->tree.leaves([&](const Item* items, size_t count) { std::for_each(items, items + count, see); });
      if (kept.empty()) continue;
      std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      open(kept.front().first, times.of(kept.front().first));
      chain_.back()->first = old->first;
      for (const auto& [number, item] : kept) {
        Sub& sub = *chain_.back();
        const int64_t time = times.of(number);
        sub.tree.insert(item, sub.pool);
        sub.least = std::min(sub.least, number);
        sub.last = std::max(sub.last, number);
        sub.first_time = std::min(sub.first_time, time);
        sub.last_time = std::max(sub.last_time, time);
        ++sub.count;
        ++rows_;
      }
    }
    found_oldest();
  }

  template <class See>
  void range(Key low, Key high, const See& see) const {
    if (low > high) return;
    const auto until = [&](const Item& item) {
      if (key_of(item) > high) return false;
      see(row_of(item));
      return true;
    };
    for (const auto& sub : chain_) {
      if (sub->archive.size() > 0) {
        sub->archive.from(sub->archive.leaf_of(low), low, until);
      } else {
        sub->tree.from(make_item(low, 0), until);
      }
    }
  }

  size_t rows() const override { return rows_; }
  size_t bytes() const override {
    size_t bytes = 0;
    for (const auto& sub : chain_) bytes += sub->archive.bytes() + sub->pool.bytes();
    return bytes;
  }
  size_t runs() const override { return chain_.size(); }
  Figures figures() const override {
    std::vector<int64_t> lengths, depths;
    for (const auto& sub : chain_) {
      lengths.push_back(static_cast<int64_t>(sub->count));
      depths.push_back(static_cast<int64_t>(sub->archive.size() > 0 ? sub->archive.depth() + 1 : sub->tree.depth()));
    }
    return {{"chain_length", static_cast<int64_t>(chain_.size())},
            {"max_chain_length", static_cast<int64_t>(longest_)},
            {"sub_index_rows", lengths},
            {"sub_index_depths", depths},
            {"dropped", static_cast<int64_t>(dropped_)},
            {"archived", static_cast<int64_t>(archived_)},
            {"rows", static_cast<int64_t>(rows_)}};
  }

 private:
  struct Sub {
    NodePool pool;
    BPlusTree<Key> tree;
    ImmutableTree<Key> archive;
    size_t count = 0;
    int64_t first, least, last, first_time, last_time;
  };

  bool past(const Sub& sub, int64_t number, int64_t time) const {
    if (slice_time_ == 0) return number - sub.first >= static_cast<int64_t>(slice_rows_);
    return static_cast<Wide>(time) - sub.first_time >= slice_time_;
  }

  void open(int64_t number, int64_t time) {
    if (!chain_.empty() && immutable_ && !archived(*chain_.back())) archive(*chain_.back());
    auto sub = std::make_unique<Sub>();
    // Slices of a count window start at multiples of their length, so that as many of them cover it.
    sub->first = slice_time_ == 0 ? number - number % static_cast<int64_t>(slice_rows_) : number;
    sub->least = sub->last = number;
    sub->first_time = sub->last_time = time;
    if (chain_.empty()) oldest_ = number;
    chain_.push_back(std::move(sub));
    longest_ = std::max(longest_, chain_.size());
  }

  static bool archived(const Sub& sub) { return sub.archive.size() > 0; }

  void archive(Sub& sub) {
    Block block((sub.count + ImmutableTree<Key>::kLeafItems) * sizeof(Item));
    auto* at = static_cast<Item*>(block.data());
    sub.tree.leaves([&](const Item* items, size_t count) { at = std::copy_n(items, count, at); });
    sub.archive = ImmutableTree<Key>(std::move(block), sub.count);
    sub.tree.forget();
    sub.pool.clear();
    ++archived_;
  }

  template <class Gone>
  void drop(const Gone& gone) {
    const size_t before = chain_.size();
    std::erase_if(chain_, [&](const auto& sub) {
      if (!gone(*sub)) return false;
      rows_ -= sub->count;
      ++dropped_;
      return true;
    });
    if (chain_.size() < before) found_oldest();
  }
  void found_oldest() {
    if (chain_.empty()) return;
    oldest_ = chain_.front()->least;
    for (const auto& sub : chain_) oldest_ = std::min(oldest_, sub->least);
  }

  size_t length_, slice_rows_;
  int64_t slice_time_;
  bool immutable_;
  std::deque<std::unique_ptr<Sub>> chain_;  // oldest first
  size_t rows_ = 0, longest_ = 0;
  uint64_t dropped_ = 0, archived_ = 0;
};

// From the options that users give.
template <class Key>
std::unique_ptr<ChainIndex<Key>> make_chain(const Options& options, const Making& making, bool immutable) {
  return std::make_unique<ChainIndex<Key>>(options.whole("length", 2, 2), making.window_rows, making.time_width, immutable);
}
template <class Key>
std::unique_ptr<PimIndex<Key>> make_pim(const Options& options, const Making& making, bool partitioned) {
  const double ratio = options.real("merge_ratio", 0, 1, 0.125);
  const size_t depth = partitioned ? options.whole("insertion_depth", 1, 2) : 0;
  return std::make_unique<PimIndex<Key>>(depth, ratio, making.window_rows);
}

}  // namespace muntin
