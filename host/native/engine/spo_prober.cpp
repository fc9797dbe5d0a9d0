#include "engine/spo_prober.hpp"

namespace muntin::spo {
namespace {

// Identifiers that a condition has found, for the intersection by hashing: open addressing, emptied for each probe.
class IdSet {
 public:
  void clear(size_t most) {
    size_t size = 64;
    while (size < 2 * most) size *= 2;
    slots_.assign(size, kNone);
    mask_ = size - 1;
  }
  void add(uint32_t id) {
    size_t at = place(id);
    while (slots_[at] != kNone) at = (at + 1) & mask_;
    slots_[at] = id;
  }
  bool has(uint32_t id) const {
    for (size_t at = place(id); slots_[at] != kNone; at = (at + 1) & mask_) {
      if (slots_[at] == id) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  size_t place(uint32_t id) const { return (id * 0x9E3779B1u) & mask_; }
  CallVector<uint32_t> slots_;
  size_t mask_ = 0;
};

// Which stored rows the probes of a chunk may meet, by arrival and time: all of an extent, none, or some.
enum class Visibility { kNone, kSome, kAll };

void push(Buffer<int64_t>& rows, int64_t row) {
  const size_t at = rows.size();
  rows.resize(at + 1);
  rows[at] = row;
}

// The first place from `from` on that `before` does not hold for, in `length` of them that it holds for up to a place.
template <class Before>
size_t advance(const int64_t* keys, size_t length, size_t from, const Before& before) {
  size_t low = 0, high = length;
  if (from == 0 || before(keys[from - 1])) {
    low = from;
    for (size_t stride = 1; low < length && before(keys[low]); stride *= 2) {
      high = std::min(low + stride, length);
      if (high == length || !before(keys[high])) {
        ++low;
        break;
      }
      low = high;
    }
    if (low == from && low < length && !before(keys[low])) return low;
  } else {
    high = from;
  }
  return std::partition_point(keys + low, keys + high, before) - keys;
}

void set(uint64_t* bits, uint32_t bit) { bits[bit / 64] |= uint64_t{1} << (bit % 64); }
void reset(uint64_t* bits, uint32_t bit) { bits[bit / 64] &= ~(uint64_t{1} << (bit % 64)); }

// Calls `see` with the bits that are set from `from` on and before `to`.
template <class See>
void each_bit(const uint64_t* bits, size_t from, size_t to, const See& see) {
  for (size_t word = from / 64; word * 64 < to; ++word) {
    uint64_t left = bits[word];
    if (word == from / 64) left &= ~uint64_t{0} << (from % 64);
    if (to - word * 64 < 64) left &= (uint64_t{1} << (to - word * 64)) - 1;
    for (; left != 0; left &= left - 1) see(word * 64 + std::countr_zero(left));
  }
}

}  // namespace

// The memory of one thread, kept between tasks. Bits are all 0 between probes of a run.
struct Prober::Scratch {
  CallVector<uint64_t> bits, unsure;
  std::vector<CallVector<uint64_t>> columns;  // a bit array for each condition
  CallVector<uint32_t> ends;                  // of the ranges of each probe: by condition, interval, probe
  CallVector<uint32_t> found, next;
  IdSet ids;

  size_t bytes() const {
    size_t words = bits.capacity() + unsure.capacity();
    for (const auto& column : columns) words += column.capacity();
    return words * sizeof(uint64_t);
  }
};

Prober::Scratch& Prober::scratch() {
  thread_local Scratch held;
  return held;
}

struct Prober::View {
  const Chunk& chunk;
  const Input& in;
  int64_t span;
  Wide low, high;  // of stored less probing time
  const Times& times;

  View(const Prober& prober, const Chunk& chunk, const Input& in)
      : chunk(chunk), in(in), span(prober.window_.span(1 - chunk.side)), low(prober.window_.first_apart(chunk.side)),
        high(prober.window_.last_apart(chunk.side)), times(prober.times_[prober.window_.stored(1 - chunk.side)]) {}

  Visibility of(const Extent& extent) const {
    if (extent.last_row < chunk.min_other_position - span || extent.first_row >= chunk.max_other_position) return Visibility::kNone;
    bool all = extent.first_row >= chunk.max_other_position - span && extent.last_row < chunk.min_other_position;
    if (in.times) {
      if (extent.last_time < low + chunk.first_time || extent.first_time > high + chunk.last_time) return Visibility::kNone;
      all &= extent.first_time >= low + chunk.last_time && extent.last_time <= high + chunk.first_time;
    }
    return all ? Visibility::kAll : Visibility::kSome;
  }
  Visibility of_row(int64_t row) const {
    const int64_t time = in.times ? times.of(row) : 0;
    return of({row, row, time, time});
  }
  bool sees(size_t probe, int64_t row) const {
    const int64_t other_position = in.other_position_of(chunk.first + probe);
    return row < other_position && row >= other_position - span && on_time(probe, row);
  }
  bool on_time(size_t probe, int64_t row) const {
    if (!in.times) return true;
    const Wide apart = static_cast<Wide>(times.of(row)) - in.times[chunk.first + probe];
    return apart >= low && apart <= high;
  }
};

// Takes what one probe has found in one run.
struct Prober::Sink {
  Output& output;
  int64_t* counts;
  size_t first;

  void count(size_t probe, size_t pairs) {
    if (pairs == 0) return;
    output.pairs += pairs;
    std::atomic_ref<int64_t>(counts[first + probe]).fetch_add(static_cast<int64_t>(pairs), std::memory_order_relaxed);
  }
  // The rows from `start` on.
  void keep(size_t probe, size_t start) {
    const size_t pairs = output.rows.size() - start;
    if (pairs == 0) return;
    output.pairs += pairs;
    if (output.pairs - output.taken >= kCheckpoint) output.settle();
    output.parts.push_back({static_cast<uint32_t>(first + probe), static_cast<uint32_t>(pairs)});
  }
};

// For each probe of a chunk the range of places in a run that satisfy a condition, by interval.
void Prober::ranges(const ImmutableRun& run, const Chunk& chunk, size_t k, uint32_t* out) const {
  const Chunk::Condition& condition = chunk.conditions[k];
  const int64_t* keys = run.keys[k];
  for (const Chunk::Ends& ends : condition.intervals) {
    size_t first = 0, last = 0;
    for (size_t j = 0; j < chunk.count; ++j) {
      const int64_t lower = ends.lower[j], upper = ends.upper[j];
      uint32_t* range = out + 2 * condition.order[j];
      if (lower > upper) {
        range[0] = range[1] = 0;
      } else if (!run.directories.empty()) {
        range[0] = run.directories[k].search<false>(keys, run.length, lower);
        range[1] = run.directories[k].search<true>(keys, run.length, upper);
      } else {
        first = advance(keys, run.length, first, [lower](int64_t key) { return key < lower; });
        last = advance(keys, run.length, std::max(first, last), [upper](int64_t key) { return key <= upper; });
        range[0] = first;
        range[1] = last;
      }
    }
    out += 2 * chunk.count;
  }
}

// Ranges of all conditions in the thread's memory; gives where those of each begin.
std::vector<const uint32_t*> Prober::all_ranges(const ImmutableRun& run, const Chunk& chunk, Output& output) const {
  auto& ends = scratch().ends;
  size_t intervals = 0;
  for (const auto& condition : chunk.conditions) intervals += condition.intervals.size();
  ends.resize(intervals * 2 * chunk.count);
  std::vector<const uint32_t*> of;
  uint32_t* at = ends.data();
  for (size_t k = 0; k < conditions_; ++k) {
    ranges(run, chunk, k, at);
    of.push_back(at);
    uint64_t width = 0;
    for (size_t i = 0; i < chunk.conditions[k].intervals.size() * chunk.count; ++i) width += at[2 * i + 1] - at[2 * i];
    output.widths[k] += static_cast<double>(width) / static_cast<double>(run.length);
    at += chunk.conditions[k].intervals.size() * 2 * chunk.count;
  }
  output.probes += static_cast<double>(chunk.count);
  return of;
}

void Prober::probe(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output) {
  const bool css = immutable_ == Immutable::kCssBits || immutable_ == Immutable::kCssHash;
  css ? probe_css(run, chunk, in, counts, output) : probe_permutations(run, chunk, in, counts, output);
}

// PO-Join. The bits of rows that satisfy the second condition are set by way of its permutation array; those in the
// range of the first one are scanned; further conditions are asked of each row found, by its ranks.
void Prober::probe_permutations(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output) {
  const bool counting = counts != nullptr;
  const View view(*this, chunk, in);
  const Visibility visibility = view.of(run.extent);
  if (visibility == Visibility::kNone) return;
  const bool checked = visibility == Visibility::kSome;
  const std::vector<const uint32_t*> of = all_ranges(run, chunk, output);
  const size_t scan = run.order[0], scans = chunk.conditions[scan].intervals.size();
  Sink sink{output, counts, chunk.first};
  const auto range = [&](size_t k, size_t interval, size_t probe) { return of[k] + 2 * (interval * chunk.count + probe); };
  const auto satisfies = [&](size_t k, size_t probe, size_t bit) {
    const uint32_t rank = run.rank[k][bit];
    for (size_t i = 0; i < chunk.conditions[k].intervals.size(); ++i) {
      const uint32_t* ends = range(k, i, probe);
      if (rank - ends[0] < ends[1] - ends[0]) return true;
    }
    return false;
  };
  uint64_t candidates = 0;
  for (size_t i = 0; i < scans * chunk.count; ++i) candidates += of[scan][2 * i + 1] - of[scan][2 * i];
  if (candidates == 0) return;
  if (conditions_ == 1) {
    for (size_t probe = 0; probe < chunk.count; ++probe) {
      const size_t start = output.rows.size();
      size_t count = 0;
      for (size_t i = 0; i < scans; ++i) {
        const uint32_t* ends = range(scan, i, probe);
        if (counting && !checked) {
          count += ends[1] - ends[0];
          continue;
        }
        for (size_t bit = ends[0]; bit < ends[1]; ++bit) {
          if (checked && !view.sees(probe, run.row(bit))) continue;
          counting ? void(++count) : push(output.rows, run.row(bit));
        }
      }
      counting ? sink.count(probe, count) : sink.keep(probe, start);
    }
    return;
  }
  const size_t fill = run.order[1], fills = chunk.conditions[fill].intervals.size();
  const auto& by_fill = chunk.conditions[fill].order;
  // From one probe to the next the bits change by which its ranges differ.
  uint64_t flips = 0;
  for (size_t i = 0; i < fills; ++i) {
    uint32_t from = 0, to = 0;
    for (const uint32_t probe : by_fill) {
      const uint32_t* ends = range(fill, i, probe);
      if (ends[0] == ends[1]) continue;
      flips += (ends[0] > from ? ends[0] - from : from - ends[0]) + (ends[1] > to ? ends[1] - to : to - ends[1]);
      from = ends[0];
      to = ends[1];
    }
    flips += to - from;
  }
  // Nanoseconds, roughly.
  const double by_bits = 1.5 * static_cast<double>(flips) + static_cast<double>(candidates) / 64;
  const double by_ranks = (counting ? 0.1 : 0.3) * static_cast<double>(candidates) + 5.0 * static_cast<double>(chunk.count);
  const bool ranked = immutable_ == Immutable::kPoJoin && by_ranks < by_bits;
  (ranked ? output.by_ranks : output.by_bits) += chunk.count;
  Scratch& own = scratch();
  if (ranked) {
    for (size_t probe = 0; probe < chunk.count; ++probe) {
      const size_t start = output.rows.size();
      size_t count = 0;
      for (size_t i = 0; i < scans; ++i) {
        const uint32_t* ends = range(scan, i, probe);
        if (ends[0] == ends[1]) continue;
        for (size_t j = 0; j < fills; ++j) {
          const uint32_t* other = range(fill, j, probe);
          const uint32_t *ranks = run.rank[fill] + ends[0], width = ends[1] - ends[0];
          if (counting && !checked && conditions_ == 2) {
            count += kernels_.count_between(ranks, width, other[0], other[1] - other[0]);
            continue;
          }
          own.found.resize(std::max<size_t>(own.found.size(), width + 16));
          const size_t some = kernels_.find_between(ranks, width, other[0], other[1] - other[0], ends[0], own.found.data());
          for (size_t at = 0; at < some; ++at) {
            const uint32_t bit = own.found[at];
            bool kept = !checked || view.sees(probe, run.row(bit));
            for (size_t k = 2; kept && k < conditions_; ++k) kept = satisfies(run.order[k], probe, bit);
            if (!kept) continue;
            counting ? void(++count) : push(output.rows, run.row(bit));
          }
        }
      }
      counting ? sink.count(probe, count) : sink.keep(probe, start);
    }
    return;
  }
  const size_t words = (run.length + 63) / 64;
  if (own.bits.size() < words) own.bits.resize(words);
  if (own.unsure.size() < words) own.unsure.resize(words);
  note_bits(own);
  uint64_t *bits = own.bits.data(), *unsure = own.unsure.data();
  const uint32_t* permutation = run.permutation[fill];
  const auto put = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      const uint32_t bit = permutation[i];
      if (!checked) {
        set(bits, bit);
      } else if (const Visibility seen = view.of_row(run.row(bit)); seen != Visibility::kNone) {
        set(seen == Visibility::kAll ? bits : unsure, bit);
      }
    }
  };
  const auto clear = [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      reset(bits, permutation[i]);
      if (checked) reset(unsure, permutation[i]);
    }
  };
  std::vector<std::pair<uint32_t, uint32_t>> now(fills, {0, 0});
  const auto clear_all = [&](const void*) {
    for (const auto& [from, to] : now) clear(from, to);
  };
  const std::unique_ptr<const void, decltype(clear_all)> at_the_end(&now, clear_all);  // where a probe throws, too
  size_t worked = 0;
  for (const uint32_t probe : by_fill) {
    bool any = false;
    for (size_t i = 0; i < scans; ++i) any |= range(scan, i, probe)[0] < range(scan, i, probe)[1];
    if (!any) continue;
    any = false;
    for (size_t i = 0; i < fills; ++i) any |= range(fill, i, probe)[0] < range(fill, i, probe)[1];
    if (!any) continue;
    // What leaves goes before anything comes: it may come in by another interval.
    for (size_t i = 0; i < fills; ++i) {
      const uint32_t *ends = range(fill, i, probe), from = now[i].first, to = now[i].second;
      if (ends[0] == ends[1]) {
        clear(from, to);
        continue;
      }
      clear(from, std::min(to, ends[0]));
      clear(std::max(from, ends[1]), to);
    }
    for (size_t i = 0; i < fills; ++i) {
      const uint32_t *ends = range(fill, i, probe), from = now[i].first, to = now[i].second;
      if (ends[0] == ends[1]) {
        now[i] = {to, to};
        continue;
      }
      if (from == to) {
        put(ends[0], ends[1]);
      } else {
        put(ends[0], std::min(ends[1], from));
        put(std::max(ends[0], to), ends[1]);
      }
      now[i] = {ends[0], ends[1]};
    }
    const size_t start = output.rows.size();
    size_t count = 0;
    for (size_t i = 0; i < scans; ++i) {
      const uint32_t* ends = range(scan, i, probe);
      if ((worked += ends[1] - ends[0]) > 64 * kCheckpoint) {
        worked = 0;
        checkpoint();
      }
      const auto take = [&](size_t bit) {
        for (size_t k = 2; k < conditions_; ++k) {
          if (!satisfies(run.order[k], probe, bit)) return;
        }
        counting ? void(++count) : push(output.rows, run.row(bit));
      };
      if (counting && conditions_ == 2) {
        count += kernels_.count_bits(bits, ends[0], ends[1]);
      } else {
        each_bit(bits, ends[0], ends[1], take);
      }
      if (!checked) continue;
      each_bit(unsure, ends[0], ends[1], [&](size_t bit) {
        if (view.sees(probe, run.row(bit))) take(bit);
      });
    }
    counting ? sink.count(probe, count) : sink.keep(probe, start);
  }
}

// Intersects what each condition finds for one probe, `visit(k, see)`, by a bit array for each or by hashing; calls
// `see` with the identifiers in `[first, last)` that all of them found.
template <class Visit, class See>
void Prober::intersect(size_t length, size_t first, size_t last, bool hash, const Visit& visit, const See& see) {
  Scratch& own = scratch();
  if (hash) {
    own.found.clear();
    visit(0, [&](uint32_t id) { own.found.push_back(id); });
    for (size_t k = 1; k < conditions_ && !own.found.empty(); ++k) {
      own.ids.clear(own.found.size());
      for (const uint32_t id : own.found) own.ids.add(id);
      own.next.clear();
      visit(k, [&](uint32_t id) {
        if (own.ids.has(id)) own.next.push_back(id);
      });
      std::swap(own.found, own.next);
    }
    for (const uint32_t id : own.found) {
      if (id >= first && id < last) see(id);
    }
    return;
  }
  const size_t words = (length + 63) / 64;
  if (own.columns.size() < conditions_) own.columns.resize(conditions_);
  for (size_t k = 0; k < conditions_; ++k) {
    own.columns[k].assign(words, 0);
    bool any = false;
    visit(k, [&, bits = own.columns[k].data()](uint32_t id) {
      set(bits, id);
      any = true;
    });
    if (!any) return;
  }
  note_bits(own);
  for (size_t word = first / 64; word * 64 < last; ++word) {
    for (size_t k = 1; k < conditions_; ++k) own.columns[0][word] &= own.columns[k][word];
  }
  each_bit(own.columns[0].data(), first, last, see);
}

// The mutable part (section 3.2): its identifiers ascend with arrival, so arrival limits are a range of them.
void Prober::probe(const MutablePart& part, const Chunk& chunk, const Input& in, int64_t* counts, Output& output) {
  const bool counting = counts != nullptr;
  const View view(*this, chunk, in);
  if (view.of(part.extent) == Visibility::kNone) return;
  Sink sink{output, counts, chunk.first};
  std::vector<CallVector<uint32_t>> place(conditions_, CallVector<uint32_t>(chunk.count));  // in order of keys
  for (size_t k = 0; k < conditions_; ++k) {
    for (size_t j = 0; j < chunk.count; ++j) place[k][chunk.conditions[k].order[j]] = j;
  }
  for (size_t probe = 0; probe < chunk.count; ++probe) {
    const int64_t other_position = in.other_position_of(chunk.first + probe);
    const size_t first = std::lower_bound(part.rows.begin(), part.rows.end(), other_position - view.span) - part.rows.begin();
    const size_t last = std::lower_bound(part.rows.begin(), part.rows.end(), other_position) - part.rows.begin();
    if (first == last) continue;
    if (probe % 64 == 0) checkpoint();
    const size_t start = output.rows.size();
    size_t count = 0;
    const auto visit = [&](size_t k, const auto& see) {
      for (const Chunk::Ends& ends : chunk.conditions[k].intervals) {
        const int64_t lower = ends.lower[place[k][probe]], upper = ends.upper[place[k][probe]];
        if (lower <= upper) part.trees[k].range(lower, upper, see);
      }
    };
    intersect(part.rows.size(), first, last, hash_, visit, [&](size_t id) {
      if (!view.on_time(probe, part.rows[id])) return;
      counting ? void(++count) : push(output.rows, part.rows[id]);
    });
    counting ? sink.count(probe, count) : sink.keep(probe, start);
  }
}

// What the paper compares PO-Join with: a CSS-Tree for each condition, and their results intersected.
void Prober::probe_css(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output) {
  const bool counting = counts != nullptr;
  const View view(*this, chunk, in);
  if (view.of(run.extent) == Visibility::kNone) return;
  const std::vector<const uint32_t*> of = all_ranges(run, chunk, output);
  Sink sink{output, counts, chunk.first};
  for (size_t probe = 0; probe < chunk.count; ++probe) {
    const int64_t other_position = in.other_position_of(chunk.first + probe);
    const auto place = [&](int64_t row) {
      const int64_t apart = std::clamp<int64_t>(row - run.extent.first_row, 0, int64_t{1} << 32);
      return static_cast<size_t>(std::partition_point(run.offset, run.offset + run.length,
                                                      [apart](uint32_t offset) { return offset < apart; }) - run.offset);
    };
    const size_t first = place(other_position - view.span), last = place(other_position);
    if (first == last) continue;
    if (probe % 64 == 0) checkpoint();
    const size_t start = output.rows.size();
    size_t count = 0;
    const auto visit = [&](size_t k, const auto& see) {
      for (size_t i = 0; i < chunk.conditions[k].intervals.size(); ++i) {
        const uint32_t* ends = of[k] + 2 * (i * chunk.count + probe);
        for (size_t at = ends[0]; at < ends[1]; ++at) see(run.permutation[k][at]);
      }
    };
    intersect(run.length, first, last, immutable_ == Immutable::kCssHash, visit, [&](size_t id) {
      if (!view.on_time(probe, run.row(id))) return;
      counting ? void(++count) : push(output.rows, run.row(id));
    });
    counting ? sink.count(probe, count) : sink.keep(probe, start);
  }
}

void Prober::note_bits(const Scratch& own) {
  const size_t bytes = own.bytes();
  for (size_t seen = bit_bytes_; bytes > seen && !bit_bytes_.compare_exchange_weak(seen, bytes);) {}
}

}  // namespace muntin::spo
