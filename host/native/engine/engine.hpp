// A step of the join: sort both batches, probe both windows, copy the pairs, store the rows, merge and expire.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "core/threads.hpp"
#include "core/window_index.hpp"

namespace muntin {

// An interval of differences of encoded keys, `low <= right - left <= high`.
struct Band {
  Wide low, high;
};

struct Settings {
  int64_t window[2];  // rows of each side's count window; both 0 for a time window
  Wide time_low, time_high;  // of right less left
  bool self_join;           // one stream in both roles, with one index
  std::vector<Band> bands;  // disjoint, ascending; not used where bounds come with the rows
  std::vector<std::vector<Band>> others;  // of further conditions, for engines that index several
};

// Keys of a further condition, by place, and their bounds as those of `Input`.
struct OtherKeys {
  const void* keys;
  std::vector<std::pair<const void*, const void*>> bounds;
  bool bounded;
};

// Rows of one side, in order of arrival. Pointers that may be null stand for what is said.
struct Input {
  const void* keys;         // of 128 bits: within 2**98 of 0
  size_t count;
  const int64_t* rows;      // ascending arrival numbers; null: from `first_row` on
  int64_t first_row;
  const int64_t* opposite;  // rows of the other stream that came before each; null: `same_opposite` for all
  int64_t same_opposite;
  const int64_t* times;     // null in count windows
  // Bounds on the other side's keys, one pair of arrays for each interval, by place; a row with lower > upper has none.
  std::vector<std::pair<const void*, const void*>> bounds;
  bool bounded;             // they come with the rows, though there may be none
  bool stored = true;       // later rows may meet them
  std::vector<OtherKeys> others = {};
  const uint32_t* order = nullptr;  // the places in the order of keys, ties by place; null: not known
};

constexpr uint64_t kAnyPairs = std::numeric_limits<uint64_t>::max();

// Pairs of a step: those found by left rows, then those found by right rows.
struct Result {
  Block left, right;  // int64 arrival numbers
  size_t pairs[2] = {0, 0};
  CallVector<int64_t> counts[2];  // by place, when counting, and of a step that was refused
  bool refused = false;
  CallVector<int64_t> ranges[2];  // found by rows of each side, four numbers each: probing row, run, start and end in it
};

// What a step is to find: pairs; their numbers by row; ranges of runs; or those and, for every run that a row may meet,
// empty ones.
enum class Form { kPairs, kCounts, kRanges, kAllRanges };

// A part of an engine that has failed: its number, why, and how many rows of each side went with it.
struct Failure {
  size_t core;
  std::string why;
  size_t lost[2];
};

class EngineBase {
 public:
  virtual ~EngineBase() = default;
  // `input` probes, `storing` is stored and met by the other side's rows of `input`: the same array where all rows do
  // both. In a self join with one index the rows of `storing` are those of one side. Where there are more than `most`
  // pairs, the step is refused, with their numbers by row: it has changed nothing. An engine that stores rows before all have
  // probed throws TooManyPairs instead, and is of no use then.
  virtual Result step(const Input (&input)[2], const Input (&storing)[2], Form form, bool probing, int threads,
                      Poll poll, uint64_t most) = 0;
  virtual std::vector<int64_t> take_events(int) { return {}; }  // of runs, four numbers each: see RunEvent
  virtual void expire_times(int side, int64_t limit) = 0;
  virtual void purge(int side, int64_t limit) = 0;
  virtual void arrived(int side, int64_t rows) = 0;
  virtual size_t rows(int side) const = 0;
  virtual size_t bytes() const = 0;
  virtual size_t runs(int side) const = 0;
  virtual int64_t oldest(int side, int64_t none) const = 0;
  virtual Figures figures(int side) const = 0;
  virtual Figures report(bool /* reset */) { return {}; }  // what the engine itself tells, since it was opened or reset
  virtual std::vector<Failure> failures() const { return {}; }
  // For tests: a core fails after so many more rows.
  virtual void inject_fault(size_t, int64_t) { throw std::invalid_argument("this engine has no cores that could fail"); }
  // For tests: merges in the background wait where they begin (1), or once they are done (2), until this is 0.
  virtual void hold_merges(int) { throw std::invalid_argument("this engine has no merges in the background"); }
  double seconds[4] = {0, 0, 0, 0};  // sort, probe, copy, store
  uint64_t applied = 0;              // steps that have begun to change what is held: those that failed before changed nothing
  uint64_t probed_runs = 0;
};

template <WindowIndex Index>
class Engine final : public EngineBase {
 public:
  using Key = typename Index::Key;
  using Word = WordOf<Key>;
  using Probes = ProbesOf<Word>;

  Engine(const KernelTable& kernels, const Settings& settings, std::unique_ptr<Index> left,
         std::unique_ptr<Index> right)
      : kernels_(kernels), settings_(settings), index_{std::move(left), std::move(right)} {}

  Result step(const Input (&input)[2], const Input (&storing)[2], Form form, bool probing, int threads,
              Poll poll, uint64_t most) override {
    const bool counting = form == Form::kCounts, ranging = form == Form::kRanges || form == Form::kAllRanges;
    if (ranging && !kRuns) throw std::invalid_argument("ranges are of sorted runs");
    if (settings_.self_join && input[0].count != input[1].count) {
      throw std::invalid_argument("both sides of a self join are the same rows");
    }
    for (int side = 0; side < 2; ++side) {
      if (storing[side].count > 0 && first_row(storing[side]) < arrived_[settings_.self_join ? 0 : side]) {
        throw std::invalid_argument("rows must come after those of earlier steps");
      }
    }
    // To wake a thread takes longer than to do what there is in a short step.
    if (input[0].count + input[1].count + last_pairs_ / 8 < kFewRows) threads = 1;
    auto clock = std::chrono::steady_clock::now();
    const auto lap = [&clock](double& seconds) {
      const auto now = std::chrono::steady_clock::now();
      seconds += std::chrono::duration<double>(now - clock).count();
      clock = now;
    };
    const uint64_t before = applied;
    const struct Undo {  // of what the step needs and a step that is refused or fails leaves
      ~Undo() {
        if (engine.applied != before) return;
        for (int side = 0; side < 2; ++side) {
          engine.times_[side].take_back(marks[side]);
          engine.batch_[side] = Batch();
          engine.stored_[side] = Batch();
        }
        for (Matches& matches : engine.matches_) matches.clear();
      }
      Engine& engine;
      const uint64_t before;
      const Times::Mark marks[2];
    } undo{*this, before, {times_[0].mark(), times_[1].mark()}};
    for (int side = 0; side < 2; ++side) {
      const Input& in = storing[side];
      if (in.times != nullptr && in.stored && !(settings_.self_join && side == 1)) {
        times_[side].put(in.rows, in.first_row, in.times, in.count);
      }
    }
    const size_t sides = settings_.self_join ? 1 : 2;
    apart_ = &storing != &input;
    run_tasks(apart_ ? 2 * sides : sides, threads, poll, [&](size_t task) {
      task < sides ? sort(batch_[task], input[task]) : sort(stored_[task - sides], storing[task - sides]);
    });
    lap(seconds[0]);

    Result result;
    const auto chunks_of = [&](int side) { return probing ? (input[side].count + kChunk - 1) / kChunk : 0; };
    const size_t chunks[2] = {chunks_of(0), chunks_of(1)};
    const size_t all = chunks[0] + chunks[1];
    while (matches_.size() < all) matches_.emplace_back();
    const auto side_of = [&](size_t task) { return task < chunks[0] ? 0 : 1; };
    Budget budget(most);
    const auto probe_all = [&](Form wanted) {
      for (int side = 0; side < 2; ++side) counts_[side].assign(wanted == Form::kCounts ? input[side].count : 0, 0);
      run_tasks(all, threads, poll, [&](size_t task) {
        const int side = side_of(task);
        matches_[task].clear();
        if (wanted == Form::kPairs) matches_[task].budget = &budget;
        probe(side, input[side], task - (side == 0 ? 0 : chunks[0]), wanted, matches_[task]);
        matches_[task].settle();
      });
    };
    try {
      probe_all(form);
    } catch (const TooManyPairs&) {
      result.refused = true;
      probe_all(Form::kCounts);
    }
    for (int side = 0; side < 2; ++side) probed_runs += chunks[side] ? index_of(1 - side).runs() : 0;
    lap(seconds[1]);

    for (int side = 0; side < 2; ++side) result.counts[side] = std::move(counts_[side]);
    if (result.refused) return result;
    offsets_.assign(all + 1, 0);
    for (size_t task = 0; task < all; ++task) {
      offsets_[task + 1] = offsets_[task] + matches_[task].pairs;
      result.pairs[side_of(task)] += matches_[task].pairs;
    }
    last_pairs_ = offsets_[all];
    if (probing) observe(input[0].count, result.pairs[0], input[1].count, result.pairs[1]);
    if (ranging) {
      for (size_t task = 0; task < all; ++task) list(input[side_of(task)], matches_[task], result.ranges[side_of(task)]);
    } else if (!counting && offsets_[all] > 0) {
      result.left = Block(offsets_[all] * sizeof(int64_t), Use::kResult);
      result.right = Block(offsets_[all] * sizeof(int64_t), Use::kResult);
      run_tasks(all, threads, poll, [&](size_t task) { copy(side_of(task), input[side_of(task)], task, result); });
    }
    for (size_t task = 0; task < all; ++task) matches_[task].clear();  // what many pairs took
    lap(seconds[2]);

    ++applied;
    run_tasks(sides, threads, nullptr, [&](size_t side) {
      const Input& in = storing[side];
      Run<Key>& run = (apart_ ? stored_ : batch_)[side].run;
      if (in.stored && !(apart_ && run.length() == 0)) {
        if constexpr (requires { index_[side]->insert(std::move(run), times_[side]); }) {
          index_[side]->insert(std::move(run), times_[side]);
        } else {
          index_[side]->insert(std::move(run));
        }
      }
      batch_[side] = Batch();  // its memory goes to the next step, or to the result's reader
      stored_[side] = Batch();
      if (in.count && in.stored) arrived_[side] = std::max(arrived_[side], last_row(in) + 1);
      expire(static_cast<int>(side));
    });
    maintain(input[0].count + input[1].count, threads);
    lap(seconds[3]);
    return result;
  }

  void arrived(int side, int64_t rows) override {
    arrived_[side] = std::max(arrived_[side], rows);
    if (!(settings_.self_join && side == 1)) expire(side);
  }

  void expire_times(int side, int64_t limit) override {
    index_of(side).expire_times(limit, times_of(side));
    trim(side);
  }
  void purge(int side, int64_t limit) override {
    index_of(side).purge(limit, times_of(side));
    trim(side);
  }

  std::vector<int64_t> take_events(int side) override {
    std::vector<int64_t> numbers;
    if constexpr (kRuns) {
      for (const auto& event : index_of(side).take_events()) {
        numbers.insert(numbers.end(), {event.kind, event.run, event.first, event.second});
      }
    }
    return numbers;
  }

  size_t rows(int side) const override { return index_of(side).rows(); }
  size_t runs(int side) const override { return index_of(side).runs(); }
  int64_t oldest(int side, int64_t none) const override { return index_of(side).oldest(none); }
  Figures figures(int side) const override { return index_of(side).figures(); }
  size_t bytes() const override {
    size_t bytes = 0;
    for (int side = 0; side < (settings_.self_join ? 1 : 2); ++side) {
      bytes += index_[side]->bytes() + times_[side].bytes();
    }
    return bytes;
  }

 private:
  static constexpr size_t kChunk = 2048;        // probes of a task
  static constexpr size_t kFewRows = 6144;      // of a step that one thread does, pairs counted as an eighth of a row
  static constexpr size_t kWorkRows = 1 << 15;  // merged in a step at least, if there is so much
  static constexpr size_t kWorkFactor = 16;     // and of the rows of a step

  static constexpr bool kNarrow = !Run<Key>::kRows;
  // Whether the index is of runs that a probe's result can name.
  static constexpr bool kRuns = sizeof(Key) < 16 && requires(Index& index) {
    index.each_run([](int64_t, const Run<Key>&) {});
    index.take_events();
  };

  // One side's batch of this step, sorted.
  struct Batch {
    Block words, places;  // sorted keys packed above places, if they are not the run's words; places of wide keys
    Row first = 0;        // what places in narrow words are offset by
    Run<Key> run;
    int64_t least_opposite, most_opposite;

    const Word* probing() const { return words.data() ? static_cast<const Word*>(words.data()) : run.words(); }
    // Tells where the i-th row by key stands in the batch.
    auto place_of() const {
      return [words = probing(), first = first, wide = static_cast<const uint32_t*>(places.data())](size_t i) {
        return kNarrow ? static_cast<uint32_t>(words[i]) - first : wide[i];
      };
    }
  };

  Index& index_of(int side) { return *index_[settings_.self_join ? 0 : side]; }
  const Index& index_of(int side) const { return *index_[settings_.self_join ? 0 : side]; }
  Times& times_of(int side) { return times_[settings_.self_join ? 0 : side]; }
  const Batch& batch_of(int side) const { return batch_[settings_.self_join ? 0 : side]; }
  // What rows of the other side meet of this step's.
  const Run<Key>& met_of(int side) const { return (apart_ ? stored_ : batch_)[settings_.self_join ? 0 : side].run; }

  int64_t window(int side) const { return settings_.window[side]; }

  void expire(int side) {
    if (settings_.window[0] == 0) return;
    const int64_t most = settings_.self_join ? std::max(window(0), window(1)) : window(side);
    index_[side]->expire_rows(arrived_[side] - most);
  }

  static int64_t first_row(const Input& in) { return in.rows ? in.rows[0] : in.first_row; }
  static int64_t last_row(const Input& in) {
    return in.rows ? in.rows[in.count - 1] : in.first_row + static_cast<int64_t>(in.count) - 1;
  }

  void trim(int side) { times_of(side).trim(index_of(side).oldest(std::numeric_limits<int64_t>::max())); }

  void sort(Batch& batch, const Input& in) {
    batch.run = Run<Key>();
    if (in.count == 0) return;
    batch.least_opposite = batch.most_opposite = in.opposite ? in.opposite[0] : in.same_opposite;
    if (in.opposite) {
      for (size_t i = 0; i < in.count; ++i) {
        batch.least_opposite = std::min(batch.least_opposite, in.opposite[i]);
        batch.most_opposite = std::max(batch.most_opposite, in.opposite[i]);
      }
    }
    if (batch.least_opposite < 0) throw std::invalid_argument("opposite must be arrival numbers from 0 on");
    Extent extent{first_row(in), last_row(in), 0, 0};
    if (in.times) {
      extent.first_time = extent.last_time = in.times[0];
      for (size_t i = 1; i < in.count; ++i) {
        extent.first_time = std::min(extent.first_time, in.times[i]);
        extent.last_time = std::max(extent.last_time, in.times[i]);
      }
    }
    batch.run = Run<Key>(in.count, extent);
    Word* out = batch.run.words();
    const auto first = static_cast<Row>(extent.first_row);
    // Narrow words hold row numbers. Where those are places plus a constant, a place is found from its word.
    const bool plain = !in.rows && first <= std::numeric_limits<Row>::max() - in.count;
    batch.first = plain ? first : 0;
    if (kNarrow && !plain) batch.words = Block(in.count * sizeof(Word));
    if (!kNarrow) batch.places = Block(in.count * sizeof(uint32_t));
    Word* words = batch.words.data() ? static_cast<Word*>(batch.words.data()) : out;
    auto* places = static_cast<uint32_t*>(batch.places.data());
    if (in.order != nullptr) {
      const auto* keys = static_cast<const Key*>(in.keys);
      for (size_t i = 0; i < in.count; ++i) {
        const uint32_t place = in.order[i];
        const bool after = i == 0 || (place < in.count && (keys[place] > keys[in.order[i - 1]] ||
                                                           (keys[place] == keys[in.order[i - 1]] && place > in.order[i - 1])));
        if (place >= in.count || !after) throw std::invalid_argument("order must be that of keys, ties by place");
        if constexpr (kNarrow) {
          words[i] = static_cast<Word>(static_cast<uint64_t>(keys[place]) << 32 | (batch.first + place));
        } else {
          words[i] = keys[place];
          places[i] = place;
        }
      }
    } else {
      const Block scratch(2 * in.count * sizeof(uint64_t));
      kernels_.of<Key>().sort(static_cast<const Key*>(in.keys), in.count, batch.first, words, places,
                              static_cast<uint64_t*>(scratch.data()));
    }
    const auto row = [&in](uint32_t place) {
      return static_cast<Row>(in.rows ? in.rows[place] : in.first_row + place);
    };
    if constexpr (!kNarrow) {
      for (size_t i = 0; i < in.count; ++i) batch.run.rows()[i] = row(places[i]);
    } else if (!plain) {
      for (size_t i = 0; i < in.count; ++i) out[i] = (words[i] & ~Word{0xFFFFFFFF}) | row(static_cast<uint32_t>(words[i]));
      // Where the low 32 bits of the numbers start again at 0, equal keys are not in the order of their words.
      if (static_cast<Row>(extent.first_row) > static_cast<Row>(extent.last_row)) std::sort(out, out + in.count);
    }
    batch.run.index(0, in.count);
    batch.run.seal();
  }

  // Bounds of a chunk for one interval; returns how many probes have any.
  size_t bounds(int side, const Input& in, size_t interval, size_t from, size_t to, Word* lower, Word* upper,
                uint32_t* probes) const {
    constexpr bool narrow = kNarrow;
    constexpr Wide most = kGreatest<Key>, least = -most - 1;
    const Batch& batch = batch_of(side);
    const Word* words = batch.probing();
    const auto place_of = batch.place_of();
    const auto word = [](Key key, [[maybe_unused]] uint32_t low) {
      if constexpr (narrow) {
        return static_cast<Word>(static_cast<uint64_t>(key) << 32 | low);
      } else {
        return Word{key};
      }
    };
    size_t count = 0;
    const auto add = [&](uint32_t place, Key low, Key high) {
      lower[count] = word(low, 0);
      upper[count] = word(high, 0xFFFFFFFF);
      probes[count] = place;
      count += low <= high;
    };
    if (in.bounded) {
      const auto* lowers = static_cast<const Key*>(in.bounds[interval].first);
      const auto* uppers = static_cast<const Key*>(in.bounds[interval].second);
      for (size_t i = from; i < to; ++i) {
        const uint32_t place = place_of(i);
        add(place, lowers[place], uppers[place]);
      }
      for (size_t i = 1; i < count; ++i) {
        if (lower[i] < lower[i - 1] || upper[i] < upper[i - 1]) {
          throw std::invalid_argument("bounds must ascend with the keys of their rows");
        }
      }
      return count;
    }
    const Band& band = settings_.bands[side == 0 ? interval : settings_.bands.size() - 1 - interval];
    const Wide low = side == 0 ? band.low : -band.high, high = side == 0 ? band.high : -band.low;
    // Of narrow keys, clipped ends do not overflow; those of 128 bits lie far from the ends of their type.
    using Sum = std::conditional_t<narrow, int64_t, Wide>;
    constexpr Wide far = narrow ? Wide{1} << 40 : Wide{1} << 100;
    const auto low_sum = static_cast<Sum>(std::clamp(low, -far, far)), high_sum = static_cast<Sum>(std::clamp(high, -far, far));
    for (size_t i = from; i < to; ++i) {
      const Key key = Run<Key>::key(words[i]);
      const Sum first = std::max<Sum>(key + low_sum, least), last = std::min<Sum>(key + high_sum, most);
      const uint32_t place = place_of(i);
      const bool some = first <= last;
      add(place, some ? static_cast<Key>(first) : Key{1}, some ? static_cast<Key>(last) : Key{0});
    }
    return count;
  }

  void probe(int side, const Input& in, size_t chunk, Form form, Matches& matches) {
    const bool counting = form == Form::kCounts;
    const int other = 1 - side;
    const size_t from = chunk * kChunk, to = std::min(from + kChunk, in.count);
    Word lower[kChunk], upper[kChunk];
    uint32_t probes[kChunk], all[kChunk];
    const Batch& batch = batch_of(side);
    Scope scope{};
    scope.opposite = in.opposite;
    scope.same_opposite = in.same_opposite;
    scope.least_opposite = batch.least_opposite;
    scope.most_opposite = batch.most_opposite;
    scope.span = settings_.window[0] == 0 ? std::numeric_limits<int64_t>::max() / 2 : window(other);
    scope.counting = counting;
    scope.counts = counting ? counts_[side].data() : nullptr;
    if (in.times) {
      scope.times = in.times;
      scope.stored_times = &times_of(other);
      scope.first_time = batch.run.extent.first_time;
      scope.last_time = batch.run.extent.last_time;
      scope.low = side == 0 ? settings_.time_low : -settings_.time_high;
      scope.high = side == 0 ? settings_.time_high : -settings_.time_low;
    }
    const size_t intervals = in.bounded ? in.bounds.size() : settings_.bands.size();
    for (size_t interval = 0; interval < intervals; ++interval) {
      const Probes some{lower, upper, probes, bounds(side, in, interval, from, to, lower, upper, probes)};
      if (form == Form::kAllRanges) {
        const auto place_of = batch.place_of();
        for (size_t i = from; i < to; ++i) all[i - from] = place_of(i);
      } else if (some.count == 0) {
        continue;
      }
      if (form == Form::kRanges || form == Form::kAllRanges) {
        if constexpr (kRuns) {
          const std::span<const uint32_t> empty(all, form == Form::kAllRanges ? to - from : 0);
          const auto find = [&](int64_t number, const Run<Key>& run) { ranges(number, run, some, scope, empty, matches); };
          index_of(other).each_run(find);
          find(index_of(other).next_run(), met_of(other));
        }
        continue;
      }
      index_of(other).probe(some, scope, matches);
      probe_run(kernels_, met_of(other), some, scope, matches);
    }
  }

  // The ranges of one run that probes find, whatever each of them may see; with the places of `all` rows the empty ones
  // too, also of rows whose bounds no key lies within.
  void ranges(int64_t number, const Run<Key>& run, const Probes& probes, const Scope& scope, std::span<const uint32_t> all,
              Matches& matches) {
    const Extent& extent = run.extent;
    if (run.length() == 0 || extent.last_row < scope.least_opposite - scope.span) return;
    if (extent.first_row >= scope.most_opposite) return;
    if (scope.times != nullptr && (extent.last_time < scope.low + scope.first_time ||
                                   extent.first_time > scope.high + scope.last_time)) {
      return;
    }
    const size_t before = matches.found.size();
    matches.found.resize(before + std::max(probes.count, all.size()));
    uint64_t candidates = 0;
    Found* const found = matches.found.data() + before;
    size_t some = kernels_.of<Key>().search(run.view(), probes.lower, probes.upper, probes.places, probes.count, found,
                                            &candidates);
    if (!all.empty()) {
      std::vector<Found> met(found, found + some);
      const auto by_probe = [](const Found& a, const Found& b) { return a.probe < b.probe; };
      std::sort(met.begin(), met.end(), by_probe);
      for (size_t at = 0; at < all.size(); ++at) {
        found[at] = {all[at], 0, 0};
        const auto of = std::lower_bound(met.begin(), met.end(), found[at], by_probe);
        if (of != met.end() && of->probe == found[at].probe) found[at] = *of;
      }
      some = all.size();
    }
    matches.found.resize(before + some);
    if (some > 0) matches.parts.push_back({nullptr, nullptr, before, before + some, number});
  }

  static void list(const Input& in, const Matches& matches, CallVector<int64_t>& out) {
    for (const Matches::Part& part : matches.parts) {
      for (size_t at = part.first; at < part.last; ++at) {
        const Found& found = matches.found[at];
        const int64_t row = in.rows ? in.rows[found.probe] : in.first_row + static_cast<int64_t>(found.probe);
        out.insert(out.end(), {row, part.run, found.start, int64_t{found.start} + found.length});
      }
    }
  }

  void copy(int side, const Input& in, size_t task, const Result& result) {
    const Matches& matches = matches_[task];
    auto* left = static_cast<int64_t*>(result.left.data()) + offsets_[task];
    auto* right = static_cast<int64_t*>(result.right.data()) + offsets_[task];
    // Rows that probes may meet have numbers below this one, and less than 2**32 below it.
    const int64_t base = std::max<int64_t>(batch_of(side).most_opposite - (int64_t{1} << 32), 0);
    PairsOut out{side == 0 ? left : right, side == 0 ? right : left, in.rows, in.first_row, base,
                 offsets_.back() * 2 * sizeof(int64_t) > kStreamBytes};
    for (const Matches::Part& part : matches.parts) {
      for (size_t first = part.first; first < part.last;) {
        const Found* found = matches.found.data() + first;
        uint64_t pairs = 0;
        const size_t start = first;
        while (first < part.last && pairs < kCheckpoint) pairs += matches.found[first++].length;
        if (part.words) {
          kernels_.emit_words(part.words, found, first - start, out);
        } else {
          kernels_.emit_rows(part.rows ? part.rows : matches.kept.data(), found, first - start, out);
        }
        out.probing += pairs;
        out.stored += pairs;
        checkpoint();
      }
    }
  }

  // Tells indexes that want to know what rows have asked of them.
  void observe(size_t left, size_t left_pairs, size_t right, size_t right_pairs) {
    if constexpr (requires(Index& index) { index.observe(left, left_pairs); }) {
      if (settings_.self_join) {
        index_[0]->observe(left + right, left_pairs + right_pairs);
      } else {
        index_[1]->observe(left, left_pairs);
        index_[0]->observe(right, right_pairs);
      }
    }
  }

  // What is left of the budget goes to the merges that those of a round have made due.
  void maintain(size_t arrived, int threads) {
    const int sides = settings_.self_join ? 1 : 2;
    size_t budget[2];
    budget[0] = budget[1] = std::max(kWorkRows, kWorkFactor * arrived);
    for (int round = 0; round < 4; ++round) {
      size_t pieces[2] = {0, 0};
      for (int side = 0; side < sides; ++side) {
        if (index_[side]->behind()) budget[side] = std::numeric_limits<size_t>::max();
        if (budget[side] > 0) pieces[side] = index_[side]->plan(budget[side]);
        budget[side] -= std::min(budget[side], pieces[side] * kPieceRows);
      }
      if (pieces[0] + pieces[1] == 0) return;
      run_tasks(pieces[0] + pieces[1], threads, nullptr, [&](size_t task) {
        if (task < pieces[0]) {
          index_[0]->work(task);
        } else {
          index_[1]->work(task - pieces[0]);
        }
      });
      for (int side = 0; side < sides; ++side) index_[side]->settle();
    }
  }

  static constexpr size_t kStreamBytes = size_t{16} << 20;

  const KernelTable& kernels_;
  const Settings settings_;
  std::unique_ptr<Index> index_[2];
  Times times_[2];
  Batch batch_[2];   // that probe
  Batch stored_[2];  // that are stored, where those are others
  bool apart_ = false;
  int64_t arrived_[2] = {0, 0};
  CallVector<int64_t> counts_[2];
  std::vector<Matches> matches_;
  std::vector<size_t> offsets_;
  uint64_t last_pairs_ = 0;
};

// What an engine is opened with. `parameters` are those of the index, by the names that users give them.
struct Opening {
  const KernelTable& kernels;
  Settings settings;
  std::map<std::string, double> parameters;
  std::string of = {};  // the index within: "csb_tree" of "slices/csb_tree"; its parameters begin with "of."

  double parameter(const std::string& name, double otherwise) const {
    const auto at = parameters.find(name);
    return at == parameters.end() ? otherwise : at->second;
  }
  // One that is a whole number of at least `least`; what is beyond 2**62 is as far as that.
  size_t number(const std::string& name, size_t least, size_t otherwise) const {
    const double value = parameter(name, static_cast<double>(otherwise));
    if (!(value >= static_cast<double>(least))) {
      throw std::invalid_argument(name + " is at least " + std::to_string(least));
    }
    return static_cast<size_t>(std::min(value, 0x1p62));
  }
  // Rows of a side that may lie in its window; 0 for time windows.
  size_t window_rows(int side) const {
    return static_cast<size_t>(settings.self_join ? std::max(settings.window[0], settings.window[1]) : settings.window[side]);
  }
};

// An engine over two indexes of one kind, each made by `make(side)`.
template <WindowIndex Index, class Make>
std::unique_ptr<EngineBase> make_engine(const Opening& opening, const Make& make) {
  return std::make_unique<Engine<Index>>(opening.kernels, opening.settings, make(0), make(1));
}

// Opens an engine over an index by its name, for one width of keys. Each family of indexes has a source file of its own.
using OpenEngine = std::unique_ptr<EngineBase> (*)(const Opening& opening);
struct IndexKind {
  const char* name;
  OpenEngine open_32, open_64;
  OpenEngine open_128 = nullptr;  // most have no keys of that width
};
extern const std::vector<IndexKind> kSortedIndexes;   // sorted_runs, sorted_array
extern const std::vector<IndexKind> kPanJoinIndexes;  // rap_table, wib_tree, bisort
extern const std::vector<IndexKind> kPimIndexes;      // bplus_tree, b_chain, ib_chain, im_tree, pim_tree
extern const std::vector<IndexKind> kTemporalIndexes; // csb_tree, burst_trie, radix_tree, judy, slices
extern const std::vector<IndexKind> kConjunctionIndexes;  // spo_join
extern const std::vector<IndexKind> kSharedIndexes;   // the same, under engine="shared"

}  // namespace muntin
