// A step of many rows: sort both batches, probe both windows, copy the pairs, store the rows, merge and expire.
#include <numeric>
#include <span>

#include "engine/engine.hpp"
#include "index/registry.hpp"

namespace muntin {
namespace {

template <class Key>
class BatchedEngine final : public Engine {
 public:
  using Word = WordOf<Key>;
  using Probes = ProbesOf<Word>;
  using Index = WindowIndex<Key>;

  explicit BatchedEngine(const Opening& opening)
      : Engine(opening.window), kernels_(opening.kernels), intervals_{opening.condition.of<Key>(0), opening.condition.of<Key>(1)} {
    for (int side = 0; side < window_.sides(); ++side) {
      index_[side] = make_index<Key>(opening.index, {.kernels = opening.kernels,
                                                     .window_rows = static_cast<size_t>(window_.rows(side)),
                                                     .time_width = window_.width(),
                                                     .recording = opening.recording});
      runs_[side] = index_[side]->numbered_runs();
    }
  }

  Result step(const StepRequest& request) override {
    check(request, runs_[0] != nullptr);
    const Poll poll = request.poll;
    const auto input = [&](int side) -> const Input& { return *request.probes[side]; };
    // To wake a thread takes longer than to do what there is in a short step.
    const int threads = request.count() + last_pairs_ / 8 < kFewRows ? 1 : request.threads;
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
      BatchedEngine& engine;
      const uint64_t before;
      const Times::Mark marks[2];
    } undo{*this, before, {times_[0].mark(), times_[1].mark()}};
    const auto sides = static_cast<size_t>(window_.sides());
    for (size_t side = 0; side < sides; ++side) {
      const Input& in = *request.stores[side];
      if (in.times != nullptr && in.stored) times_[side].put(in.rows, in.first_row, in.times, in.count);
    }
    apart_ = request.apart();
    run_tasks(apart_ ? 2 * sides : sides, threads, poll, [&](size_t task) {
      task < sides ? sort(batch_[task], *request.probes[task]) : sort(stored_[task - sides], *request.stores[task - sides]);
    });
    lap(seconds[0]);

    Result result;
    const auto chunks_of = [&](int side) { return request.probing() ? (input(side).count + kChunk - 1) / kChunk : 0; };
    const size_t chunks[2] = {chunks_of(0), chunks_of(1)};
    const size_t all = chunks[0] + chunks[1];
    while (matches_.size() < all) matches_.emplace_back();
    const auto side_of = [&](size_t task) { return task < chunks[0] ? 0 : 1; };
    Budget budget(request.max_pairs);
    const auto probe_all = [&](Want want) {
      for (int side = 0; side < 2; ++side) counts_[side].assign(want == Want::kCounts ? input(side).count : 0, 0);
      run_tasks(all, threads, poll, [&](size_t task) {
        const int side = side_of(task);
        matches_[task].clear();
        if (want == Want::kPairs) matches_[task].budget = &budget;
        probe(side, input(side), task - (side == 0 ? 0 : chunks[0]), want, matches_[task]);
        matches_[task].settle();
      });
    };
    try {
      probe_all(request.want);
    } catch (const TooManyPairs&) {
      result.refused = true;
      probe_all(Want::kCounts);
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
    if (request.probing()) observe(input(0).count, result.pairs[0], input(1).count, result.pairs[1]);
    if (request.ranging()) {
      for (size_t task = 0; task < all; ++task) list(input(side_of(task)), matches_[task], result.ranges[side_of(task)]);
    } else if (!request.counting() && offsets_[all] > 0) {
      result.left = Block(offsets_[all] * sizeof(int64_t), Use::kResult);
      result.right = Block(offsets_[all] * sizeof(int64_t), Use::kResult);
      run_tasks(all, threads, poll, [&](size_t task) { copy(side_of(task), input(side_of(task)), task, result); });
    }
    for (size_t task = 0; task < all; ++task) matches_[task].clear();  // what many pairs took
    lap(seconds[2]);

    ++applied;
    run_tasks(sides, threads, nullptr, [&](size_t side) {
      const Input& in = *request.stores[side];
      Run<Key>& run = (apart_ ? stored_ : batch_)[side].run;
      if (in.stored && !(apart_ && run.length() == 0)) index_[side]->insert(std::move(run), times_[side]);
      batch_[side] = Batch();  // its memory goes to the next step, or to the result's reader
      stored_[side] = Batch();
      if (in.count && in.stored) arrived_[side] = std::max(arrived_[side], in.last_row() + 1);
      expire(static_cast<int>(side));
    });
    maintain(request.count(), threads);
    lap(seconds[3]);
    return result;
  }

  void arrived(int side, int64_t rows) override {
    arrived_[side] = std::max(arrived_[side], rows);
    if (side < window_.sides()) expire(side);
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
    NumberedRuns<Key>* const runs = runs_[window_.stored(side)];
    if (runs == nullptr) return numbers;
    for (const RunEvent& event : runs->take_events()) {
      numbers.insert(numbers.end(), {event.kind, event.run, event.first, event.second});
    }
    return numbers;
  }

  size_t rows(int side) const override { return index_of(side).rows(); }
  size_t runs(int side) const override { return index_of(side).runs(); }
  int64_t oldest(int side, int64_t none) const override { return index_of(side).oldest(none); }
  Figures figures(int side) const override { return index_of(side).figures(); }
  size_t bytes() const override {
    size_t bytes = 0;
    for (int side = 0; side < window_.sides(); ++side) {
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

  // One side's batch of this step, sorted.
  struct Batch {
    Block words, places;  // sorted keys packed above places, if they are not the run's words; places of wide keys
    Row first = 0;        // what places in narrow words are offset by
    Run<Key> run;
    int64_t min_other_position, max_other_position;

    const Word* probing() const { return words.data() ? static_cast<const Word*>(words.data()) : run.words(); }
    // Tells where the i-th row by key stands in the batch.
    auto place_of() const {
      return [words = probing(), first = first, wide = static_cast<const uint32_t*>(places.data())](size_t i) {
        return kNarrow ? static_cast<uint32_t>(words[i]) - first : wide[i];
      };
    }
  };

  Index& index_of(int side) { return *index_[window_.stored(side)]; }
  const Index& index_of(int side) const { return *index_[window_.stored(side)]; }
  Times& times_of(int side) { return times_[window_.stored(side)]; }
  const Batch& batch_of(int side) const { return batch_[window_.stored(side)]; }
  // What rows of the other side meet of this step's.
  const Run<Key>& met_of(int side) const { return (apart_ ? stored_ : batch_)[window_.stored(side)].run; }

  void expire(int side) {
    if (!window_.timed()) index_[side]->expire_rows(arrived_[side] - window_.rows(side));
  }

  void trim(int side) { times_of(side).trim(index_of(side).oldest(std::numeric_limits<int64_t>::max())); }

  void sort(Batch& batch, const Input& in) {
    batch.run = Run<Key>();
    if (in.count == 0) return;
    batch.min_other_position = batch.max_other_position = in.other_position ? in.other_position[0] : in.same_other_position;
    if (in.other_position) {
      for (size_t i = 0; i < in.count; ++i) {
        batch.min_other_position = std::min(batch.min_other_position, in.other_position[i]);
        batch.max_other_position = std::max(batch.max_other_position, in.other_position[i]);
      }
    }
    if (batch.min_other_position < 0) throw std::invalid_argument("other_position must be arrival numbers from 0 on");
    Extent extent{in.row(0), in.last_row(), 0, 0};
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
      return static_cast<Row>(in.row(place));
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
    const Batch& batch = batch_of(side);
    const Word* words = batch.probing();
    const auto place_of = batch.place_of();
    const auto word = [](Key key, [[maybe_unused]] uint32_t low) {
      if constexpr (kNarrow) {
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
    const BandOf<Key>& band = intervals_[side][interval];
    for (size_t i = from; i < to; ++i) {
      const auto [low, high] = band.of(Run<Key>::key(words[i]));
      add(place_of(i), low, high);
    }
    return count;
  }

  void probe(int side, const Input& in, size_t chunk, Want want, Matches& matches) {
    const bool counting = want == Want::kCounts;
    const int other = 1 - side;
    const size_t from = chunk * kChunk, to = std::min(from + kChunk, in.count);
    Word lower[kChunk], upper[kChunk];
    uint32_t probes[kChunk], all[kChunk];
    const Batch& batch = batch_of(side);
    Scope scope{};
    scope.other_position = in.other_position;
    scope.same_other_position = in.same_other_position;
    scope.min_other_position = batch.min_other_position;
    scope.max_other_position = batch.max_other_position;
    scope.span = window_.span(other);
    scope.counting = counting;
    scope.counts = counting ? counts_[side].data() : nullptr;
    if (in.times) {
      scope.times = in.times;
      scope.stored_times = &times_of(other);
      scope.first_time = batch.run.extent.first_time;
      scope.last_time = batch.run.extent.last_time;
      scope.low = window_.first_apart(side);
      scope.high = window_.last_apart(side);
    }
    const size_t intervals = in.bounded ? in.bounds.size() : intervals_[side].size();
    for (size_t interval = 0; interval < intervals; ++interval) {
      const Probes some{lower, upper, probes, bounds(side, in, interval, from, to, lower, upper, probes)};
      if (want == Want::kAllRanges) {
        const auto place_of = batch.place_of();
        for (size_t i = from; i < to; ++i) all[i - from] = place_of(i);
      } else if (some.count == 0) {
        continue;
      }
      if (want == Want::kRanges || want == Want::kAllRanges) {
        const std::span<const uint32_t> empty(all, want == Want::kAllRanges ? to - from : 0);
        const auto find = [&](int64_t number, const Run<Key>& run) { ranges(number, run, some, scope, empty, matches); };
        const NumberedRuns<Key>& runs = *runs_[window_.stored(other)];
        runs.each_run(find);
        find(runs.next_run(), met_of(other));
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
    if (run.length() == 0 || extent.last_row < scope.min_other_position - scope.span) return;
    if (extent.first_row >= scope.max_other_position) return;
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
        out.insert(out.end(), {in.row(found.probe), part.run, found.start, int64_t{found.start} + found.length});
      }
    }
  }

  void copy(int side, const Input& in, size_t task, const Result& result) {
    const Matches& matches = matches_[task];
    auto* left = static_cast<int64_t*>(result.left.data()) + offsets_[task];
    auto* right = static_cast<int64_t*>(result.right.data()) + offsets_[task];
    // Rows that probes may meet have numbers below this one, and less than 2**32 below it.
    const int64_t base = std::max<int64_t>(batch_of(side).max_other_position - (int64_t{1} << 32), 0);
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

  // Tells indexes what rows have asked of them.
  void observe(size_t left, size_t left_pairs, size_t right, size_t right_pairs) {
    if (window_.self_join) {
      index_[0]->observe(left + right, left_pairs + right_pairs);
    } else {
      index_[1]->observe(left, left_pairs);
      index_[0]->observe(right, right_pairs);
    }
  }

  // What is left of the budget goes to the merges that those of a round have made due.
  void maintain(size_t arrived, int threads) {
    const int sides = window_.sides();
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
  const std::vector<BandOf<Key>> intervals_[2];  // by the role of the rows that probe
  std::unique_ptr<Index> index_[2];
  NumberedRuns<Key>* runs_[2] = {nullptr, nullptr};  // of the indexes, where a result can name them
  Times times_[2];
  Batch batch_[2];   // that probe
  Batch stored_[2];  // that are stored, where those are others
  bool apart_ = false;
  CallVector<int64_t> counts_[2];
  std::vector<Matches> matches_;
  std::vector<size_t> offsets_;
  uint64_t last_pairs_ = 0;
};

}  // namespace

std::unique_ptr<Engine> open_batched(const Opening& opening) {
  switch (opening.key_bytes) {
    case 4: return std::make_unique<BatchedEngine<int32_t>>(opening);
    case 8: return std::make_unique<BatchedEngine<int64_t>>(opening);
    default: return std::make_unique<BatchedEngine<Wide>>(opening);
  }
}

}  // namespace muntin
