// The partitioned temporal window index: slices of a window over time, or over arrival numbers, each an index of its own,
// in a circular array. A slice whose rows have all expired is dropped whole, by a thread in the background.
//
// Source: the partitioned temporal window index, section 3.3.2. A row's slot is floor((t - T0) / stride) modulo the slots;
// slices go by what has expired and not by the next row, so that strides without rows clear their slots too. Rows may
// come in any order of time: slices that share a slot are chained, and the array grows.
#pragma once

#include <atomic>
#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "core/window_index.hpp"

namespace muntin {

// What a range search by native mapper has added up, of arrival numbers or of the rows' values.
struct RangeTotals {
  enum Kind { kCount, kRows, kWhole, kReal };
  Kind kind;
  const Times* values = nullptr;  // by arrival number; bits of doubles with kReal
  const Times* times = nullptr;   // null: every row is seen
  int64_t after = 0;              // else rows of later times than this

  uint64_t count = 0;
  Wide sum = 0;
  int64_t least = std::numeric_limits<int64_t>::max(), most = std::numeric_limits<int64_t>::min();
  double real_sum = 0, real_least = std::numeric_limits<double>::infinity(), real_most = -std::numeric_limits<double>::infinity();

  bool sees(int64_t row) const { return times == nullptr || times->of(row) > after; }
  void add_whole(int64_t value) {
    ++count;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  void add_real(double value) {
    ++count;
    real_sum += value;
    real_least = std::min(real_least, value);
    real_most = std::max(real_most, value);
  }
  void add(int64_t row) {
    if (!sees(row)) return;
    switch (kind) {
      case kCount: ++count; break;
      case kRows: add_whole(row); break;
      case kWhole: add_whole(values->of(row)); break;
      case kReal: add_real(std::bit_cast<double>(values->of(row))); break;
    }
  }
};

// An iterator over a range, row by row.
template <class Key>
class RangeCursor {
 public:
  virtual ~RangeCursor() = default;
  virtual bool next(Key& key, int64_t& row) = 0;
};

// Iterators: with a place in the structure, or from its root on for each key.
enum class Scan { kPlace, kRoot };

// An index of any kind behind one interface: a call is for a batch, so that what it costs to make it does not count.
template <class K>
class AnyIndex {
 public:
  using Key = K;
  using Visit = std::function<bool(Key, int64_t)>;
  virtual ~AnyIndex() = default;
  virtual void insert(Run<Key>&& run, const Times& times) = 0;
  virtual void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) = 0;  // in order of arrival
  virtual void probe(const Probes& probes, const Scope& scope, Matches& matches) const = 0;
  virtual void expire_rows(int64_t before) = 0;
  virtual void expire_times(int64_t limit, const Times& times) = 0;
  virtual void purge(int64_t limit, const Times& times) = 0;
  virtual size_t plan(size_t budget) = 0;
  virtual void work(size_t piece) = 0;
  virtual void settle() = 0;
  virtual bool behind() const = 0;
  virtual size_t rows() const = 0;
  virtual size_t bytes() const = 0;
  virtual size_t runs() const = 0;
  virtual int64_t oldest(int64_t none) const = 0;
  virtual Figures figures() const = 0;
  // The greatest arrival number of each key's rows, where it is greater than what `rows` holds; where `at` is not null, of
  // those rows whose time is the key's in it.
  virtual void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times& times) const = 0;
  // Range search, both ends included: by native mapper; by any, until it returns false; by iterator.
  virtual void fold(Key low, Key high, RangeTotals& totals) const = 0;
  virtual bool visit(Key low, Key high, const Visit& f) const = 0;
  virtual std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const = 0;
};

inline Extent extent_of(const int64_t* times, size_t count, int64_t first_row) {
  Extent extent{first_row, first_row + static_cast<int64_t>(count) - 1, 0, 0};
  if (times != nullptr && count > 0) {
    const auto [least, most] = std::minmax_element(times, times + count);
    extent.first_time = *least;
    extent.last_time = *most;
  }
  return extent;
}

// The rows of a batch, whose numbers follow one another, as a sorted run.
template <class Key>
Run<Key> sorted_run(const Key* keys, size_t count, const Extent& extent) {
  Run<Key> run(count, extent);
  const auto first = static_cast<Row>(extent.first_row);
  if constexpr (Run<Key>::kRows) {
    std::vector<std::pair<Key, Row>> entries(count);
    for (size_t i = 0; i < count; ++i) entries[i] = {keys[i], first + static_cast<Row>(i)};
    std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < count; ++i) std::tie(run.words()[i], run.rows()[i]) = entries[i];
  } else {
    for (size_t i = 0; i < count; ++i) {
      run.words()[i] = static_cast<Word>(static_cast<uint64_t>(keys[i]) << 32 | static_cast<Row>(first + i));
    }
    std::sort(run.words(), run.words() + count);
  }
  run.index(0, count);
  run.seal();
  return run;
}

template <WindowIndex Index>
class HeldIndex final : public AnyIndex<typename Index::Key> {
 public:
  using Key = typename Index::Key;

  template <class... Arguments>
  explicit HeldIndex(Arguments&&... arguments) : index_(std::forward<Arguments>(arguments)...) {}

  void insert(Run<Key>&& run, const Times& times) override {
    if constexpr (requires { index_.insert(std::move(run), times); }) {
      index_.insert(std::move(run), times);
    } else {
      index_.insert(std::move(run));
    }
  }
  void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) override {
    const Extent extent = extent_of(times, count, first_row);
    if constexpr (requires { index_.put(keys, count, extent); }) {
      index_.put(keys, count, extent);
    } else if constexpr (requires { index_.insert(sorted_run(keys, count, extent)); }) {
      index_.insert(sorted_run(keys, count, extent));
    } else {
      throw std::invalid_argument("this index takes the rows of a join's steps alone");
    }
  }
  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override { index_.probe(probes, scope, matches); }
  void expire_rows(int64_t before) override { index_.expire_rows(before); }
  void expire_times(int64_t limit, const Times& times) override { index_.expire_times(limit, times); }
  void purge(int64_t limit, const Times& times) override { index_.purge(limit, times); }
  size_t plan(size_t budget) override { return index_.plan(budget); }
  void work(size_t piece) override { index_.work(piece); }
  void settle() override { index_.settle(); }
  bool behind() const override { return index_.behind(); }
  size_t rows() const override { return index_.rows(); }
  size_t bytes() const override { return index_.bytes(); }
  size_t runs() const override { return index_.runs(); }
  int64_t oldest(int64_t none) const override { return index_.oldest(none); }
  Figures figures() const override { return index_.figures(); }

  void find(const Key* keys, size_t count, int64_t* rows, const int64_t* at, const Times& times) const override {
    const auto number = numbers();
    for (size_t i = 0; i < count; ++i) {
      map(keys[i], keys[i], [&](Key, Row row) {
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
          map(low, high, [&](Key, Row) { return ++totals.count, true; });
          break;
        }
        [[fallthrough]];
      case RangeTotals::kWhole:
      case RangeTotals::kReal:
        map(low, high, [&](Key, Row row) { return totals.add(number(row)), true; });
        break;
      case RangeTotals::kRows:
        map(low, high, [&](Key, Row row) {
          const int64_t value = number(row);
          if (totals.sees(value)) totals.add_whole(value);
          return true;
        });
        break;
    }
  }
  bool visit(Key low, Key high, const typename AnyIndex<Key>::Visit& f) const override {
    const auto number = numbers();
    return map(low, high, [&](Key key, Row row) { return f(key, number(row)); });
  }
  std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const override {
    if constexpr (requires { index_.root_cursor(low, high); }) {
      if (scan == Scan::kRoot) return held(index_.root_cursor(low, high));
    }
    if (scan == Scan::kRoot) throw std::invalid_argument("this index has no iterator that starts at the root");
    if constexpr (requires { index_.cursor(low, high); }) {
      return held(index_.cursor(low, high));
    } else {
      throw std::invalid_argument("this index has no iterator: use a mapper");
    }
  }

 private:
  template <class Inner, class Numbers>
  class Cursor final : public RangeCursor<Key> {
   public:
    Cursor(Inner&& cursor, const Numbers& number) : number_(number), cursor_(std::move(cursor)) {}
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
  template <class Inner>
  std::unique_ptr<RangeCursor<Key>> held(Inner&& cursor) const {
    const auto number = numbers();
    return std::make_unique<Cursor<Inner, std::remove_const_t<decltype(number)>>>(std::move(cursor), number);
  }

  auto numbers() const {
    return [base = index_.oldest(0)](Row row) { return base + static_cast<Row>(row - static_cast<Row>(base)); };
  }
  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    if constexpr (requires { index_.map(low, high, f); }) {
      return index_.map(low, high, f);
    } else {
      throw std::invalid_argument("this index has no range search by mapper");
    }
  }

  Index index_;
};

// Frees an index on a thread in the background, and then takes 1 from `waiting`.
class Freed {
 public:
  virtual ~Freed() = default;
};
void free_later(std::unique_ptr<Freed> index, std::shared_ptr<std::atomic<int64_t>> waiting);

template <class K>
class Slices final : public AnyIndex<K> {
 public:
  using Key = K;
  using Make = std::function<std::unique_ptr<AnyIndex<Key>>()>;

  // Parameters
  //   timed: slices over time; else over arrival numbers.
  //   stride: of a slice, in the window's unit.
  //   slots: of the circular array at first.
  Slices(Make make, bool timed, int64_t stride, size_t slots)
      : make_(std::move(make)), timed_(timed), stride_(stride), slots_(std::clamp<size_t>(slots, 1, kMostSlots)) {}

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

  void put(const Key* keys, const int64_t* times, size_t count, int64_t first_row) override {
    if (count > 0) begin(extent_of(times, 1, first_row));
    for (size_t from = 0; from < count;) {
      const Wide at = number(timed_ ? times[from] : first_row + static_cast<int64_t>(from));
      size_t to = from + 1;
      while (to < count && number(timed_ ? times[to] : first_row + static_cast<int64_t>(to)) == at) ++to;
      const int64_t row = first_row + static_cast<int64_t>(from);
      const int64_t* own = times == nullptr ? nullptr : times + from;
      slice_of(at, extent_of(own, to - from, row)).index->put(keys + from, own, to - from, row);
      rows_ += to - from;
      from = to;
    }
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    Wide from = scope.least_opposite - scope.span, to = scope.most_opposite;
    if (timed_) {
      if (scope.times == nullptr) throw std::invalid_argument("slices over time are of time windows");
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
      for (const Slice* slice : slices) slice->index->find(keys, count, rows, at, times);
      searches_ += static_cast<int64_t>(slices.size() * count);
      return;
    }
    // All rows of a time lie in one slice.
    for (size_t from = 0, to; from < count; from = to) {
      for (to = from + 1; to < count && number(at[to]) == number(at[from]);) ++to;
      for_each(at[from], at[from], [&](const Slice& slice) {
        slice.index->find(keys + from, to - from, rows + from, at + from, times);
        searches_ += static_cast<int64_t>(to - from);
      });
    }
  }
  void fold(Key low, Key high, RangeTotals& totals) const override {
    const RangeTotals asked = totals;
    for (const Slice* slice : seen(totals)) {
      totals.times = whole(*slice, asked) ? nullptr : asked.times;
      slice->index->fold(low, high, totals);
    }
    totals.times = asked.times;
  }
  bool visit(Key low, Key high, const typename AnyIndex<Key>::Visit& f) const override {
    for (const Slice* slice : in_order()) {
      if (!slice->index->visit(low, high, f)) return false;
    }
    return true;
  }
  std::unique_ptr<RangeCursor<Key>> cursor(Key low, Key high, Scan scan) const override {
    return std::make_unique<Cursor>(in_order(), low, high, scan);
  }

 private:
  static constexpr size_t kMostSlots = size_t{1} << 16;

  struct Slice final : Freed {
    Wide number = 0;
    Extent extent{};
    std::unique_ptr<AnyIndex<Key>> index;
    std::unique_ptr<Slice> next;  // of the same slot
  };
  struct Piece {
    AnyIndex<Key>* index;
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
        inner_ = slices_[at_++]->index->cursor(low_, high_, scan_);
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
    if (live_ == slots_.size() && live_ < kMostSlots) grow();
    auto slice = std::make_unique<Slice>();
    slice->number = number;
    slice->extent = extent;
    slice->index = make_();
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
        free_later(std::move(gone), waiting_);
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
