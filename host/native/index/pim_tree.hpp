// PIM-Tree and IM-Tree: an immutable tree, and B+-Trees for new rows that are merged into it.
//
// Source: PIM-Tree, sections 3.2, 3.3 and 4.2.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "index/row_index.hpp"

namespace muntin {

// For tests: where merges in the background wait.
struct MergeGate {
  enum Point { kNone, kBegin, kEnd };
  void hold(int point) {
    const std::lock_guard lock(mutex);
    held = point;
    moved.notify_all();
  }
  void pass(int point) {
    std::unique_lock lock(mutex);
    moved.wait(lock, [&] { return held != point; });
  }
  std::mutex mutex;
  std::condition_variable moved;
  int held = kNone;
};

// An immutable tree, and for each of its nodes at the insertion depth a B+-Tree with a lock: new rows go to that of
// their key. Once those have `merge_ratio` of a window's rows, all are merged into a new immutable tree, and rows that
// have expired leave. With an insertion depth of 0 there is one B+-Tree: the IM-Tree.
//
// A merge in the background reads trees that change no more: from its begin on, rows go to second B+-Trees, of the same
// nodes, and probes look into both. At its end these rows go to the B+-Trees of the new immutable tree.
template <class K>
class PimIndex final : public RowIndex<PimIndex<K>, K> {
  using Base = RowIndex<PimIndex<K>, K>;
  using Base::oldest_;

 public:
  static constexpr bool kOwnLocks = true, kMerges = true;
  static constexpr size_t kMinMerged = 64;  // rows; to merge fewer costs more than it saves
  static constexpr size_t kMinBehind = size_t{1} << 15;  // rows whose merge takes longer than to hand it on
  using typename Base::Item;
  using typename Base::Key;

  PimIndex(size_t insertion_depth, double merge_ratio, size_t window_rows)
      : insertion_depth_(insertion_depth), merge_ratio_(merge_ratio), window_rows_(window_rows),
        state_(std::make_shared<State>(ImmutableTree<Key>(), 0)) {}

  // What a merge makes, and swaps in once it is whole.
  struct State {
    struct alignas(64) Part {
      SpinLock lock;
      std::atomic<uint32_t> rows{0};  // of both
      BPlusTree<Key> tree, young;     // `young`: since a merge has begun
    };
    State(ImmutableTree<Key>&& whole, size_t insertion_depth) : tree(std::move(whole)) {
      depth = tree.depth() == 0 ? 0 : std::min(insertion_depth, tree.depth() - 1);
      count = tree.depth() == 0 ? 1 : tree.nodes(depth);
      parts = std::make_unique<Part[]>(count);
    }
    ImmutableTree<Key> tree;
    size_t depth = 0, count = 1;  // of the parts
    std::unique_ptr<Part[]> parts;
    NodePool pool, young_pool;
    std::atomic<size_t> fresh{0}, young{0};  // rows of the parts
    bool frozen = false;                     // a merge reads the first tree of each part
    int64_t oldest = 0;
  };

  void insert(Run<Key>&& run, const Times&) override {
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

  bool full() const { return !merging() && state_->fresh.load(std::memory_order_relaxed) >= threshold(); }
  size_t threshold() const {
    const size_t window = window_rows_ > 0 ? window_rows_ : state_->tree.size();
    return std::max(kMinMerged, static_cast<size_t>(merge_ratio_ * static_cast<double>(window)));
  }

  // Merges of at least so many rows are to run in the background, and pass this gate.
  void merge_behind(size_t rows, std::shared_ptr<MergeGate> gate) {
    behind_rows_ = rows;
    gate_ = std::move(gate);
  }
  bool merges_behind() const { return gate_ != nullptr && rows() >= behind_rows_; }
  bool merging() const { return merge_ != nullptr; }
  bool merged() const { return merging() && merge_->done.load(std::memory_order_acquire); }
  // Whether so many rows have come since a merge began that they are to wait for its end.
  bool overfull() const {
    const size_t young = state_->young.load(std::memory_order_relaxed);
    return merging() && young >= threshold() && young >= state_->tree.size() + state_->fresh.load(std::memory_order_relaxed);
  }

  // Begins a merge in the background. `next`: at or before the numbers of the rows to come. No thread uses the index.
  void begin_merge(Keep keep, int64_t next) {
    auto merge = std::make_shared<Merge>();
    if (keep.times != nullptr && next > keep.base) {  // of its own, as those of the window grow
      std::vector<int64_t> times(static_cast<size_t>(next - keep.base));
      for (size_t i = 0; i < times.size(); ++i) times[i] = keep.times->of(keep.base + static_cast<int64_t>(i));
      merge->times.put(nullptr, keep.base, times.data(), times.size());
      keep.times = &merge->times;
    }
    state_->frozen = true;
    young_from_ = next;
    merge_ = merge;
    // It holds what it reads: who gives this index up need not wait for it.
    run_in_background([merge, keep, from = state_, depth = insertion_depth_, gate = gate_] {
      gate->pass(MergeGate::kBegin);
      try {
        merge->built = build(*from, depth, keep);
      } catch (...) {
        merge->error = std::current_exception();
      }
      gate->pass(MergeGate::kEnd);
      const std::lock_guard lock(merge->mutex);
      merge->done.store(true, std::memory_order_release);
      merge->ended.notify_all();
    });
  }
  // Waits for its end, at most so long.
  template <class Time>
  void wait(const Time& most) const {
    std::unique_lock lock(merge_->mutex);
    merge_->ended.wait_for(lock, most, [this] { return merge_->done.load(std::memory_order_relaxed); });
  }
  // Takes up what a merge that is done has made; returns how many rows have come since it began. No thread uses the index.
  size_t end_merge() {
    const std::shared_ptr<Merge> merge = std::exchange(merge_, nullptr);
    if (merge->error) {
      merge_ = merge;
      std::rethrow_exception(merge->error);
    }
    const std::shared_ptr<State> old = state_;
    swap(std::move(merge->built));
    const size_t young = old->young.load(std::memory_order_relaxed);
    for (size_t part = 0; young > 0 && part < old->count; ++part) {
      old->parts[part].young.leaves([&](const Item* items, size_t count) {
        for (size_t i = 0; i < count; ++i) add(items[i], false);
      });
    }
    if (young > 0) oldest_ = state_->tree.size() > 0 ? std::min(state_->oldest, young_from_) : young_from_;
    live_ = rows();
    run_in_background([old] {});  // which frees it
    return young;
  }
  // Ends a merge, and waits for it where it is under way.
  void settle_merge() {
    while (merging() && !merged()) wait(std::chrono::seconds(1));
    if (merging()) end_merge();
  }

  // The first phase of a merge: a new tree, the old one left as it is for those that search it.
  std::shared_ptr<State> build(const Keep& keep) const { return build(*state_, insertion_depth_, keep); }
  static std::shared_ptr<State> build(const State& old, size_t insertion_depth, const Keep& keep) {
    const size_t most = old.tree.size() + old.fresh.load(std::memory_order_relaxed);
    Block block((most + ImmutableTree<Key>::kLeafItems) * sizeof(Item));
    auto* const start = static_cast<Item*>(block.data());
    Item* end;
    int64_t oldest = std::max(keep.before, keep.base);
    if (keep.times == nullptr) {
      const Row base = static_cast<Row>(keep.base), from = static_cast<Row>(oldest - keep.base);
      end = merge(old, start, [base, from](const Item& item) { return static_cast<Row>(row_of(item) - base) >= from; });
    } else {
      int64_t least = std::numeric_limits<int64_t>::max();
      end = merge(old, start, [&](const Item& item) {
        const int64_t number = keep.number(row_of(item));
        const bool kept = number >= keep.before && keep.times->of(number) > keep.limit;
        if (kept) least = std::min(least, number);
        return kept;
      });
      oldest = least;
    }
    const auto count = static_cast<size_t>(end - start);
    auto state = std::make_shared<State>(ImmutableTree<Key>(std::move(block), count), insertion_depth);
    state->oldest = oldest;
    return state;
  }

  // The second phase: the new tree takes the place of the old one, when no thread searches it.
  void swap(std::shared_ptr<State> state) {
    removed_ += state_->tree.size() + state_->fresh.load() - state->tree.size();
    std::swap(state_, state);
    if (rows() > 0) oldest_ = state_->oldest;
    ++merges_;
  }

  void expire_rows(int64_t before) override {
    before_ = std::max(before_, before);
    if (rows() > 0 && newest_ < before_) clear();
  }
  void expire(int64_t) {}
  void expire_times(int64_t limit, const Times& times) override {
    limit_ = limit;
    if (merged()) end_merge();
    if (merging() || rows() == 0 || !(full() || rows() >= 2 * live_ + kMinMerged)) return;
    if (merges_behind()) {
      begin_merge({before_, oldest_, &times, limit}, newest_ + 1);
    } else {
      purge(limit, times);
    }
  }
  void purge(int64_t limit, const Times& times) override {
    limit_ = limit;
    settle_merge();
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
        bool past = !own.tree.from(make_item(low, 0), until);
        if (state.frozen) past |= !own.young.from(make_item(low, 0), until);
        if (past) break;
      }
      if (at + 1 == state.count || state.tree.greatest(state.depth, at) >= high) break;
    }
    if (held != nullptr) held->lock.unlock();
  }

  const State& state() const { return *state_; }
  void insert_at(State& state, const Item& item, size_t at, bool locked) {
    typename State::Part& part = state.parts[at];
    auto& rows = state.frozen ? state.young : state.fresh;
    BPlusTree<Key>& tree = state.frozen ? part.young : part.tree;
    NodePool& pool = state.frozen ? state.young_pool : state.pool;
    if (locked) {
      part.lock.lock();
      tree.insert(item, pool);
      part.rows.store(part.rows.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      part.lock.unlock();
      rows.fetch_add(1, std::memory_order_relaxed);
    } else {
      tree.insert(item, pool);
      part.rows.store(part.rows.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      rows.store(rows.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
  }
  State& state() { return *state_; }

  size_t rows() const override { return state_->tree.size() + mutable_rows(); }
  size_t bytes() const override {
    return state_->tree.bytes() + state_->pool.bytes() + state_->young_pool.bytes() + state_->count * sizeof(typename State::Part);
  }
  size_t runs() const override { return (state_->tree.size() > 0) + (mutable_rows() > 0); }
  Figures figures() const override {
    std::vector<int64_t> parts;
    for (size_t i = 0; i < state_->count; ++i) parts.push_back(state_->parts[i].rows.load());
    return {{"depth", static_cast<int64_t>(state_->tree.depth() + (state_->tree.size() > 0))},
            {"fan_out", static_cast<int64_t>(ImmutableTree<Key>::kFanOut)},
            {"leaf_items", static_cast<int64_t>(ImmutableTree<Key>::kLeafItems)},
            {"insertion_depth", static_cast<int64_t>(state_->depth)},
            {"merges", static_cast<int64_t>(merges_)},
            {"removed", static_cast<int64_t>(removed_)},
            {"immutable_rows", static_cast<int64_t>(state_->tree.size())},
            {"mutable_rows", static_cast<int64_t>(mutable_rows())},
            {"merging", static_cast<int64_t>(merging())},
            {"partitions", static_cast<int64_t>(state_->count)},
            {"partition_rows", parts}};
  }

 private:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::min();

  // One in the background.
  struct Merge {
    Times times;
    std::shared_ptr<State> built;
    std::exception_ptr error;
    std::mutex mutex;
    std::condition_variable ended;
    std::atomic<bool> done{false};
  };

  size_t mutable_rows() const {
    return state_->fresh.load(std::memory_order_relaxed) + state_->young.load(std::memory_order_relaxed);
  }

  // All items that are kept, in order, to `out`.
  template <class Kept>
  static Item* merge(const State& old, Item* out, const Kept& kept) {
    const Item *at = old.tree.items(), *const end = at + old.tree.size();
    for (size_t part = 0; part < old.count; ++part) {
      old.parts[part].tree.leaves([&](const Item* items, size_t count) {
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
    merge_ = nullptr;  // what it makes is not needed
    state_ = std::make_shared<State>(ImmutableTree<Key>(), 0);
  }

  size_t insertion_depth_;
  double merge_ratio_;
  size_t window_rows_;
  std::shared_ptr<State> state_;
  std::shared_ptr<Merge> merge_;  // under way in the background, or done there
  std::shared_ptr<MergeGate> gate_;    // null: all merges run here
  size_t behind_rows_ = kMinBehind;
  int64_t young_from_ = 0;
  int64_t before_ = std::numeric_limits<int64_t>::min() / 2, newest_ = 0, limit_ = kNoLimit;
  size_t live_ = 0;
  uint64_t merges_ = 0, removed_ = 0;
};

}  // namespace muntin
