#include "engine/aggregate_window.hpp"

#include <algorithm>
#include <numeric>

namespace muntin {

WaveletTree::WaveletTree(const Array<int64_t>& limited, const Tracks& tracks) {
  const size_t count = limited.size();
  CallVector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return limited[a] < limited[b]; });
  CallVector<uint32_t> ranks(count), next(count), from(count);
  sorted_.resize(count);
  for (size_t rank = 0; rank < count; ++rank) {
    ranks[order[rank]] = static_cast<uint32_t>(rank);
    sorted_[rank] = limited[order[rank]];
  }
  node_ = std::bit_ceil(std::max<size_t>(count, 1));
  levels_.emplace_back();
  for (size_t size = node_; size > kLeafRows; size /= 2) {
    checkpoint();
    Level& level = levels_.back();
    level.bits.assign(count / 64 + 1, 0);
    level.before.assign(count / 64 + 1, 0);
    for (size_t low = 0; low < count; low += size) {
      const size_t high = std::min(low + size, count), middle = low + size / 2;
      size_t left = low, right = middle;
      for (size_t at = low; at < high; ++at) {
        const bool one = ranks[at] >= middle;
        level.bits[at / 64] |= uint64_t{one} << (at % 64);
        size_t& to = one ? right : left;
        next[to] = ranks[at];
        from[to++] = static_cast<uint32_t>(at);
      }
    }
    for (size_t word = 1; word < level.before.size(); ++word) {
      level.before[word] = level.before[word - 1] + static_cast<uint32_t>(std::popcount(level.bits[word - 1]));
    }
    ranks.swap(next);
    Tracks permuted;
    const Tracks& above = levels_.size() == 1 ? tracks : level.tracks;
    for (const auto& track : above) permuted.push_back(track->gather(nullptr, from.data(), count));
    levels_.emplace_back().tracks = std::move(permuted);
  }
  ranks_ = std::move(ranks);
}

std::pair<size_t, size_t> WaveletTree::ranks(int64_t first, int64_t last) const {
  return {std::lower_bound(sorted_.begin(), sorted_.end(), first) - sorted_.begin(),
          std::upper_bound(sorted_.begin(), sorted_.end(), last) - sorted_.begin()};
}

size_t WaveletTree::fold(size_t start, size_t end, std::pair<size_t, size_t> ranks, uint32_t place, const Tracks& tracks,
                         const std::vector<uint32_t>& which, std::vector<Accumulator>& into) const {
  Visit of{ranks.first, ranks.second, place, tracks, which, into};
  if (ranks.first < ranks.second) visit(0, 0, start, end, of);
  return of.found;
}

void WaveletTree::visit(size_t level, size_t low, size_t start, size_t end, Visit& of) const {
  if (start >= end) return;
  const size_t size = node_ >> level, high = std::min(low + size, sorted_.size());
  const Tracks& tracks = level == 0 ? of.tracks : levels_[level].tracks;
  if (of.first <= low && high <= of.last) {
    for (size_t at = 0; at < of.which.size(); ++at) tracks[of.which[at]]->fold(start, end, of.place, of.into[at]);
    of.found += end - start;
    return;
  }
  if (level + 1 == levels_.size()) {
    for (size_t row = start; row < end; ++row) {
      if (ranks_[row] < of.first || ranks_[row] >= of.last) continue;
      for (size_t at = 0; at < of.which.size(); ++at) tracks[of.which[at]]->fold(row, row + 1, of.place, of.into[at]);
      ++of.found;
    }
    return;
  }
  const Level& own = levels_[level];
  const size_t middle = low + size / 2, before = own.ones(low);
  const size_t ones_start = own.ones(start) - before, ones_end = own.ones(end) - before;
  if (of.first < middle) visit(level + 1, low, start - ones_start, end - ones_end, of);
  if (of.last > middle && middle < high) visit(level + 1, middle, middle + ones_start, middle + ones_end, of);
}

size_t WaveletTree::bytes() const {
  size_t bytes = sorted_.size() * sizeof(int64_t) + ranks_.size() * sizeof(uint32_t);
  for (const Level& level : levels_) {
    bytes += level.bits.size() * (sizeof(uint64_t) + sizeof(uint32_t));
    for (const auto& track : level.tracks) bytes += track->bytes();
  }
  return bytes;
}

RankedTrack::RankedTrack(const Array<Ranked>& rows) : folded_(places_of(rows, order_)) {}

Array<uint32_t> RankedTrack::places_of(const Array<Ranked>& rows, Order& order) {
  const size_t count = rows.size();
  CallVector<std::pair<Ranked, uint32_t>> sorted(count);
  for (size_t at = 0; at < count; ++at) sorted[at] = {rows[at], static_cast<uint32_t>(at)};
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Array<uint32_t> places(count);
  Array<Ranked> ordered(count);
  for (size_t place = 0; place < count; ++place) {
    ordered[place] = sorted[place].first;
    places[sorted[place].second] = static_cast<uint32_t>(place);
  }
  order = std::make_shared<const Array<Ranked>>(std::move(ordered));
  return places;
}

std::unique_ptr<Track> RankedTrack::gather(const Track* other, const uint32_t* from, size_t count) const {
  const Array<uint32_t>& own = folded_.values();
  Array<uint32_t> places(count);
  if (other == nullptr && 2 * count > order_->size()) {
    for (size_t at = 0; at < count; ++at) places[at] = own[from[at]];
    return std::unique_ptr<Track>(new RankedTrack(order_, std::move(places)));
  }
  // The orders of both, without the rows that have gone.
  const RankedTrack* tracks[] = {this, static_cast<const RankedTrack*>(other)};
  CallVector<uint32_t> moved[2];  // places in the order of both, by those in each
  for (size_t which = 0; which < 2; ++which) {
    if (tracks[which]) moved[which].assign(tracks[which]->order_->size(), 0);
  }
  for (size_t at = 0; at < count; ++at) {
    const bool first = from[at] < own.size();
    moved[!first][first ? own[from[at]] : tracks[1]->folded_.values()[from[at] - own.size()]] = 1;
  }
  Array<Ranked> ordered(count);
  size_t next[2] = {0, 0}, place = 0;
  const auto skip = [&](size_t which) {
    while (next[which] < moved[which].size() && !moved[which][next[which]]) ++next[which];
    return next[which] < moved[which].size();
  };
  for (bool a = skip(0), b = skip(1); a || b; ++place) {
    const bool second = !a || (b && (*tracks[1]->order_)[next[1]] < (*order_)[next[0]]);
    ordered[place] = (*tracks[second]->order_)[next[second]];
    moved[second][next[second]++] = static_cast<uint32_t>(place);
    (second ? b : a) = skip(second);
  }
  for (size_t at = 0; at < count; ++at) {
    const bool first = from[at] < own.size();
    places[at] = moved[!first][first ? own[from[at]] : tracks[1]->folded_.values()[from[at] - own.size()]];
  }
  Order order = std::make_shared<const Array<Ranked>>(std::move(ordered));
  return std::unique_ptr<Track>(new RankedTrack(std::move(order), std::move(places)));
}

void RankedTrack::fold(const uint32_t* start, const uint32_t* end, const uint32_t* places, size_t count,
                       Accumulator& into) const {
  constexpr size_t kAhead = 16;
  uint32_t least[kAhead];
  const Ranked* const order = order_->data();
  for (size_t begin = 0; begin < count; begin += kAhead) {
    const size_t some = std::min(kAhead, count - begin);
    for (size_t at = 0; at < some; ++at) {
      LeastFold<uint32_t>::Running running;
      folded_.add(start[begin + at], end[begin + at], running);
      least[at] = running.least;
      if (running.least != kNothing<uint32_t>) __builtin_prefetch(order + running.least);
    }
    for (size_t at = 0; at < some; ++at) {
      if (least[at] == kNothing<uint32_t>) continue;
      Ranked& held = into.ranked[places[begin + at]];
      held = std::min(held, order[least[at]]);
    }
  }
}

namespace {

template <class T>
Array<T> picked(const void* values, const uint32_t* order, size_t count) {
  Array<T> out(count);
  for (size_t at = 0; at < count; ++at) out[at] = loaded(static_cast<const T*>(values), order[at]);
  return out;
}

std::unique_ptr<Track> make_track(Fold fold, const void* values, const uint32_t* order, size_t count) {
  switch (fold) {
    case Fold::kSum:
      return std::make_unique<SummedTrack<int64_t, Wide>>(picked<int64_t>(values, order, count));
    case Fold::kSome:
      return std::make_unique<SummedTrack<uint8_t, uint32_t>>(picked<uint8_t>(values, order, count));
    case Fold::kAdd:
      return std::make_unique<FoldedTrack<AddFold>>(picked<double>(values, order, count));
    case Fold::kLeast:
      return std::make_unique<FoldedTrack<LeastFold<int64_t>>>(picked<int64_t>(values, order, count));
    case Fold::kLeastWide:
      return std::make_unique<FoldedTrack<LeastFold<Wide>>>(picked<Wide>(values, order, count));
    case Fold::kLeastRow:
      return std::make_unique<RankedTrack>(picked<Ranked>(values, order, count));
    case Fold::kMoments:
      return std::make_unique<FoldedTrack<MomentsFold>>(picked<double>(values, order, count));
    case Fold::kEach:
      return std::make_unique<EachTrack>(picked<Ranked>(values, order, count));
  }
  throw std::invalid_argument("there is no such fold");
}

// The first place at or behind `hint`'s side whose key is at least `key`: near the last one where probes ascend.
template <class Key>
size_t seek(const Key* keys, size_t count, size_t hint, Key key) {
  if (hint > 0 && keys[hint - 1] >= key) return std::lower_bound(keys, keys + hint, key) - keys;
  size_t step = 1, from = hint;
  while (from + step <= count && keys[from + step - 1] < key) {
    from += step;
    step *= 2;
  }
  return std::lower_bound(keys + from, keys + std::min(count, from + step), key) - keys;
}

}  // namespace

template <class Key>
void AggregateWindow<Key>::stage(const Key* keys, const int64_t* rows, const int64_t* times,
                                 const std::vector<const void*>& values, const uint32_t* order, size_t count) {
  staged_.reset();
  if (count == 0) return;
  auto run = std::make_unique<SortedRun>();
  run->keys = picked<Key>(keys, order, count);
  run->limited = picked<int64_t>(times ? times : rows, order, count);
  if (times) run->rows = picked<int64_t>(rows, order, count);
  const auto ends = std::minmax_element(run->limited.data(), run->limited.data() + count);
  run->first = *ends.first;
  run->last = *ends.second;
  run->first_row = rows[0];
  for (size_t at = 0; at < folds_.size(); ++at) run->tracks.push_back(make_track(folds_[at], values[at], order, count));
  staged_ = std::move(run);
}

template <class Key>
void AggregateWindow<Key>::store() {
  if (!staged_) return;
  rows_ += staged_->length();
  runs_.push_back(std::move(staged_));
  merge();
}

template <class Key>
bool AggregateWindow<Key>::due() const {
  if (runs_.size() < 2) return false;
  const size_t elder = runs_[runs_.size() - 2]->length(), newer = runs_.back()->length();
  const size_t top = std::max(kMinRows, (window_ ? static_cast<size_t>(window_) : rows_) / kTopRuns);
  const auto rung = [](size_t length) {
    int rung = 0;
    for (size_t most = kMinRows; length > most; most *= kGrowth) ++rung;
    return rung;
  };
  return elder + newer <= top && rung(elder) <= rung(newer);
}

template <class Key>
void AggregateWindow<Key>::merge() {
  while (due()) {
    const SortedRun &elder = *runs_[runs_.size() - 2], &newer = *runs_.back();
    const size_t a = elder.length(), b = newer.length();
    Array<uint32_t> from(a + b);
    for (size_t i = 0, j = 0, at = 0; at < a + b; ++at) {
      const bool before = j == b || (i < a && elder.keys[i] < newer.keys[j]);
      const bool same = i < a && j < b && elder.keys[i] == newer.keys[j];
      const bool first = before || (same && (!prevailing_ || elder.limited[i] <= newer.limited[j]));
      from[at] = static_cast<uint32_t>(first ? i++ : a + j++);
    }
    auto merged = std::make_unique<SortedRun>(gathered(elder, &newer, from));
    runs_.pop_back();
    runs_.back() = std::move(merged);
  }
}

template <class Key>
typename AggregateWindow<Key>::SortedRun AggregateWindow<Key>::gathered(
    const SortedRun& a, const SortedRun* b, const Array<uint32_t>& from) const {
  const size_t count = from.size(), own = a.length();
  SortedRun out;
  out.keys = Array<Key>(count);
  out.limited = Array<int64_t>(count);
  const bool timed = a.rows.size() > 0;
  if (timed) out.rows = Array<int64_t>(count);
  for (size_t at = 0; at < count; ++at) {
    const bool first = from[at] < own;
    if (timed) out.rows[at] = first ? a.rows[from[at]] : b->rows[from[at] - own];
    out.keys[at] = first ? a.keys[from[at]] : b->keys[from[at] - own];
    out.limited[at] = first ? a.limited[from[at]] : b->limited[from[at] - own];
  }
  const auto ends = std::minmax_element(out.limited.data(), out.limited.data() + count);
  out.first = *ends.first;
  out.last = *ends.second;
  out.first_row = timed ? *std::min_element(out.rows.data(), out.rows.data() + count) : a.first_row;
  out.checked = a.checked;
  for (size_t at = 0; at < a.tracks.size(); ++at) {
    out.tracks.push_back(a.tracks[at]->gather(b ? b->tracks[at].get() : nullptr, from.data(), count));
  }
  return out;
}

template <class Key>
void AggregateWindow<Key>::probe(const std::vector<AggregateProbes<Key>>& intervals, const AggregateScope& scope,
                                 const std::vector<uint32_t>& which, int threads, Poll poll,
                                 CallVector<int64_t>& counts, std::vector<Accumulator>& into) {
  if (scope.count == 0) return;
  const auto firsts = std::minmax_element(scope.first, scope.first + scope.count);
  const auto lasts = std::minmax_element(scope.last, scope.last + scope.count);
  // Where all probes of a count window see the same rows, the others of it match nothing more: they go, where there are
  // probes enough for that.
  const bool same = window_ && *firsts.first == *firsts.second;
  for (auto& run : runs_) {
    const bool live = run->last >= *firsts.first && run->first < *firsts.first;
    if (same && live && scope.count * kFewProbes >= run->length()) keep_from(*run, *firsts.first);
  }
  std::vector<std::pair<SortedRun*, bool>> met, cut;
  for (size_t at = 0; at <= runs_.size(); ++at) {
    const bool staged = at == runs_.size();
    SortedRun* run = staged ? staged_.get() : runs_[at].get();
    if (run == nullptr || (staged && !scope.staged) || !scope.own) continue;
    if (*firsts.first > run->last || *lasts.second < run->first) continue;
    met.emplace_back(run, staged);
    if (staged && scope.end) continue;  // row by row
    if (run->first >= *firsts.second && run->last <= *lasts.first) {
      if (!several_) run->tree.reset();
    } else if (!run->tree) {
      cut.push_back(met.back());
    }
  }
  run_tasks(cut.size(), threads, poll, [&](size_t at) {
    SortedRun& run = *cut[at].first;
    run.tree = std::make_unique<WaveletTree>(run.limited, run.tracks);
  });
  std::mutex appending;
  for (const AggregateProbes<Key>& probes : intervals) {
    run_tasks((probes.count + kChunk - 1) / kChunk, threads, poll, [&](size_t chunk) {
      const size_t from = chunk * kChunk, to = std::min(probes.count, from + kChunk);
      // Places come in any order: what they have is fetched once for all runs.
      const uint32_t* const places = probes.places + from;
      const size_t count = to - from;
      CallVector<int64_t> first(count), last(count), end(scope.end ? count : 0), found(count);
      for (size_t at = 0; at < count; ++at) {
        first[at] = scope.first[places[at]];
        last[at] = scope.last[places[at]];
        if (scope.end) end[at] = scope.end[places[at]];
      }
      std::vector<Accumulator> own;
      for (const Accumulator& all : into) own.emplace_back(all.fold, count).take(all, places);
      const AggregateScope limits{first.data(), last.data(), scope.end ? end.data() : nullptr, scope.staged, scope.prevailing, scope.own, count};
      const AggregateProbes<Key> part{places, probes.lower + from, probes.upper + from, count};
      for (const auto& [run, staged] : met) fold_chunk(*run, staged, part, limits, which, found, own);
      if (scope.prevailing) fold_prevailing(part, limits, which, found, own);
      for (size_t at = 0; at < count; ++at) counts[places[at]] += found[at];
      for (size_t at = 0; at < own.size(); ++at) own[at].give(into[at], places, appending);
    });
  }
}

template <class Key>
void AggregateWindow<Key>::fold_chunk(const SortedRun& run, bool staged, const AggregateProbes<Key>& probes,
                                      const AggregateScope& scope, const std::vector<uint32_t>& which,
                                      CallVector<int64_t>& counts, std::vector<Accumulator>& into) const {
  uint32_t starts[kChunk], ends[kChunk], places[kChunk];  // ranges of rows that count
  const Key* keys = run.keys.data();
  const size_t length = run.length();
  const bool by_row = staged && scope.end != nullptr;
  size_t whole = 0, start = 0, end = 0, checked = 0;
  const auto flush = [&] {
    for (size_t at = 0; at < which.size(); ++at) run.tracks[which[at]]->fold(starts, ends, places, whole, into[at]);
    whole = 0;
  };
  const auto fold = [&](size_t from_row, size_t to_row, uint32_t place) {
    if (whole == kChunk) flush();
    starts[whole] = static_cast<uint32_t>(from_row);
    ends[whole] = static_cast<uint32_t>(to_row);
    places[whole++] = place;
    counts[place] += static_cast<int64_t>(to_row - from_row);
  };
  // Of some rows those that `counts_row` says, each stretch of them at once.
  const auto fold_some = [&](uint32_t place, auto&& counts_row) {
    size_t begin = end;
    for (size_t row = start; row < end; ++row) {
      const bool own = counts_row(row);
      if (own && begin == end) begin = row;
      if (own || begin == end) continue;
      fold(begin, row, place);
      begin = end;
    }
    if (begin < end) fold(begin, end, place);
  };
  std::pair<size_t, size_t> ranks;
  int64_t ranked_first = 0, ranked_last = -1;  // mostly all probes have the same limits
  for (size_t at = 0; at < probes.count; ++at) {
    const Key lower = loaded(probes.lower, at), upper = loaded(probes.upper, at);
    const uint32_t place = static_cast<uint32_t>(at);
    const int64_t first = scope.first[place], last = scope.last[place];
    if (lower > upper || run.last < first || run.first > last) continue;
    start = seek(keys, length, start, lower);
    end = upper == kGreatest<Key> ? length : seek(keys, length, end, upper + 1);
    if (start >= end) continue;
    if (by_row) {
      if ((checked += end - start) >= kCheckpoint) {
        checkpoint();
        checked = 0;
      }
      fold_some(place, [&](size_t row) { return run.rows[row] < scope.end[place] && run.limited[row] >= first && run.limited[row] <= last; });
    } else if (first <= run.first && run.last <= last) {
      fold(start, end, place);
    } else if (end - start <= kFewRows) {
      fold_some(place, [&](size_t row) { return run.limited[row] >= first && run.limited[row] <= last; });
    } else {
      if (first != ranked_first || last != ranked_last) {
        ranks = run.tree->ranks(first, last);
        ranked_first = first;
        ranked_last = last;
      }
      counts[place] += static_cast<int64_t>(run.tree->fold(start, end, ranks, place, run.tracks, which, into));
    }
  }
  flush();
}

template <class Key>
void AggregateWindow<Key>::fold_prevailing(const AggregateProbes<Key>& probes, const AggregateScope& scope,
                                           const std::vector<uint32_t>& which, CallVector<int64_t>& counts,
                                           std::vector<Accumulator>& into) const {
  std::vector<const SortedRun*> runs;
  if (held_) runs.push_back(held_.get());
  for (const auto& run : runs_) runs.push_back(run.get());
  if (staged_ && scope.staged) runs.push_back(staged_.get());
  std::vector<size_t> hints(runs.size());
  for (size_t probe = 0; probe < probes.count; ++probe) {
    const Key key = loaded(probes.lower, probe);
    if (key > loaded(probes.upper, probe)) continue;
    const SortedRun* newest = nullptr;
    size_t at = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      const SortedRun& run = *runs[i];
      const size_t start = hints[i] = seek(run.keys.data(), run.length(), hints[i], key);
      const size_t end = key == kGreatest<Key> ? run.length() : seek(run.keys.data(), run.length(), start, key + 1);
      const int64_t* limited = run.limited.data();
      size_t row = std::lower_bound(limited + start, limited + end, scope.first[probe]) - limited;
      if (&run == staged_.get() && scope.end) {
        while (row > start && run.rows[row - 1] >= scope.end[probe]) --row;
      }
      if (row == start) continue;
      --row;
      if (newest && std::pair(run.limited[row], run.rows[row]) < std::pair(newest->limited[at], newest->rows[at])) continue;
      newest = &run;
      at = row;
    }
    if (!newest) continue;
    ++counts[probe];
    for (size_t i = 0; i < which.size(); ++i) {
      newest->tracks[which[i]]->fold(at, at + 1, static_cast<uint32_t>(probe), into[i]);
    }
  }
}

// The rows of a run before a limit go: of each key the newest of them and of those that went before is held.
template <class Key>
void AggregateWindow<Key>::hold(const SortedRun& run, int64_t before) {
  if (!prevailing_) return;
  const size_t held = this->held();
  CallVector<uint32_t> chosen;
  size_t other = 0;
  for (size_t start = 0, end = 0; start < run.length(); start = end) {
    const Key key = run.keys[start];
    for (; other < held && held_->keys[other] < key; ++other) chosen.push_back(static_cast<uint32_t>(other));
    size_t gone = start;
    for (end = start; end < run.length() && run.keys[end] == key; ++end) gone += run.limited[end] < before;
    const bool both = other < held && held_->keys[other] == key;
    if (gone > start) {
      const auto newest = std::pair(run.limited[gone - 1], run.rows[gone - 1]);
      const bool stays = both && std::pair(held_->limited[other], held_->rows[other]) > newest;
      chosen.push_back(static_cast<uint32_t>(stays ? other : held + gone - 1));
    } else if (both) {
      chosen.push_back(static_cast<uint32_t>(other));
    }
    other += both;
  }
  for (; other < held; ++other) chosen.push_back(static_cast<uint32_t>(other));
  if (chosen.empty()) return;
  Array<uint32_t> from(chosen.size());
  std::copy(chosen.begin(), chosen.end(), from.data());
  SortedRun kept;
  if (held_) {
    kept = gathered(*held_, &run, from);
  } else {
    kept = gathered(run, nullptr, from);
  }
  held_ = std::make_unique<SortedRun>(std::move(kept));
}

template <class Key>
void AggregateWindow<Key>::expire(int64_t before) {
  for (auto& run : runs_) {
    if (window_ || run->last < before || run->first >= before) continue;
    // A few rows far ahead of their time would keep a run that has expired but for them.
    if (static_cast<Wide>(before) - run->checked < width_ / 4) continue;
    run->checked = before;
    const int64_t* limited = run->limited.data();
    const size_t live = std::count_if(limited, limited + run->length(), [=](int64_t value) { return value >= before; });
    if (live < run->length() / 8) keep_from(*run, before);
  }
  std::erase_if(runs_, [&](const auto& run) {
    if (run->last >= before) return false;
    hold(*run, before);
    rows_ -= run->length();
    return true;
  });
}

template <class Key>
void AggregateWindow<Key>::purge(int64_t before) {
  for (auto& run : runs_) {
    if (run->last >= before && run->first < before) keep_from(*run, before);
  }
  expire(before);
}

// Keeps the rows at or past a limit, of which there is one at least.
template <class Key>
void AggregateWindow<Key>::keep_from(SortedRun& run, int64_t before) {
  hold(run, before);
  CallVector<uint32_t> live;
  for (size_t at = 0; at < run.length(); ++at) {
    if (run.limited[at] >= before) live.push_back(static_cast<uint32_t>(at));
  }
  Array<uint32_t> from(live.size());
  std::copy(live.begin(), live.end(), from.data());
  rows_ -= run.length() - live.size();
  run = gathered(run, nullptr, from);
}

template <class Key>
size_t AggregateWindow<Key>::bytes() const {
  size_t bytes = 0;
  const auto add = [&](const SortedRun& run) {
    bytes += run.keys.bytes() + run.limited.bytes() + run.rows.bytes() + (run.tree ? run.tree->bytes() : 0);
    for (const auto& track : run.tracks) bytes += track->bytes();
  };
  for (const auto& run : runs_) add(*run);
  if (held_) add(*held_);
  return bytes;
}

template <class Key>
int64_t AggregateWindow<Key>::oldest(int64_t none) const {
  int64_t oldest = none;
  for (const auto& run : runs_) oldest = run == runs_.front() ? run->first_row : std::min(oldest, run->first_row);
  return oldest;
}

template class AggregateWindow<int64_t>;
template class AggregateWindow<Wide>;

}  // namespace muntin
