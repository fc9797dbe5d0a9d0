#include "engine/as_of_scan.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "core/kernels.hpp"

namespace muntin {
namespace {

constexpr size_t kChains = 4;          // merges side by side, as each waits for its own comparisons
constexpr size_t kTask = 1 << 14;      // steps of a task's merges
constexpr size_t kFewGroups = 1 << 12; // swept at every call

// Whether a left row of `time` meets a right row at `row` at or before it, of the same group.
struct Any {
  static bool met(int64_t, int64_t, const AsOfRule&) { return true; }
};
template <class Time>
struct Near {
  static bool met(int64_t time, int64_t row, const AsOfRule& rule) { return Time::within(time, row, rule); }
};

// Whether a right row comes before a left one in the order in which both are scanned.
template <bool exact>
bool before(int64_t right, int64_t left) {
  return exact ? right <= left : right < left;
}

// How many of `count` rows, in order, are at or before a time.
size_t up_to(std::span<const int64_t> times, int64_t limit) {
  return static_cast<size_t>(std::upper_bound(times.begin(), times.end(), limit) - times.begin());
}

// Of the first `steps` rows of both sides in order, how many are left ones.
template <bool exact>
size_t cut(const int64_t* left, size_t lefts, const int64_t* right, size_t rights, size_t steps) {
  size_t low = steps > rights ? steps - rights : 0, high = std::min(steps, lefts);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (before<exact>(right[steps - middle - 1], left[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// For each of the left rows, `base` and the number of right rows before it. The last step is a left row, and a right row
// after it follows the last of `rights`.
template <bool exact>
void count_before(const int64_t* left, size_t lefts, const int64_t* right, size_t rights, int64_t base, int64_t* out, int max_threads) {
  const size_t steps = lefts + rights;
  run_tasks((steps + kTask - 1) / kTask, max_threads, nullptr, [&](size_t task) {
    const size_t first = task * kTask, last = std::min(steps, first + kTask);
    size_t l[kChains + 1], r[kChains + 1], rest[kChains], all = kTask;
    for (size_t chain = 0; chain <= kChains; ++chain) {
      const size_t step = first + (last - first) * chain / kChains;
      l[chain] = cut<exact>(left, lefts, right, rights, step);
      r[chain] = step - l[chain];
    }
    // A chain ends with its last left row: what it would write after that is the next one's.
    for (size_t chain = 0; chain < kChains; ++chain) {
      const size_t begin = l[chain], end = l[chain + 1];
      size_t counted = 0;
      if (begin < end) {
        counted = static_cast<size_t>(
            std::partition_point(right + r[chain], right + r[chain + 1], [&](int64_t time) { return before<exact>(time, left[end - 1]); }) -
            right - static_cast<ptrdiff_t>(r[chain]));
      }
      rest[chain] = end - begin + counted;
      all = std::min(all, rest[chain]);
    }
    const auto next = [&](size_t& i, size_t& j) {
      const bool take = before<exact>(right[j], left[i]);
      out[i] = base + static_cast<int64_t>(j);
      j += take;
      i += !take;
    };
    size_t i0 = l[0], i1 = l[1], i2 = l[2], i3 = l[3], j0 = r[0], j1 = r[1], j2 = r[2], j3 = r[3];
    for (size_t step = 0; step < all; ++step) {
      next(i0, j0);
      next(i1, j1);
      next(i2, j2);
      next(i3, j3);
    }
    for (size_t step = all; step < rest[0]; ++step) next(i0, j0);
    for (size_t step = all; step < rest[1]; ++step) next(i1, j1);
    for (size_t step = all; step < rest[2]; ++step) next(i2, j2);
    for (size_t step = all; step < rest[3]; ++step) next(i3, j3);
  });
}

}  // namespace

// Rows that wait

void AsOfWaiting::append(std::span<const int64_t> times, const AsOfRows& rows, const uint32_t* groups) {
  times_.insert(times_.end(), times.begin(), times.end());
  if (grouped_) groups_.insert(groups_.end(), groups, groups + times.size());
  const size_t start = slots_.size();
  slots_.resize(times_.size());
  if (rows.slots == nullptr) {
    std::iota(slots_.begin() + static_cast<ptrdiff_t>(start), slots_.end(), rows.first);
  } else {
    std::copy_n(rows.slots, times.size(), slots_.begin() + static_cast<ptrdiff_t>(start));
  }
}

void AsOfWaiting::add(int64_t time, int64_t slot, uint32_t group, bool last) {
  if (last) {
    if (group >= places_.size()) places_.resize(std::max<size_t>(group + 1, 2 * places_.size()));
    const uint64_t known = places_[group];
    if (known > before_ + head_ && known <= before_ + times_.size()) {
      const size_t at = static_cast<size_t>(known - before_ - 1);
      if (times_[at] == time && (!grouped_ || groups_[at] == group)) {
        slots_[at] = slot;
        return;
      }
    }
    places_[group] = before_ + times_.size() + 1;
  }
  times_.push_back(time);
  slots_.push_back(slot);
  if (grouped_) groups_.push_back(group);
  sorted_ = times_.size();
}

void AsOfWaiting::order(bool last) {
  if (ordered()) return;
  const size_t count = times_.size() - sorted_;
  if (count > std::numeric_limits<uint32_t>::max()) throw std::length_error("more than 2**32 - 1 rows wait that have not been put in order");
  if (!last && std::is_sorted(times_.begin() + static_cast<ptrdiff_t>(sorted_ - (sorted_ > head_)), times_.end())) {
    sorted_ = times_.size();
    return;
  }
  // The new rows in order of time, those of one time in order of arrival.
  CallVector<int64_t> times(count);
  CallVector<uint32_t> places(count);
  CallVector<uint64_t> scratch(2 * count);
  static const KernelTable* const kernels = choose_kernels(nullptr);
  kernels->wide.sort(times_.data() + sorted_, count, 0, times.data(), places.data(), scratch.data());
  // The older rows from the time of the first of them on are added once more, with them.
  const auto begin = times_.begin() + static_cast<ptrdiff_t>(head_), middle = times_.begin() + static_cast<ptrdiff_t>(sorted_);
  const size_t from = static_cast<size_t>(std::lower_bound(begin, middle, times.front()) - times_.begin()), elders = sorted_ - from;
  const CallVector<int64_t> old_times(times_.begin() + static_cast<ptrdiff_t>(from), middle);
  const CallVector<int64_t> slots(slots_.begin() + static_cast<ptrdiff_t>(from), slots_.end());
  CallVector<uint32_t> groups;
  if (grouped_) groups.assign(groups_.begin() + static_cast<ptrdiff_t>(from), groups_.end());
  times_.resize(from);
  slots_.resize(from);
  if (grouped_) groups_.resize(from);
  for (size_t i = 0, j = 0; i < elders || j < count;) {
    const bool elder = j == count || (i < elders && old_times[i] <= times[j]);
    const size_t at = elder ? i : elders + places[j];
    add(elder ? old_times[i] : times[j], slots[at], grouped_ ? groups[at] : 0, last);
    (elder ? i : j) += 1;
  }
}

void AsOfWaiting::drop(size_t count) {
  head_ += count;
  if (2 * head_ < times_.size()) return;
  const ptrdiff_t gone = static_cast<ptrdiff_t>(head_);
  times_.erase(times_.begin(), times_.begin() + gone);
  slots_.erase(slots_.begin(), slots_.begin() + gone);
  if (grouped_) groups_.erase(groups_.begin(), groups_.begin() + gone);
  before_ += head_;
  sorted_ -= head_;
  head_ = 0;
}

void AsOfWaiting::each_slot(const std::function<void(int64_t&)>& f) {
  for (size_t i = head_; i < slots_.size(); ++i) f(slots_[i]);
}

// The pass over both sides

void AsOfScan::set_last(uint32_t group, int64_t time, int64_t slot) {
  Last& last = last_[grouped_ ? group + size_t{1} : 0];
  lasts_ += last.slot < 0;
  last = {time, slot};
}

// One group, until one side is at its end.
template <class Met, bool exact>
void AsOfScan::both_of_one(Part& left, Part& right, int max_threads, int64_t* met) {
  const int64_t *const l = left.times.data() + left.at, *const r = right.times.data() + right.at;
  const size_t lefts = left.times.size() - left.at, rights = right.times.size() - right.at;
  // Left rows that the last right row is not before.
  const size_t decided = static_cast<size_t>(
      std::partition_point(l, l + lefts, [&](int64_t time) { return !before<exact>(r[rights - 1], time); }) - l);
  Last& last = last_[0];
  const Last elder = last;
  size_t taken = rights;
  if (decided != 0) {
    size_t low = static_cast<size_t>(
        std::partition_point(r, r + rights, [&](int64_t time) { return before<exact>(time, l[decided - 1]); }) - r);
    if (decided == lefts) taken = low;
    // Those that the first right row is not before meet one from earlier.
    const size_t alone = static_cast<size_t>(
        std::partition_point(l, l + decided, [&](int64_t time) { return !before<exact>(r[0], time); }) - l);
    for (size_t i = 0; i < alone; ++i) met[i] = elder.slot >= 0 && Met::met(l[i], elder.time, rule_) ? elder.slot : -1;
    const bool follow = right.slots == nullptr && std::is_same_v<Met, Any>;
    const int64_t base = follow ? right.slot(right.at) - 1 : -1;
    if (alone < decided) count_before<exact>(l + alone, decided - alone, r, low, base, met + alone, max_threads);
    if (!follow) {
      for (size_t i = alone; i < decided; ++i) {
        const size_t at = static_cast<size_t>(met[i]);
        met[i] = Met::met(l[i], r[at], rule_) ? right.slot(right.at + at) : -1;
      }
    }
  }
  if (taken != 0) {
    lasts_ += last.slot < 0;
    last = {r[taken - 1], right.slot(right.at + taken - 1)};
  }
  left.at += decided;
  right.at += taken;
}

// Several groups, as `both_of_one`.
template <class Met, bool exact>
void AsOfScan::both(Part& left, Part& right, int64_t* met) {
  const int64_t *const l = left.times.data(), *const r = right.times.data();
  const uint32_t *const l_groups = left.groups, *const r_groups = right.groups;
  const int64_t* const slots = right.slots;
  const size_t lefts = left.times.size(), rights = right.times.size();
  Last* const last = last_.data();
  size_t i = left.at, j = right.at, firsts = 0;
  // What a step does depends on no branch that could be mistaken.
  while (i < lefts && j < rights) {
    const int64_t time = l[i], row = r[j];
    const bool take = before<exact>(row, time);
    Last& own = last[static_cast<uint32_t>((take ? r_groups[j] : l_groups[i]) + 1)];
    Last value = own;
    firsts += take & (value.slot < 0);
    value.time = take ? row : value.time;
    value.slot = take ? slots[j] : value.slot;
    own = value;
    *met = value.slot >= 0 && !Met::met(time, value.time, rule_) ? -1 : value.slot;
    j += take;
    i += !take;
    met += !take;
  }
  lasts_ += firsts;
  left.at = i;
  right.at = j;
}

template <class Met, bool exact>
void AsOfScan::scan(Part (&left)[2], Part (&right)[2], int max_threads, int64_t* met) {
  size_t l = 0, r = 0;
  while (true) {
    while (l < 2 && left[l].done()) ++l;
    while (r < 2 && right[r].done()) ++r;
    if (l == 2 || r == 2) break;
    const size_t from = left[l].at;
    if (grouped_) {
      both<Met, exact>(left[l], right[r], met);
    } else {
      both_of_one<Met, exact>(left[l], right[r], max_threads, met);
    }
    met += left[l].at - from;
  }
  for (; l < 2; ++l) {
    Part& part = left[l];
    for (; part.at < part.times.size(); ++part.at) {
      const Last& own = last_[grouped_ ? static_cast<uint32_t>(part.groups[part.at] + 1) : 0];
      *met++ = own.slot >= 0 && Met::met(part.times[part.at], own.time, rule_) ? own.slot : -1;
    }
  }
  for (; r < 2; ++r) {
    Part& part = right[r];
    if (!grouped_) part.at = std::max(part.at, part.times.size() - !part.times.empty());
    for (; part.at < part.times.size(); ++part.at) set_last(grouped_ ? part.groups[part.at] : 0, part.times[part.at], part.slot(part.at));
  }
}

void AsOfScan::step(const AsOfRows& left, const AsOfRows& right, std::optional<int64_t> watermark, std::optional<int64_t> useless, bool all,
                    bool matched, int max_threads, AsOfNumbers& lefts, AsOfNumbers& rights) {
  if (!all && watermark != useless) throw std::invalid_argument("a scan has one watermark for both sides");
  if (left.grouped != grouped_ || right.grouped != grouped_) throw std::invalid_argument("rows have words where there are groups");
  const AsOfRows* const given[2] = {&left, &right};
  AsOfWaiting* const waiting[2] = {&left_, &right_};
  CallVector<uint32_t>* const groups[2] = {&left_groups_, &right_groups_};
  if (grouped_) {
    numbers_.add(right.words, right_groups_, max_threads);
    numbers_.find(left.words, left_groups_, max_threads);
    if (last_.size() < numbers_.end() + size_t{1}) last_.resize(numbers_.end() + size_t{1});
  }
  // Left rows that wait belong to groups that are known.
  const auto known = [&](size_t first) {
    if (!grouped_) return;
    for (size_t i = first; i < left_groups_.size(); ++i) {
      if (left_groups_[i] == AsOfGroups::kNone) left_groups_[i] = numbers_.add(left.words[i]);
    }
    if (last_.size() < numbers_.end() + size_t{1}) last_.resize(numbers_.end() + size_t{1});
  };
  const bool ready = all || watermark;
  bool fresh[2];  // new rows are in order, and follow those that wait
  for (size_t side = 0; side < 2; ++side) {
    const std::span<const int64_t> times = given[side]->times;
    AsOfWaiting& held = *waiting[side];
    if (ready) held.order(side == 1);
    fresh[side] = ready && std::is_sorted(times.begin(), times.end()) && (held.size() == 0 || times.empty() || held.newest() <= times.front());
    if (fresh[side]) continue;
    if (side == 0) {
      known(0);
      mixed_ = true;
    }
    held.append(times, *given[side], groups[side]->data());
    if (ready) held.order(side == 1);
  }
  since_sweep_ += left.times.size() + right.times.size();
  if (!ready) {
    lefts.reserve(0);
    rights.reserve(0);
    return;
  }
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  // A left row one tick past the watermark meets none at its own time where equal times do not match; else a right row
  // there hides those before it from every left row to come.
  const int64_t past = all || *watermark == most ? most : *watermark + 1, at = all ? most : *watermark;
  const int64_t limits[2] = {rule_.exact ? at : past, rule_.exact ? past : at};
  Part parts[2][2];
  for (size_t side = 0; side < 2; ++side) {
    const std::span<const int64_t> old = waiting[side]->times(), news = fresh[side] ? given[side]->times : std::span<const int64_t>();
    parts[side][0] = {old.first(up_to(old, limits[side])), waiting[side]->slots(), 0, waiting[side]->groups()};
    parts[side][1] = {news.first(up_to(news, limits[side])), given[side]->slots, given[side]->first, grouped_ ? groups[side]->data() : nullptr};
  }
  if (grouped_ && right.slots == nullptr) {
    numbered_.resize(right.times.size());
    std::iota(numbered_.begin(), numbered_.end(), right.first);
    parts[1][1].slots = numbered_.data();
  }
  const size_t count = parts[0][0].times.size() + parts[0][1].times.size();
  lefts.reserve(count);
  rights.reserve(count);
  int64_t* const out = lefts.data();
  int64_t* const met = rights.data();
  if (rule_.limited && rule_.floats) {
    rule_.exact ? scan<Near<Floats>, true>(parts[0], parts[1], max_threads, met)
                : scan<Near<Floats>, false>(parts[0], parts[1], max_threads, met);
  } else if (rule_.limited) {
    rule_.exact ? scan<Near<Integers>, true>(parts[0], parts[1], max_threads, met)
                : scan<Near<Integers>, false>(parts[0], parts[1], max_threads, met);
  } else {
    rule_.exact ? scan<Any, true>(parts[0], parts[1], max_threads, met) : scan<Any, false>(parts[0], parts[1], max_threads, met);
  }
  size_t to = 0;
  for (const Part& part : parts[0]) {
    if (part.slots == nullptr) {
      std::iota(out + to, out + to + part.times.size(), part.first);
    } else {
      std::copy_n(part.slots, part.times.size(), out + to);
    }
    to += part.times.size();
  }
  size_t size = count;
  if (matched) {
    bool none = false;
    for (size_t i = 0; i < count; ++i) none |= met[i] < 0;
    if (none) {
      size = 0;
      for (size_t i = 0; i < count; ++i) {
        out[size] = out[i];
        met[size] = met[i];
        size += met[i] >= 0;
      }
    }
  }
  if (mixed_ && !std::is_sorted(out, out + size)) {
    CallVector<std::pair<int64_t, int64_t>> pairs(size);
    for (size_t i = 0; i < size; ++i) pairs[i] = {out[i], met[i]};
    std::sort(pairs.begin(), pairs.end());
    for (size_t i = 0; i < size; ++i) std::tie(out[i], met[i]) = pairs[i];
  }
  lefts.size = rights.size = size;
  // What is left of both sides waits.
  known(fresh[0] ? parts[0][1].times.size() : left_groups_.size());
  for (size_t side = 0; side < 2; ++side) {
    waiting[side]->drop(parts[side][0].times.size());
    if (!fresh[side]) continue;
    const AsOfRows& rows = *given[side];
    for (size_t i = parts[side][1].times.size(); i < rows.times.size(); ++i) {
      waiting[side]->add(rows.times[i], rows.slot(i), grouped_ ? (*groups[side])[i] : 0, side == 1);
    }
  }
  mixed_ = mixed_ && left_.size() != 0;
  sweep(all ? std::nullopt : watermark);
}

// Drops the last rows that are too far from all left rows to come, and groups without rows.
void AsOfScan::sweep(std::optional<int64_t> watermark) {
  if (!rule_.limited && (!grouped_ || groups() == lasts_)) return;
  if (groups() > kFewGroups && groups() > 2 * since_sweep_) return;
  since_sweep_ = 0;
  const auto useless = [&](const Last& last) {
    if (!rule_.limited || !watermark || last.slot < 0) return false;
    return last.time <= *watermark && Integers::distance(*watermark, last.time) >= rule_.tolerance;  // of a left row one tick later
  };
  const auto clear = [&](Last& last) {
    if (!useless(last)) return;
    last = Last();
    --lasts_;
  };
  if (!grouped_) {
    clear(last_[0]);
    return;
  }
  waits_.assign(numbers_.end(), 0);
  for (const AsOfWaiting* held : {&left_, &right_}) {
    for (size_t i = 0; i < held->size(); ++i) waits_[held->groups()[i]] = 1;
  }
  for (uint32_t group = 0; group < numbers_.end(); ++group) {
    Last& last = last_[group + size_t{1}];
    clear(last);
    if (last.slot < 0 && !waits_[group] && numbers_.live(group)) numbers_.forget(group);
  }
}

void AsOfScan::each_slot(bool right, const std::function<void(int64_t&)>& f) {
  if (!right) return left_.each_slot(f);
  for (Last& last : last_) {
    if (last.slot >= 0) f(last.slot);
  }
  right_.each_slot(f);
}

size_t AsOfScan::bytes() const {
  return numbers_.bytes() + left_.bytes() + right_.bytes() + last_.capacity() * sizeof(Last) + waits_.capacity() +
         numbered_.capacity() * sizeof(int64_t) + (left_groups_.capacity() + right_groups_.capacity()) * sizeof(uint32_t);
}

}  // namespace muntin
