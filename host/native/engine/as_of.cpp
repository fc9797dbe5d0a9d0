#include "engine/as_of.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/as_of_scan.hpp"

namespace muntin {
namespace {

constexpr size_t kAhead = 16;          // groups fetched before they are used
constexpr size_t kTask = 1 << 12;      // rows of a task
constexpr size_t kNear = 8;            // rows behind the hint that are looked at first
constexpr size_t kChunk = 1 << 16;     // chunks of so many rows are not merged
constexpr size_t kFewGroups = 1 << 12; // swept at every call

// The first index at or after which `past` holds, near `hint`; rows before it do not satisfy it.
template <class Past>
size_t gallop(std::span<const AsOfRow> rows, size_t hint, Past&& past) {
  size_t low = 0, high = rows.size();
  if (high == 0) return 0;
  if (hint + kNear <= high && (hint == 0 || !past(rows[hint - 1]))) {
    // Mostly it is one of the next few: counted, as no branch of these could be foretold.
    size_t before = 0;
    for (size_t i = 0; i < kNear; ++i) before += !past(rows[hint + i]);
    if (before < kNear) return hint + before;
  }
  hint = std::min(hint, high - 1);
  size_t step = 1;
  if (past(rows[hint])) {
    high = hint;
    while (high > low) {
      const size_t at = high - low > step ? high - step : low;
      if (!past(rows[at])) {
        low = at + 1;
        break;
      }
      high = at;
      step *= 2;
    }
  } else {
    low = hint + 1;
    while (low < high) {
      const size_t at = high - low > step ? low + step - 1 : high - 1;
      if (past(rows[at])) {
        high = at;
        break;
      }
      low = at + 1;
      step *= 2;
    }
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (past(rows[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

// One value of the `by` columns

size_t AsOfGroup::add(AsOfRow row, Direction direction) {
  bool in_order = ordered();
  if (in_order && rows_.size() > head_) {
    AsOfRow& last = rows_.back();
    if (row.time == last.time) {
      if (direction == Direction::kForward) return 0;
      const bool two = rows_.size() - head_ > 1 && rows_[rows_.size() - 2].time == row.time;
      if (direction == Direction::kBackward || two) {
        last = row;
        return 0;
      }
    }
    in_order = row.time >= last.time;
  }
  rows_.push_back(row);
  if (in_order) sorted_ = rows_.size();
  return 1;
}

size_t AsOfGroup::order(Direction direction) {
  if (ordered()) return 0;
  const auto earlier = [](const AsOfRow& a, const AsOfRow& b) { return a.time < b.time; };
  const auto middle = rows_.begin() + static_cast<ptrdiff_t>(sorted_);
  if (!std::is_sorted(middle, rows_.end(), earlier)) std::stable_sort(middle, rows_.end(), earlier);
  auto begin = std::upper_bound(rows_.begin() + static_cast<ptrdiff_t>(head_), middle, *middle, earlier);
  std::inplace_merge(begin, middle, rows_.end(), earlier);
  // Rows of one time: two before the merged ones may be of the time of the first of them.
  const size_t kept = static_cast<size_t>(begin - rows_.begin());
  size_t out = kept > head_ + 2 ? kept - 2 : head_;
  const size_t first = out;
  for (size_t at = out; at < rows_.size(); ++at) {
    const AsOfRow row = rows_[at];
    if (out > first && rows_[out - 1].time == row.time) {
      if (direction == Direction::kForward) continue;
      if (direction == Direction::kBackward || (out > first + 1 && rows_[out - 2].time == row.time)) --out;
    }
    rows_[out++] = row;
  }
  const size_t gone = rows_.size() - out;
  rows_.resize(out);
  sorted_ = out;
  return gone;
}

void AsOfGroup::drop(size_t count) {
  if (count == 0) return;
  head_ += count;
  hint_ -= std::min<uint32_t>(hint_, static_cast<uint32_t>(std::min<size_t>(count, std::numeric_limits<uint32_t>::max())));
  const size_t most = rows_.size();
  if (2 * head_ < most) return;
  rows_.erase(rows_.begin(), rows_.begin() + static_cast<ptrdiff_t>(head_));
  head_ = 0;
  sorted_ = rows_.size();
  // As many rows may come again before the next drop.
  if (rows_.capacity() > 64 && rows_.capacity() > 8 * most) rows_.shrink_to_fit();
}

// Groups

size_t AsOfGroups::place_of(int64_t word) const {
  size_t at = home(word);
  while (table_[at].group != kNone && table_[at].word != word) at = (at + 1) & (table_.size() - 1);
  return at;
}

uint32_t AsOfGroups::add(int64_t word) {
  const uint32_t known = group_of(word);
  if (known != kNone) return known;
  uint32_t group;
  if (!free_.empty()) {
    group = free_.back();
    free_.pop_back();
    words_[group] = word;
    live_[group] = true;
  } else {
    if (words_.size() == kNone) throw std::length_error("more than 2**32 - 1 values of the by columns");
    group = static_cast<uint32_t>(words_.size());
    words_.push_back(word);
    live_.push_back(true);
  }
  ++used_;
  if (static_cast<uint64_t>(word) < kNear) {
    const size_t at = static_cast<size_t>(word);
    if (at >= near_.size()) near_.resize(std::max(at + 1, std::min<size_t>(2 * near_.size(), kNear)), kNone);
    near_[at] = group;
  } else {
    table_[place_of(word)] = {word, group};
    if (++hashed_ * 2 > table_.size()) grow();
  }
  return group;
}

void AsOfGroups::grow() {
  CallVector<Entry> old(2 * table_.size(), {0, kNone});
  old.swap(table_);
  for (const Entry& entry : old) {
    if (entry.group == kNone) continue;
    size_t at = home(entry.word);
    while (table_[at].group != kNone) at = (at + 1) & (table_.size() - 1);
    table_[at] = entry;
  }
}

void AsOfGroups::forget(uint32_t group) {
  const int64_t word = words_[group];
  live_[group] = false;
  free_.push_back(group);
  --used_;
  if (static_cast<uint64_t>(word) < kNear) {
    near_[static_cast<size_t>(word)] = kNone;
    return;
  }
  const size_t mask = table_.size() - 1;
  size_t at = place_of(word);
  // Groups behind it move up, as far as that does not take them before their home.
  for (size_t next = (at + 1) & mask; table_[next].group != kNone; next = (next + 1) & mask) {
    const size_t wanted = home(table_[next].word);
    if (((next - wanted) & mask) >= ((next - at) & mask)) {
      table_[at] = table_[next];
      at = next;
    }
  }
  table_[at].group = kNone;
  --hashed_;
}

void AsOfGroups::find(std::span<const int64_t> words, CallVector<uint32_t>& groups, int max_threads) const {
  const size_t count = words.size();
  groups.resize(count);
  run_tasks((count + kTask - 1) / kTask, max_threads, nullptr, [&](size_t task) {
    const size_t first = task * kTask, last = std::min(count, first + kTask);
    for (size_t i = first; i < last; ++i) {
      if (hashed_ != 0 && i + kAhead < last) __builtin_prefetch(&table_[home(words[i + kAhead])]);
      groups[i] = group_of(words[i]);
    }
  });
}

void AsOfGroups::add(std::span<const int64_t> words, CallVector<uint32_t>& groups, int max_threads) {
  find(words, groups, max_threads);
  for (size_t i = 0; i < words.size(); ++i) {
    if (groups[i] == kNone) groups[i] = add(words[i]);
  }
}

CallVector<int64_t> AsOfGroups::words() const {
  CallVector<int64_t> found;
  for (size_t group = 0; group < words_.size(); ++group) {
    if (live_[group]) found.push_back(words_[group]);
  }
  return found;
}

// Rows

void AsOfSearch::number(const AsOfRows& rows, int max_threads) {
  if (rows.grouped) {
    numbers_.add(rows.words, numbered_, max_threads);
  } else {
    numbered_.assign(rows.times.size(), rows.times.empty() ? 0 : numbers_.add(0));
  }
  if (groups_.size() < numbers_.end()) groups_.resize(numbers_.end());
}

void AsOfSearch::add_right(const AsOfRows& rows, int max_threads) {
  number(rows, max_threads);
  for (size_t i = 0; i < numbered_.size(); ++i) {
    if (i + kAhead < numbered_.size()) __builtin_prefetch(&groups_[numbered_[i + kAhead]]);
    AsOfGroup& group = groups_[numbered_[i]];
    const bool ordered = group.ordered();
    right_rows_ += group.add({rows.times[i], rows.slot(i)}, rule_.direction);
    if (ordered && !group.ordered()) unordered_.push_back(numbered_[i]);
  }
  since_sweep_ += numbered_.size();
}

void AsOfSearch::add_left(const AsOfRows& rows, int max_threads) {
  if (rows.times.empty()) return;
  number(rows, max_threads);
  Chunk chunk;
  chunk.fresh = true;
  chunk.rows.reserve(numbered_.size());
  for (size_t i = 0; i < numbered_.size(); ++i) chunk.add({rows.times[i], rows.slot(i), numbered_[i]});
  chunks_.push_back(std::move(chunk));
  since_sweep_ += numbered_.size();
}

// Most rows are answered in the call in which they come: groups count those alone that are not.
void AsOfSearch::settle(Chunk& chunk) {
  if (!chunk.fresh) return;
  chunk.fresh = false;
  for (const Waiting& row : chunk.rows) ++groups_[row.group].waiting;
}

template <class Time>
std::pair<ptrdiff_t, bool> AsOfSearch::find(AsOfGroup& group, int64_t time, int64_t watermark) const {
  const std::span<const AsOfRow> rows = group.rows();
  const bool exact = rule_.exact;
  const size_t hint = group.hint().load(std::memory_order_relaxed);
  ptrdiff_t found = -1;
  size_t at;
  bool final = false;
  const int64_t w = watermark;
  // Whether the watermark is `distance` past the row's time: asked of integers alone.
  const auto reached = [&](uint64_t distance) {
    return w >= time && static_cast<uint64_t>(w) - static_cast<uint64_t>(time) >= distance;
  };
  if (rule_.direction == Direction::kBackward) {
    at = gallop(rows, hint, [&](const AsOfRow& row) { return exact ? row.time > time : row.time >= time; });
    if (at > 0 && Time::within(time, rows[at - 1].time, rule_)) found = static_cast<ptrdiff_t>(at) - 1;
    final = w >= time || (!exact && w == time - 1);
  } else if (rule_.direction == Direction::kForward) {
    at = gallop(rows, hint, [&](const AsOfRow& row) { return exact ? row.time >= time : row.time > time; });
    final = rule_.limited && reached(rule_.tolerance);
    if (at < rows.size()) {
      const int64_t candidate = rows[at].time;
      if (Time::within(time, candidate, rule_)) found = static_cast<ptrdiff_t>(at);
      final = final || w >= candidate || w == candidate - 1;
    }
  } else {
    at = gallop(rows, hint, [&](const AsOfRow& row) { return exact ? row.time > time : row.time >= time; });
    size_t after = at;
    while (!exact && after < rows.size() && rows[after].time == time) ++after;
    ptrdiff_t nearest = -1;
    if (at > 0 && (after == rows.size() || Time::before_is_nearer(rows[at - 1].time, time, rows[after].time))) {
      nearest = static_cast<ptrdiff_t>(at) - 1;
    } else if (after < rows.size()) {
      nearest = static_cast<ptrdiff_t>(after);
    }
    if (nearest >= 0) {
      const int64_t candidate = rows[static_cast<size_t>(nearest)].time;
      if (Time::within(time, candidate, rule_)) found = nearest;
      final = reached(Integers::distance(time, candidate));
    }
    final = final || (rule_.limited && reached(rule_.tolerance));
  }
  group.hint().store(static_cast<uint32_t>(std::min<size_t>(at, std::numeric_limits<uint32_t>::max())), std::memory_order_relaxed);
  return {found, final};
}

template <class Time>
void AsOfSearch::probe(const Chunk& chunk, size_t first, size_t last, int64_t watermark, int64_t* found, char* final) {
  for (size_t i = first; i < last; ++i) {
    if (i + 2 * kAhead < last) __builtin_prefetch(&groups_[chunk.rows[i + 2 * kAhead].group]);
    if (i + kAhead < last) {
      AsOfGroup& next = groups_[chunk.rows[i + kAhead].group];
      const std::span<const AsOfRow> rows = next.rows();
      if (!rows.empty()) __builtin_prefetch(&rows[std::min<size_t>(next.hint().load(std::memory_order_relaxed), rows.size() - 1)]);
    }
    const Waiting& row = chunk.rows[i];
    AsOfGroup& group = groups_[row.group];
    const auto [at, done] = find<Time>(group, row.time, watermark);
    found[i] = at < 0 ? -1 : group.rows()[static_cast<size_t>(at)].slot;
    if (final != nullptr) final[i] = done;
  }
}

void AsOfSearch::ready(std::optional<int64_t> watermark, bool all, bool matched, int max_threads, AsOfNumbers& left, AsOfNumbers& right) {
  if (!all && !watermark) {  // nothing is final, and rows out of order may wait too
    for (Chunk& chunk : chunks_) settle(chunk);
    left.reserve(0);
    right.reserve(0);
    return;
  }
  for (const uint32_t group : unordered_) right_rows_ -= groups_[group].order(rule_.direction);
  unordered_.clear();
  ++probes_;
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  // Of a later time than this no row can be final.
  const int64_t limit = all || *watermark == most ? most : *watermark + 1;
  size_t rows = 0;
  for (const Chunk& chunk : chunks_) rows += all || chunk.oldest <= limit ? chunk.rows.size() : 0;
  left.reserve(rows);
  right.reserve(rows);
  size_t out = 0;
  CallVector<char> final;
  std::vector<Chunk> left_over;
  for (Chunk& chunk : chunks_) {
    if (!all && chunk.oldest > limit) {
      settle(chunk);
      left_over.push_back(std::move(chunk));
      continue;
    }
    const size_t count = chunk.rows.size();
    // Looking back, the watermark decides.
    const bool whole = all || (rule_.direction == Direction::kBackward && *watermark >= chunk.newest);
    if (!whole) final.resize(count);
    int64_t* const found = right.data() + out;  // at or after where they go
    run_tasks((count + kTask - 1) / kTask, max_threads, nullptr, [&](size_t task) {
      const size_t first = task * kTask, last = std::min(count, first + kTask);
      if (rule_.floats) {
        probe<Floats>(chunk, first, last, watermark.value_or(0), found, whole ? nullptr : final.data());
      } else {
        probe<Integers>(chunk, first, last, watermark.value_or(0), found, whole ? nullptr : final.data());
      }
    });
    Chunk rest;
    for (size_t i = 0; i < count; ++i) {
      const Waiting& row = chunk.rows[i];
      if (whole || (final[i] && row.time <= limit)) {
        if (!chunk.fresh) --groups_[row.group].waiting;
        const int64_t met = found[i];
        left.data()[out] = row.slot;
        right.data()[out] = met;
        out += !(matched && met < 0);
        continue;
      }
      AsOfGroup& group = groups_[row.group];
      group.waiting += chunk.fresh;
      group.oldest_waiting = group.probed == probes_ ? std::min(group.oldest_waiting, row.time) : row.time;
      group.probed = probes_;
      rest.add(row);
    }
    if (!rest.rows.empty()) left_over.push_back(std::move(rest));
  }
  left.size = right.size = out;
  // Small chunks are merged into their elders, so that there are few.
  chunks_.clear();
  for (Chunk& chunk : left_over) {
    chunks_.push_back(std::move(chunk));
    while (chunks_.size() > 1) {
      Chunk &elder = chunks_[chunks_.size() - 2], &newer = chunks_.back();
      if (elder.rows.size() >= kChunk || elder.rows.size() > 4 * newer.rows.size()) break;
      elder.rows.insert(elder.rows.end(), newer.rows.begin(), newer.rows.end());
      elder.oldest = std::min(elder.oldest, newer.oldest);
      elder.newest = std::max(elder.newest, newer.newest);
      chunks_.pop_back();
    }
  }
}

void AsOfSearch::expire(std::optional<int64_t> watermark) {
  for (Chunk& chunk : chunks_) settle(chunk);
  // A sweep costs a look at each group: at every call where they are few beside its rows, else once for so many rows.
  if (groups() > kFewGroups && groups() > 8 * since_sweep_) return;
  since_sweep_ = 0;
  for (uint32_t at = 0; at < groups_.size(); ++at) {
    AsOfGroup& group = groups_[at];
    const std::span<const AsOfRow> rows = group.rows();
    if (watermark && group.ordered() && !rows.empty()) {
      const int64_t w = *watermark;
      // Looking back, a row one tick past the watermark hides those before it from all left rows to come.
      const bool hides = rule_.direction == Direction::kBackward && rule_.exact && w < std::numeric_limits<int64_t>::max();
      const int64_t last = hides ? w + 1 : w;
      const size_t past = gallop(rows, rows.size(), [&](const AsOfRow& row) { return row.time > last; });  // few lie past it
      size_t useless = past;
      if (rule_.direction != Direction::kForward) {
        // The last row at or before the watermark is met by the left rows to come, and by those that wait; of nearest
        // that has probed rows waiting, the last before the oldest of them.
        size_t end = past;
        int64_t reach = w;  // no left row that is to be answered has a time at or before it
        if (rule_.direction == Direction::kNearest && group.probed == probes_ && group.oldest_waiting <= w) {
          const int64_t oldest = group.oldest_waiting;
          end = gallop(rows, 0, [&](const AsOfRow& row) { return row.time >= oldest; });
          reach = oldest - (oldest > std::numeric_limits<int64_t>::min());
        }
        useless = end;
        if (end > 0) {
          const int64_t time = rows[end - 1].time;
          if (!rule_.limited || time > reach || Integers::distance(reach, time) < rule_.tolerance) useless = end - 1;  // met by a left row at reach + 1
        }
      }
      group.drop(useless);
      right_rows_ -= useless;
    }
    if (group.waiting == 0 && group.rows().empty() && group.ordered() && numbers_.live(at)) {
      numbers_.forget(at);
      group = AsOfGroup();
    }
  }
}

void AsOfSearch::step(const AsOfRows& left, const AsOfRows& right, std::optional<int64_t> watermark, std::optional<int64_t> useless, bool all,
                      bool matched, int max_threads, AsOfNumbers& lefts, AsOfNumbers& rights) {
  add_right(right, max_threads);
  add_left(left, max_threads);
  ready(watermark, all, matched, max_threads, lefts, rights);
  expire(useless);
}

void AsOfSearch::each_slot(bool right, const std::function<void(int64_t&)>& f) {
  if (right) {
    for (AsOfGroup& group : groups_) group.each_slot(f);
  } else {
    for (Chunk& chunk : chunks_) {
      for (Waiting& row : chunk.rows) f(row.slot);
    }
  }
}

size_t AsOfSearch::left_rows() const {
  size_t count = 0;
  for (const Chunk& chunk : chunks_) count += chunk.rows.size();
  return count;
}

size_t AsOfSearch::bytes() const {
  size_t bytes = numbers_.bytes() + numbered_.capacity() * sizeof(uint32_t);
  for (const AsOfGroup& group : groups_) bytes += group.bytes();
  for (const Chunk& chunk : chunks_) bytes += chunk.rows.capacity() * sizeof(Waiting);
  return bytes;
}

}  // namespace muntin
