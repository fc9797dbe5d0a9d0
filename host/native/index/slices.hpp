// The partitioned temporal window index: slices of a window over time, or over arrival numbers, each an index of its own,
// in a circular array. A slice whose rows have all expired is dropped whole, by a thread in the background.
//
// Source: the partitioned temporal window index, section 3.3.2. A row's slot is floor((t - T0) / stride) modulo the slots;
// slices go by what has expired and not by the next row, so that strides without rows clear their slots too. Rows may
// come in any order of time: slices that share a slot are chained, and the array grows.
#pragma once

#include <atomic>
#include <map>

#include "index/range_search.hpp"

namespace muntin {

template <class K>
class Slices final : public WindowIndex<K>, public RangeSearch<K> {
 public:
  using typename WindowIndex<K>::Key, typename WindowIndex<K>::Probes;
  using typename RangeSearch<K>::Visit;
  using Make = std::function<std::unique_ptr<WindowIndex<Key>>()>;

  // Parameters
  //   timed: slices over time; else over arrival numbers.
  //   stride: of a slice, in the window's unit.
  //   slots: of the circular array at first.
  Slices(Make make, bool timed, int64_t stride, size_t slots)
      : make_(std::move(make)), searched_(make_()->range_search() != nullptr), timed_(timed), stride_(stride),
        slots_(std::clamp<size_t>(slots, 1, kMaxSlots)) {}

  ~Slices() override {
    for (auto& slot : slots_) {
      while (slot != nullptr) slot = std::move(slot->next);  // not one within the other, as chains may be long
    }
  }

  void insert(Run<Key>&& run, const Times& times) override {
    const size_t length = run.length();
    if (length == 0) return;
    begin(run.extent);
    if (number(first(run.extent)) == number(last(run.extent))) {
      Slice& slice = slice_of(number(first(run.extent)), run.extent);
      slice.index->insert(std::move(run), times);
      rows_ += length;
      return;
    }
    // Entries by their slices, in the order of their keys.
    const int64_t base = run.extent.first_row;
    std::map<Wide, size_t> parts;
    std::vector<Extent> extents;
    std::vector<size_t> lengths;
    std::vector<uint32_t> own(length);
    Wide same = 0;
    size_t part = 0;
    for (size_t i = 0; i < length; ++i) {
      const int64_t row = base + static_cast<Row>(run.row(i) - static_cast<Row>(base));
      const int64_t time = timed_ ? times.of(row) : 0;
      const Wide at = number(timed_ ? time : row);
      const Extent alone{row, row, time, time};
      if (extents.empty() || at != same) {
        part = parts.try_emplace(at, parts.size()).first->second;
        same = at;
      }
      if (part == extents.size()) {
        extents.push_back(alone);
        lengths.push_back(0);
      }
      extents[part].join(alone);
      ++lengths[part];
      own[i] = static_cast<uint32_t>(part);
    }
    std::vector<Run<Key>> runs;
    for (size_t at = 0; at < extents.size(); ++at) runs.emplace_back(lengths[at], extents[at]);
    std::fill(lengths.begin(), lengths.end(), 0);
    for (size_t i = 0; i < length; ++i) {
      Run<Key>& to = runs[own[i]];
      const size_t place = lengths[own[i]]++;
      to.words()[place] = run.words()[i];
      if constexpr (Run<Key>::kRows) to.rows()[place] = run.rows()[i];
    }
    for (const auto& [at, which] : parts) {
      runs[which].index(0, runs[which].length());
      runs[which].seal();
      slice_of(at, extents[which]).index->insert(std::move(runs[which]), times);
    }
    rows_ += length;
  }

  RangeSearch<Key>* range_search() override { return searched_ ? this : nullptr; }

  void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) override {
    if (count > 0) begin(extent_of(times, 1, first_row));
    for (size_t from = 0; from < count;) {
      const Wide at = number(timed_ ? times[from] : first_row + static_cast<int64_t>(from));
      size_t to = from + 1;
      while (to < count && number(timed_ ? times[to] : first_row + static_cast<int64_t>(to)) == at) ++to;
      const int64_t row = first_row + static_cast<int64_t>(from);
      const int64_t* own = times == nullptr ? nullptr : times + from;
      slice_of(at, extent_of(own, to - from, row)).search->put(keys + from, own, to - from, row);
      rows_ += to - from;
      from = to;
    }
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    Wide from = scope.min_other_position - scope.span, to = scope.max_other_position;
    if (timed_) {
      if (scope.times == nullptr) throw std::invalid_argument("slices over time need a time window");
      from = scope.low + scope.first_time;
      to = scope.high + scope.last_time;
    }
    for_each(from, to, [&](const Slice& slice) { slice.index->probe(probes, scope, matches); });
  }

  void expire_rows(int64_t before) override {
    drop(static_cast<Wide>(before) - 1, [before](const Slice& slice) { return slice.extent.last_row < before; });
  }
  void expire_times(int64_t limit, const Times&) override {
    drop(limit, [limit](const Slice& slice) { return slice.extent.last_time <= limit; });
  }
  void purge(int64_t limit, const Times& times) override {
    expire_times(limit, times);
    for_each(limit, limit, [&](const Slice& same) {
      auto& slice = const_cast<Slice&>(same);
      if (slice.extent.first_time > limit) return;
      rows_ -= slice.index->rows();
      slice.index->purge(limit, times);
      rows_ += slice.index->rows();
      slice.extent.first_row = slice.index->oldest(slice.extent.first_row);
      slice.extent.first_time = limit < std::numeric_limits<int64_t>::max() ? limit + 1 : limit;
    });
    drop(limit, [](const Slice& slice) { return slice.index->rows() == 0; });
  }

  size_t plan(size_t budget) override {
    pieces_.clear();
    for_all([&](const Slice& slice) {
      const size_t count = slice.index->plan(budget);
      for (size_t piece = 0; piece < count; ++piece) pieces_.push_back({slice.index.get(), piece});
    });
    return pieces_.size();
  }
  void work(size_t at) override { pieces_[at].index->work(pieces_[at].piece); }
  void settle() override {
    for_all([](const Slice& slice) { slice.index->settle(); });
  }
  bool behind() const override {
    bool behind = false;
    for_all([&](const Slice& slice) { behind |= slice.index->behind(); });
    return behind;
  }

  size_t rows() const override { return rows_; }
  size_t bytes() const override {
    size_t bytes = slots_.capacity() * sizeof(slots_[0]);
    for_all([&](const Slice& slice) { bytes += sizeof(Slice) + slice.index->bytes(); });
    return bytes;
  }
  size_t runs() const override {
    size_t runs = 0;
    for_all([&](const Slice& slice) { runs += slice.index->runs(); });
    return runs;
  }
  int64_t oldest(int64_t none) const override {
    int64_t oldest = std::numeric_limits<int64_t>::max();
    for_all([&](const Slice& slice) { oldest = std::min(oldest, slice.extent.first_row); });
    return live_ == 0 ? none : oldest;
  }
  Figures figures() const override {
    Figures figures{{"slices", static_cast<int64_t>(live_)},
                    {"slices_dropped", dropped_},
                    {"slices_waiting", waiting_->load()},
                    {"searches", searches_},
                    {"slots", static_cast<int64_t>(slots_.size())}};
    int64_t chained = 0;
    std::map<Wide, const Slice*> in_order;
    for_all([&](const Slice& slice) {
      chained += slice.next != nullptr;
      in_order[slice.number] = &slice;
    });
    figures["slices_chained"] = chained;
    std::vector<int64_t> rows;
    Wide span = 0;
    if (!in_order.empty()) {
      span = in_order.rbegin()->first - in_order.begin()->first + 1;
      for (const auto& [at, slice] : in_order) rows.push_back(static_cast<int64_t>(slice->index->rows()));
      for (const auto& [name, value] : in_order.rbegin()->second->index->figures()) figures["newest." + name] = value;
    }
    figures["gaps"] = static_cast<int64_t>(std::min<Wide>(span - static_cast<Wide>(live_), std::numeric_limits<int64_t>::max()));
    figures["rows_of_slices"] = rows;
    return figures;
  }

  void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times& times) const override {
    if (at == nullptr || !timed_) {
      const auto slices = in_order();
      for (const Slice* slice : slices) slice->search->find(keys, count, rows, at, times);
      searches_ += static_cast<int64_t>(slices.size() * count);
      return;
    }
    // All rows of a time lie in one slice.
    for (size_t from = 0, to; from < count; from = to) {
      for (to = from + 1; to < count && number(at[to]) == number(at[from]);) ++to;
      for_each(at[from], at[from], [&](const Slice& slice) {
        slice.search->find(keys + from, to - from, rows + from, at + from, times);
        searches_ += static_cast<int64_t>(to - from);
      });
    }
  }
  void fold(Key low, Key high, RangeTotals& totals) const override {
    const RangeTotals asked = totals;
    for (const Slice* slice : seen(totals)) {
      totals.times = whole(*slice, asked) ? nullptr : asked.times;
      slice->search->fold(low, high, totals);
    }
    totals.times = asked.times;
  }
  bool visit(Key low, Key high, const Visit& f) const override {
    for (const Slice* slice : in_order()) {
      if (!slice->search->visit(low, high, f)) return false;
    }
    return true;
  }
  std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const override {
    return std::make_unique<Cursor>(in_order(), low, high, scan);
  }

 private:
  static constexpr size_t kMaxSlots = size_t{1} << 16;

  struct Slice {
    Wide number = 0;
    Extent extent{};
    std::unique_ptr<WindowIndex<Key>> index;
    RangeSearch<Key>* search = nullptr;  // of the index, where it has one
    std::unique_ptr<Slice> next;  // of the same slot
  };
  struct Piece {
    WindowIndex<Key>* index;
    size_t piece;
  };

  // One slice after the other.
  class Cursor final : public RangeCursor<Key> {
   public:
    Cursor(std::vector<const Slice*> slices, Key low, Key high, Scan scan)
        : slices_(std::move(slices)), low_(low), high_(high), scan_(scan) {}
    bool next(Key& key, int64_t& row) override {
      while (true) {
        if (inner_ != nullptr && inner_->next(key, row)) return true;
        if (at_ == slices_.size()) return false;
        inner_ = slices_[at_++]->search->cursor(low_, high_, scan_);
      }
    }

   private:
    const std::vector<const Slice*> slices_;
    size_t at_ = 0;
    const Key low_, high_;
    const Scan scan_;
    std::unique_ptr<RangeCursor<Key>> inner_;
  };

  int64_t first(const Extent& extent) const { return timed_ ? extent.first_time : extent.first_row; }
  int64_t last(const Extent& extent) const { return timed_ ? extent.last_time : extent.last_row; }

  // Which slice a time, or an arrival number, falls into, counted from the first row's.
  Wide number(Wide at) const {
    const Wide apart = at - origin_;
    return apart >= 0 ? apart / stride_ : -((-apart + stride_ - 1) / stride_);
  }
  size_t slot(Wide number) const {
    const auto slots = static_cast<Wide>(slots_.size());
    return static_cast<size_t>(((number % slots) + slots) % slots);
  }

  void begin(const Extent& extent) {
    if (begun_) return;
    origin_ = first(extent);
    begun_ = true;
  }

  // The slice of that number, which takes rows of this extent.
  Slice& slice_of(Wide number, const Extent& extent) {
    for (Slice* slice = slots_[slot(number)].get(); slice != nullptr; slice = slice->next.get()) {
      if (slice->number != number) continue;
      slice->extent.join(extent);
      return *slice;
    }
    if (live_ == slots_.size() && live_ < kMaxSlots) grow();
    auto slice = std::make_unique<Slice>();
    slice->number = number;
    slice->extent = extent;
    slice->index = make_();
    slice->search = slice->index->range_search();
    auto& place = slots_[slot(number)];
    slice->next = std::move(place);
    place = std::move(slice);
    least_ = live_ == 0 ? number : std::min(least_, number);
    most_ = live_ == 0 ? number : std::max(most_, number);
    ++live_;
    return *place;
  }

  void grow() {
    std::vector<std::unique_ptr<Slice>> old(slots_.size() * 2);
    old.swap(slots_);
    for (auto& from : old) {
      while (from != nullptr) {
        std::unique_ptr<Slice> slice = std::move(from);
        from = std::move(slice->next);
        auto& place = slots_[slot(slice->number)];
        slice->next = std::move(place);
        place = std::move(slice);
      }
    }
  }

  template <class Visit>
  void for_all(const Visit& f) const {
    for (const auto& head : slots_) {
      for (const Slice* slice = head.get(); slice != nullptr; slice = slice->next.get()) f(*slice);
    }
  }

  // Slices into which what lies between these may fall.
  template <class Visit>
  void for_each(Wide from, Wide to, const Visit& f) const {
    if (live_ == 0) return;
    const Wide first = std::max(number(from), least_), last = std::min(number(to), most_);
    if (last - first >= static_cast<Wide>(slots_.size())) {
      for_all([&](const Slice& slice) {
        if (first <= slice.number && slice.number <= last) f(slice);
      });
      return;
    }
    for (Wide at = first; at <= last; ++at) {
      for (const Slice* slice = slots_[slot(at)].get(); slice != nullptr; slice = slice->next.get()) {
        if (slice->number == at) f(*slice);
      }
    }
  }

  std::vector<const Slice*> in_order() const {
    std::vector<const Slice*> slices;
    for_all([&](const Slice& slice) { slices.push_back(&slice); });
    std::sort(slices.begin(), slices.end(), [](const Slice* a, const Slice* b) { return a->number < b->number; });
    return slices;
  }
  // Slices with rows that a fold sees, and whether it sees all of them.
  std::vector<const Slice*> seen(const RangeTotals& totals) const {
    auto slices = in_order();
    if (totals.times != nullptr && timed_) {
      std::erase_if(slices, [&](const Slice* slice) { return slice->extent.last_time <= totals.after; });
    }
    return slices;
  }
  bool whole(const Slice& slice, const RangeTotals& totals) const { return totals.times == nullptr || slice.extent.first_time > totals.after; }

  // Takes out the slices up to one that pass a test; others free them.
  template <class Test>
  void drop(Wide to, const Test& test) {
    if (live_ == 0 || number(to) < least_) return;
    const size_t before = live_;
    const Wide last = std::min(number(to), most_);
    const auto take = [&](std::unique_ptr<Slice>& head) {
      for (auto* place = &head; *place != nullptr;) {
        if ((*place)->number > last || !test(**place)) {
          place = &(*place)->next;
          continue;
        }
        std::unique_ptr<Slice> gone = std::move(*place);
        *place = std::move(gone->next);
        rows_ -= gone->index->rows();
        --live_;
        ++dropped_;
        // A stream that drops faster than a thread frees does not run out of memory.
        if (waiting_->load() > static_cast<int64_t>(live_ + 2)) continue;
        waiting_->fetch_add(1);
        run_in_background([gone = std::shared_ptr<Slice>(std::move(gone)), waiting = waiting_]() mutable {
          gone.reset();
          waiting->fetch_sub(1);
        });
      }
    };
    if (last - least_ >= static_cast<Wide>(slots_.size())) {
      for (auto& head : slots_) take(head);
    } else {
      for (Wide at = least_; at <= last; ++at) take(slots_[slot(at)]);
    }
    if (live_ == before || live_ == 0) return;
    least_ = most_;
    for_all([&](const Slice& slice) { least_ = std::min(least_, slice.number); });
  }

  const Make make_;
  const bool searched_;  // slices have range search
  const bool timed_;
  const int64_t stride_;
  std::vector<std::unique_ptr<Slice>> slots_;
  bool begun_ = false;
  int64_t origin_ = 0;  // the paper's T0
  Wide least_ = 0, most_ = 0;  // numbers of the slices there are
  size_t live_ = 0, rows_ = 0;
  int64_t dropped_ = 0;
  mutable int64_t searches_ = 0;  // of keys in slices; one thread at a time looks for keys
  std::vector<Piece> pieces_;
  std::shared_ptr<std::atomic<int64_t>> waiting_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace muntin
