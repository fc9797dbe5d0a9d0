// PIM-Tree and the indexes that its paper compares it with, each filled row by row or by the rows of a step.
//
// Source: PIM-Tree, sections 2.2 and 3. A probe's results are checked one by one against its window, so that rows that
// have expired may stay where the index removes them later.
#pragma once

#include <deque>
#include <mutex>

#include "engine.hpp"
#include "trees.hpp"

namespace muntin {

// Which items a merge keeps: rows from a number on, and of those the ones past a time.
struct Keep {
  int64_t before;               // rows from this number on
  int64_t base;                 // at or before all numbers stored
  const Times* times = nullptr;  // null: of any time
  int64_t limit = 0;

  int64_t number(Row row) const { return base + static_cast<Row>(row - static_cast<Row>(base)); }
};

// What these indexes have in common: which rows are stored, and a probe by ranges of keys.
template <class Index, class K>
class RowIndex {
 public:
  using Key = K;
  using Item = muntin::Item<Key>;

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const {
    const auto& index = static_cast<const Index&>(*this);
    if (index.rows() == 0) return;
    const size_t before = matches.found.size();
    const Keep keep{0, oldest_};
    size_t checked = 0;
    for (size_t i = 0; i < probes.count; ++i) {
      const uint32_t place = probes.places[i];
      const int64_t opposite = scope.opposite ? scope.opposite[place] : scope.same_opposite;
      const size_t start = matches.kept.size();
      size_t count = 0;
      index.range(Run<Key>::key(probes.lower[i]), Run<Key>::key(probes.upper[i]), [&](Row row) {
        if (++checked % kCheckpoint == 0) matches.checkpoint();
        const int64_t number = keep.number(row);
        if (number >= opposite || number < opposite - scope.span) return;
        if (scope.times != nullptr) {
          const Wide apart = static_cast<Wide>(scope.stored_times->of(number)) - scope.times[place];
          if (apart < scope.low || apart > scope.high) return;
        }
        ++count;
        if (scope.counting) return;
        matches.kept.resize(start + count);
        matches.kept[start + count - 1] = row;
      });
      matches.pairs += count;
      if (scope.counting) {
        scope.counts[place] += count;
      } else if (count > 0) {
        matches.found.resize(matches.found.size() + 1);
        matches.found[matches.found.size() - 1] = {place, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
      }
    }
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  size_t plan(size_t) { return 0; }
  void work(size_t) {}
  bool behind() const { return false; }
  int64_t oldest(int64_t none) const { return static_cast<const Index&>(*this).rows() == 0 ? none : oldest_; }
  // At or before all numbers stored.
  int64_t floor() const { return oldest_; }

 protected:
  // A run's items in the order of arrival.
  std::vector<Item> arrivals(const Run<Key>& run) const {
    std::vector<Item> items(run.length());
    for (size_t i = 0; i < items.size(); ++i) items[i] = make_item(Run<Key>::key(run.words()[i]), run.row(i));
    const Row first = static_cast<Row>(run.extent.first_row);
    std::sort(items.begin(), items.end(), [first](const Item& a, const Item& b) {
      return static_cast<Row>(row_of(a) - first) < static_cast<Row>(row_of(b) - first);
    });
    return items;
  }

  int64_t oldest_ = 0;
};

// One B+-Tree, from which rows are removed one by one as they expire.
template <class K>
class BPlusIndex : public RowIndex<BPlusIndex<K>, K> {
  using Base = RowIndex<BPlusIndex<K>, K>;
  using Base::oldest_;

 public:
  static constexpr bool kOwnLocks = false, kMerges = false;
  using typename Base::Item;
  using typename Base::Key;

  void insert(Run<Key>&& run) {
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
  void settle() {
    const Row base = static_cast<Row>(oldest_ - (int64_t{1} << 31));
    std::sort(window_.end() - static_cast<ptrdiff_t>(std::min(fresh_, window_.size())), window_.end(),
              [base](const Item& a, const Item& b) {
                return static_cast<Row>(row_of(a) - base) < static_cast<Row>(row_of(b) - base);
              });
    fresh_ = 0;
    if (!window_.empty()) oldest_ = Keep{0, oldest_ - (int64_t{1} << 31)}.number(row_of(window_.front()));
  }

  void expire_rows(int64_t before) {
    while (!window_.empty() && front() < before) pop();
    if (!window_.empty()) oldest_ = front();
  }
  // The same while rows are added that need not come in order.
  void expire(int64_t before) {
    while (!window_.empty() && static_cast<int32_t>(static_cast<Row>(before) - row_of(window_.front())) > 0) pop();
  }
  void expire_times(int64_t limit, const Times& times) {
    while (!window_.empty() && times.of(front()) <= limit) pop();
    if (!window_.empty()) oldest_ = front();
  }
  void purge(int64_t limit, const Times& times) {
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

  size_t rows() const { return window_.size(); }
  size_t bytes() const { return pool_.bytes() + window_.size() * sizeof(Item); }
  size_t runs() const { return window_.empty() ? 0 : 1; }
  Figures figures() const {
    return {{"depth", static_cast<int64_t>(tree_.depth())},
            {"fan_out", static_cast<int64_t>(BPlusTree<Key>::Inner::kMost)},
            {"leaf_items", static_cast<int64_t>(BPlusTree<Key>::Leaf::kMost)},
            {"nodes", static_cast<int64_t>(pool_.used())},
            {"removed", static_cast<int64_t>(expired_)},
            {"rows", static_cast<int64_t>(rows())}};
  }

 private:
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
class ChainIndex : public RowIndex<ChainIndex<K>, K> {
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

  void insert(Run<Key>&& run) {
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
  void settle() {}

  void expire_rows(int64_t before) { expire(before); }
  void expire(int64_t before) {
    drop([before](const Sub& sub) { return sub.last < before; });
  }
  void expire_times(int64_t limit, const Times&) {
    drop([limit](const Sub& sub) { return sub.last_time <= limit; });
  }
  void purge(int64_t limit, const Times& times) {
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

  size_t rows() const { return rows_; }
  size_t bytes() const {
    size_t bytes = 0;
    for (const auto& sub : chain_) bytes += sub->archive.bytes() + sub->pool.bytes();
    return bytes;
  }
  size_t runs() const { return chain_.size(); }
  Figures figures() const {
    std::vector<int64_t> lengths, depths;
    for (const auto& sub : chain_) {
      lengths.push_back(static_cast<int64_t>(sub->count));
      depths.push_back(static_cast<int64_t>(sub->archive.size() > 0 ? sub->archive.depth() + 1 : sub->tree.depth()));
    }
    return {{"chain_length", static_cast<int64_t>(chain_.size())},
            {"most_chain_length", static_cast<int64_t>(longest_)},
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

// An immutable tree, and for each of its nodes at the insertion depth a B+-Tree with a lock: new rows go to that of
// their key. Once those have `merge_ratio` of a window's rows, all are merged into a new immutable tree, and rows that
// have expired leave. With an insertion depth of 0 there is one B+-Tree: the IM-Tree.
template <class K>
class PimIndex : public RowIndex<PimIndex<K>, K> {
  using Base = RowIndex<PimIndex<K>, K>;
  using Base::oldest_;

 public:
  static constexpr bool kOwnLocks = true, kMerges = true;
  static constexpr size_t kLeastMerged = 64;  // rows; to merge fewer costs more than it saves
  using typename Base::Item;
  using typename Base::Key;

  PimIndex(size_t insertion_depth, double merge_ratio, size_t window_rows)
      : insertion_depth_(insertion_depth), merge_ratio_(merge_ratio), window_rows_(window_rows),
        state_(std::make_unique<State>(ImmutableTree<Key>(), 0)) {}

  // What a merge makes, and swaps in once it is whole.
  struct State {
    struct alignas(64) Part {
      SpinLock lock;
      std::atomic<uint32_t> rows{0};
      BPlusTree<Key> tree;
    };
    State(ImmutableTree<Key>&& whole, size_t insertion_depth) : tree(std::move(whole)) {
      depth = tree.depth() == 0 ? 0 : std::min(insertion_depth, tree.depth() - 1);
      count = tree.depth() == 0 ? 1 : tree.nodes(depth);
      parts = std::make_unique<Part[]>(count);
    }
    ImmutableTree<Key> tree;
    size_t depth = 0, count = 1;  // of the parts
    std::unique_ptr<Part[]> parts;
    NodePool pool;
    std::atomic<size_t> fresh{0};  // rows of the parts
    int64_t oldest = 0;
  };

  void insert(Run<Key>&& run) {
    const Extent& extent = run.extent;
    if (run.length() == 0) return;
    if (rows() == 0) oldest_ = extent.first_row;
    newest_ = extent.last_row;
    for (size_t i = 0; i < run.length(); ++i) add(make_item(Run<Key>::key(run.words()[i]), run.row(i)), false);
    if (full()) swap(build({before_, oldest_}));
  }

  void add(const Item& item, int64_t number, int64_t, bool locked) {
    if (!locked) {
      if (rows() == 0) oldest_ = number;
      newest_ = number;
    }
    add(item, locked);
  }
  void add(const Item& item, bool locked) {
    State& state = *state_;
    insert_at(state, item, state.depth == 0 ? 0 : state.tree.node_of(key_of(item), state.depth), locked);
  }
  // Before and after threads add rows: the numbers that these may have.
  void begin(int64_t number) {
    if (rows() == 0) oldest_ = number;
  }
  void end(int64_t number) { newest_ = std::max(newest_, number); }
  void settle() {}

  bool full() const { return state_->fresh.load(std::memory_order_relaxed) >= threshold(); }
  size_t threshold() const {
    const size_t window = window_rows_ > 0 ? window_rows_ : state_->tree.size();
    return std::max(kLeastMerged, static_cast<size_t>(merge_ratio_ * static_cast<double>(window)));
  }

  // The first phase of a merge: a new tree, the old one left as it is for those that search it.
  std::unique_ptr<State> build(const Keep& keep) const {
    const State& old = *state_;
    const size_t most = old.tree.size() + old.fresh.load(std::memory_order_relaxed);
    Block block((most + ImmutableTree<Key>::kLeafItems) * sizeof(Item));
    auto* const start = static_cast<Item*>(block.data());
    Item* end;
    int64_t oldest = std::max(keep.before, keep.base);
    if (keep.times == nullptr) {
      const Row base = static_cast<Row>(keep.base), from = static_cast<Row>(oldest - keep.base);
      end = merge(start, [base, from](const Item& item) { return static_cast<Row>(row_of(item) - base) >= from; });
    } else {
      int64_t least = std::numeric_limits<int64_t>::max();
      end = merge(start, [&](const Item& item) {
        const int64_t number = keep.number(row_of(item));
        const bool kept = number >= keep.before && keep.times->of(number) > keep.limit;
        if (kept) least = std::min(least, number);
        return kept;
      });
      oldest = least;
    }
    const auto count = static_cast<size_t>(end - start);
    auto state = std::make_unique<State>(ImmutableTree<Key>(std::move(block), count), insertion_depth_);
    state->oldest = oldest;
    return state;
  }

  // The second phase: the new tree takes the place of the old one, when no thread searches it.
  std::unique_ptr<State> swap(std::unique_ptr<State> state) {
    removed_ += state_->tree.size() + state_->fresh.load() - state->tree.size();
    std::swap(state_, state);
    if (rows() > 0) oldest_ = state_->oldest;
    ++merges_;
    return state;
  }

  void expire_rows(int64_t before) {
    before_ = std::max(before_, before);
    if (rows() > 0 && newest_ < before_) clear();
  }
  void expire(int64_t) {}
  void expire_times(int64_t limit, const Times& times) {
    limit_ = limit;
    if (rows() > 0 && (full() || rows() >= 2 * live_ + kLeastMerged)) purge(limit, times);
  }
  void purge(int64_t limit, const Times& times) {
    limit_ = limit;
    if (rows() > 0) swap(build({before_, oldest_, &times, limit}));
    live_ = rows();
  }
  // What a merge may leave out before the step's first row, for time windows.
  Keep keep(const Times* times) const { return {before_, oldest_, limit_ == kNoLimit ? nullptr : times, limit_}; }

  template <class See>
  void range(Key low, Key high, const See& see) const {
    if (low > high) return;
    const State& state = *state_;
    const size_t part = state.depth == 0 ? 0 : state.tree.node_of(low, state.depth);
    range_from(low, high, part, state.tree.leaf_of(low), false, see);
  }

  // The same from a part and a leaf on. A thread that goes on to the next part locks it before it unlocks its own;
  // parts without rows are passed over.
  template <class See>
  void range_from(Key low, Key high, size_t part, size_t leaf, bool locked, const See& see) const {
    const State& state = *state_;
    const auto until = [&](const Item& item) {
      if (key_of(item) > high) return false;
      see(row_of(item));
      return true;
    };
    if (state.tree.size() > 0) state.tree.from(leaf, low, until);
    typename State::Part* held = nullptr;
    for (size_t at = part;; ++at) {
      typename State::Part& own = state.parts[at];
      if (own.rows.load(std::memory_order_acquire) > 0) {
        if (locked) {
          own.lock.lock();
          if (held != nullptr) held->lock.unlock();
          held = &own;
        }
        if (!own.tree.from(make_item(low, 0), until)) break;
      }
      if (at + 1 == state.count || state.tree.greatest(state.depth, at) >= high) break;
    }
    if (held != nullptr) held->lock.unlock();
  }

  const State& state() const { return *state_; }
  void insert_at(State& state, const Item& item, size_t at, bool locked) {
    typename State::Part& part = state.parts[at];
    if (locked) {
      part.lock.lock();
      part.tree.insert(item, state.pool);
      part.rows.store(part.rows.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      part.lock.unlock();
      state.fresh.fetch_add(1, std::memory_order_relaxed);
    } else {
      part.tree.insert(item, state.pool);
      part.rows.store(part.rows.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      state.fresh.store(state.fresh.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }
  State& state() { return *state_; }

  size_t rows() const { return state_->tree.size() + state_->fresh.load(std::memory_order_relaxed); }
  size_t bytes() const { return state_->tree.bytes() + state_->pool.bytes() + state_->count * sizeof(typename State::Part); }
  size_t runs() const { return (state_->tree.size() > 0) + (state_->fresh.load(std::memory_order_relaxed) > 0); }
  Figures figures() const {
    std::vector<int64_t> parts;
    for (size_t i = 0; i < state_->count; ++i) parts.push_back(state_->parts[i].rows.load());
    return {{"depth", static_cast<int64_t>(state_->tree.depth() + (state_->tree.size() > 0))},
            {"fan_out", static_cast<int64_t>(ImmutableTree<Key>::kFanOut)},
            {"leaf_items", static_cast<int64_t>(ImmutableTree<Key>::kLeafItems)},
            {"insertion_depth", static_cast<int64_t>(state_->depth)},
            {"merges", static_cast<int64_t>(merges_)},
            {"removed", static_cast<int64_t>(removed_)},
            {"immutable_rows", static_cast<int64_t>(state_->tree.size())},
            {"mutable_rows", static_cast<int64_t>(state_->fresh.load())},
            {"partitions", static_cast<int64_t>(state_->count)},
            {"partition_rows", parts}};
  }

 private:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::min();

  // All items that are kept, in order, to `out`.
  template <class Kept>
  Item* merge(Item* out, const Kept& kept) const {
    const Item *at = state_->tree.items(), *const end = at + state_->tree.size();
    for (size_t part = 0; part < state_->count; ++part) {
      state_->parts[part].tree.leaves([&](const Item* items, size_t count) {
        for (size_t i = 0; i < count; ++i) {
          const Item item = items[i];
          for (; at != end && *at < item; ++at) {
            *out = *at;
            out += kept(*at);
          }
          *out = item;
          out += kept(item);
        }
      });
    }
    for (; at != end; ++at) {
      *out = *at;
      out += kept(*at);
    }
    return out;
  }

  void clear() {
    removed_ += rows();
    state_ = std::make_unique<State>(ImmutableTree<Key>(), 0);
  }

  size_t insertion_depth_;
  double merge_ratio_;
  size_t window_rows_;
  std::unique_ptr<State> state_;
  int64_t before_ = std::numeric_limits<int64_t>::min() / 2, newest_ = 0, limit_ = kNoLimit;
  size_t live_ = 0;
  uint64_t merges_ = 0, removed_ = 0;
};

// From the parameters that users give.
template <class Key>
std::unique_ptr<ChainIndex<Key>> make_chain(const Opening& opening, int side, bool immutable) {
  const Settings& settings = opening.settings;
  const Wide width = std::clamp<Wide>(settings.time_high - settings.time_low, 0, std::numeric_limits<int64_t>::max());
  return std::make_unique<ChainIndex<Key>>(opening.number("length", 2, 2), opening.window_rows(side),
                                           static_cast<int64_t>(width), immutable);
}
template <class Key>
std::unique_ptr<PimIndex<Key>> make_pim(const Opening& opening, int side, bool partitioned) {
  const double ratio = opening.parameter("merge_ratio", 0.125);
  if (!(ratio > 0 && ratio <= 1)) throw std::invalid_argument("merge_ratio is more than 0 and at most 1");
  const size_t depth = partitioned ? opening.number("insertion_depth", 1, 2) : 0;
  return std::make_unique<PimIndex<Key>>(depth, ratio, opening.window_rows(side));
}

}  // namespace muntin
