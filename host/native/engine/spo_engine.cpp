// SPO-Join: an engine that indexes every condition of a conjunction, in B+-Trees and in runs of permutation arrays.
//
// Source: SPO-Join, section 3. Where a step brings many rows, probes go through a run in the order of their keys, as
// IE-Join does: the offsets of their bounds are found by one pass over both (algorithm 3), and from one probe to the
// next only the bits change by which their ranges differ.
#include "engine/spo_prober.hpp"

#include <cmath>

namespace muntin {

using namespace spo;

namespace {

constexpr size_t kChunk = 8192;  // probes that go through a run together

class SpoEngine final : public Engine {
 public:
  explicit SpoEngine(const Opening& opening)
      : Engine(opening.window), kernels_(opening.kernels), conditions_(opening.others.size() + 1),
        slide_(opening.index.options.whole("slide", 0, 0)), sub_intervals_(opening.index.options.whole("sub_intervals", 1, 1)),
        hash_(opening.index.options.choice("mutable", {"bits", "hash"}) == 1),
        immutable_(static_cast<Immutable>(
            opening.index.options.choice("immutable", {"po_join", "po_join_bits", "css_bits", "css_hash"}))) {
    for (Side& side : sides_) side.widths.assign(conditions_, 0);
    for (size_t k = 0; k < conditions_; ++k) {
      const Condition& condition = k == 0 ? opening.condition : opening.others[k - 1];
      for (int role = 0; role < 2; ++role) intervals_[role].push_back(condition.of<int64_t>(role));
    }
  }

  Result step(const StepRequest& request) override {
    check(request, false);
    for (const auto& inputs : {request.probes, request.stores}) {
      for (int side = 0; side < 2; ++side) {
        if (inputs[side]->count > 0 && inputs[side]->others.size() + 1 != conditions_) {
          throw std::invalid_argument("every condition has its keys");
        }
      }
    }
    const bool counting = request.counting();
    const Poll poll = request.poll;
    ++applied;
    auto clock = std::chrono::steady_clock::now();
    const auto lap = [&clock](double& seconds) {
      const auto now = std::chrono::steady_clock::now();
      const double spent = std::chrono::duration<double>(now - clock).count();
      seconds += spent;
      clock = now;
      return spent;
    };
    const size_t probes = request.count();
    // To wake a thread takes longer than to do what there is in a short step.
    const int most = static_cast<double>(probes) * seconds_per_probe_ < 100e-6 ? 1 : request.threads;
    for (int side = 0; side < window_.sides(); ++side) store(side, *request.stores[side]);
    plant(request.stores, most, poll);
    lap(seconds[3]);

    std::vector<Chunk> chunks = request.probing() ? cut(request.probes) : std::vector<Chunk>();
    run_tasks(chunks.size() * conditions_, most, poll,
              [&](size_t task) { prepare(chunks[task / conditions_], *request.probes[chunks[task / conditions_].side], task % conditions_); });
    lap(seconds[0]);

    Result result;
    for (int side = 0; side < 2; ++side) counts_[side].assign(counting ? request.probes[side]->count : 0, 0);
    std::vector<Output> outputs;
    Budget budget(request.max_pairs);
    probe(chunks, request, most, outputs, budget);
    const double spent = lap(seconds[1]);
    if (request.probing() && probes > 0) seconds_per_probe_ = spent / static_cast<double>(probes);

    for (int side = 0; side < 2; ++side) result.counts[side] = std::move(counts_[side]);
    std::stable_sort(outputs.begin(), outputs.end(), [](const Output& a, const Output& b) { return a.side < b.side; });
    std::vector<size_t> starts{0};
    for (const Output& output : outputs) {
      starts.push_back(starts.back() + output.pairs);
      result.pairs[output.side] += output.pairs;
    }
    if (!counting && starts.back() > 0) {
      result.left = Block(starts.back() * sizeof(int64_t), Use::kResult);
      result.right = Block(starts.back() * sizeof(int64_t), Use::kResult);
      run_tasks(outputs.size(), most, poll, [&](size_t task) {
        copy(outputs[task], *request.probes[outputs[task].side], starts[task], result);
        outputs[task].rows = Buffer<int64_t>();
      });
    }
    lap(seconds[2]);
    for (int side = 0; side < window_.sides(); ++side) expire(side);
    lap(seconds[3]);
    return result;
  }

  void arrived(int side, int64_t rows) override {
    arrived_[side] = std::max(arrived_[side], rows);
    if (side < window_.sides()) expire(side);
  }

  void expire_times(int at, int64_t limit) override {
    Side& side = side_of(at);
    std::erase_if(side.runs, [&](const auto& run) { return run->extent.last_time <= limit; });
    if (side.part && side.part->extent.last_time <= limit) side.part.reset();
    trim(at);
  }

  void purge(int at, int64_t limit) override {
    Side& side = side_of(at);
    const auto kept = [&](int64_t row) { return times_of(at).of(row) > limit; };
    for (auto& run : side.runs) {
      if (run->extent.first_time > limit) continue;
      std::vector<CallVector<int64_t>> columns(conditions_, CallVector<int64_t>(run->length));
      CallVector<int64_t> rows(run->length);
      for (size_t k = 0; k < conditions_; ++k) {
        const uint32_t* permutation = run->permutation[k];
        for (size_t i = 0; i < run->length; ++i) columns[k][permutation ? permutation[i] : i] = run->keys[k][i];
      }
      for (size_t bit = 0; bit < run->length; ++bit) rows[bit] = run->row(bit);
      const auto part = thinned(at, rows, columns, kept);
      run = part->rows.empty() ? nullptr : std::make_shared<ImmutableRun>(*part, immutable_, run->order);
    }
    std::erase(side.runs, nullptr);
    if (side.part && side.part->extent.first_time <= limit) {
      std::vector<CallVector<int64_t>> columns(conditions_, CallVector<int64_t>(side.part->rows.size()));
      for (size_t k = 0; k < conditions_; ++k) {
        for (const auto* leaf = side.part->trees[k].first(); leaf != nullptr; leaf = leaf->next) {
          for (uint32_t i = 0; i < leaf->count; ++i) columns[k][leaf->ids[i]] = leaf->keys[i];
        }
      }
      side.part = thinned(at, side.part->rows, columns, kept);
      if (side.part->rows.empty()) side.part.reset();
    }
    trim(at);
  }

  size_t rows(int at) const override {
    size_t rows = side_of(at).part ? side_of(at).part->rows.size() : 0;
    for (const auto& run : side_of(at).runs) rows += run->length;
    return rows;
  }
  size_t runs(int at) const override { return side_of(at).runs.size(); }
  int64_t oldest(int at, int64_t none) const override {
    const Side& side = side_of(at);
    return !side.runs.empty() ? side.runs.front()->extent.first_row : side.part ? side.part->extent.first_row : none;
  }
  size_t bytes() const override {
    size_t bytes = prober_.bit_bytes();
    for (int at = 0; at < window_.sides(); ++at) {
      bytes += times_[at].bytes() + (sides_[at].part ? sides_[at].part->bytes() : 0);
      for (const auto& run : sides_[at].runs) bytes += run->bytes();
    }
    return bytes;
  }
  Figures figures(int at) const override {
    const Side& side = side_of(at);
    const size_t held = side.part ? side.part->rows.size() : 0, all = rows(at);
    std::vector<int64_t> run_rows;
    size_t bytes = side.part ? side.part->bytes() : 0;
    for (const auto& run : side.runs) {
      run_rows.push_back(static_cast<int64_t>(run->length));
      bytes += run->bytes();
    }
    return {{"run_rows", run_rows},
            {"mutable_rows", static_cast<int64_t>(held)},
            {"mutable_share", all == 0 ? 0.0 : static_cast<double>(held) / static_cast<double>(all)},
            {"merges", side.merges},
            {"merge_seconds", side.merge_seconds},
            {"queued_probes", side.queued},
            {"probes_by_bits", side.by_bits},
            {"probes_by_ranks", side.by_ranks},
            {"bit_array_bytes", static_cast<int64_t>(prober_.bit_bytes())},
            {"index_bytes", static_cast<int64_t>(bytes)}};
  }

 private:
  struct Side {
    std::vector<std::shared_ptr<const ImmutableRun>> runs;  // oldest first
    std::unique_ptr<MutablePart> part;
    // Since the last step: full parts, under construction, and the rows of the step that go to each part.
    struct Sown {
      MutablePart* part;
      size_t first_id, from, to;
    };
    std::vector<std::unique_ptr<MutablePart>> full;
    std::vector<Sown> sown;
    CallVector<double> widths;  // as in `Output`, over all steps
    double probes = 0, merge_seconds = 0;
    int64_t merges = 0, queued = 0, by_bits = 0, by_ranks = 0;
  };

  Side& side_of(int side) { return sides_[window_.stored(side)]; }
  const Side& side_of(int side) const { return sides_[window_.stored(side)]; }
  const Times& times_of(int side) const { return times_[window_.stored(side)]; }
  static const int64_t* keys(const Input& in, size_t k) {
    return static_cast<const int64_t*>(k == 0 ? in.keys : in.others[k - 1].keys);
  }

  // Rows that a mutable part takes: a slide, or a part of one (section 3.3). By default a slide is a tenth of the
  // window, of the rows there are in a time window.
  size_t interval(int side) const {
    const auto most = static_cast<size_t>(window_.rows(side));
    const size_t slide = slide_ > 0 ? slide_ : std::max<size_t>((most > 0 ? most : rows(side)) / 10, 1024);
    return std::max<size_t>(slide / sub_intervals_, 1);
  }

  // Puts the rows of a step into parts; their keys come later.
  void store(int at, const Input& in) {
    Side& side = sides_[at];
    side.sown.clear();
    if (in.times) times_[at].put(in.rows, in.first_row, in.times, in.count);
    const size_t most = interval(at);
    for (size_t place = 0; place < in.count;) {
      if (!side.part) side.part = std::make_unique<MutablePart>(conditions_);
      MutablePart& part = *side.part;
      const size_t held = part.rows.size();
      // Rows of a run lie within 2**32 arrival numbers.
      if (held > 0 && (held >= most || in.row(place) - part.extent.first_row > 0xFFFFFFFF)) {
        side.full.push_back(std::move(side.part));
        continue;
      }
      const size_t from = place;
      for (; place < in.count && part.rows.size() < most; ++place) {
        const int64_t row = in.row(place);
        if (!part.rows.empty() && row - part.extent.first_row > 0xFFFFFFFF) break;
        part.add(row, in.times ? in.times[place] : 0);
      }
      side.sown.push_back({&part, held, from, place});
    }
    if (side.part && side.part->rows.size() >= most) side.full.push_back(std::move(side.part));
    if (in.count) arrived_[at] = std::max(arrived_[at], in.row(in.count - 1) + 1);
  }

  // Inserts the keys of a step's rows, each condition's into its trees.
  void plant(const Input* const (&input)[2], int threads, Poll poll) {
    run_tasks(window_.sides() * conditions_, threads, poll, [&](size_t task) {
      const size_t at = task / conditions_, k = task % conditions_;
      const int64_t* values = input[at]->count ? keys(*input[at], k) : nullptr;
      CallVector<uint32_t> places;
      for (const typename Side::Sown& sown : sides_[at].sown) {
        KeyTree& tree = sown.part->trees[k];
        const size_t count = sown.to - sown.from;
        const auto id = [&](size_t place) { return static_cast<uint32_t>(sown.first_id + place); };
        checkpoint();
        if (count < 64) {
          for (size_t i = 0; i < count; ++i) tree.insert(values[sown.from + i], id(i));
          continue;
        }
        sort(values + sown.from, count, places);  // neighbours go to the same leaves
        for (const uint32_t i : places) tree.insert(values[sown.from + i], id(i));
      }
    });
  }

  void sort(const int64_t* values, size_t count, CallVector<uint32_t>& places) const {
    places.resize(count);
    const Block words(count * sizeof(Word)), room(2 * count * sizeof(uint64_t));
    kernels_.wide.sort(values, count, 0, static_cast<Word*>(words.data()), places.data(),
                       static_cast<uint64_t*>(room.data()));
  }

  std::vector<Chunk> cut(const Input* const (&input)[2]) const {
    std::vector<Chunk> chunks;
    for (int side = 0; side < 2; ++side) {
      const Input& in = *input[side];
      for (size_t first = 0; first < in.count; first += kChunk) {
        Chunk& chunk = chunks.emplace_back();
        chunk.side = side;
        chunk.first = first;
        chunk.count = std::min(kChunk, in.count - first);
        chunk.conditions.resize(conditions_);
        chunk.min_other_position = chunk.max_other_position = in.other_position_of(first);
        if (in.times) chunk.first_time = chunk.last_time = in.times[first];
        for (size_t i = first; i < first + chunk.count; ++i) {
          chunk.min_other_position = std::min(chunk.min_other_position, in.other_position_of(i));
          chunk.max_other_position = std::max(chunk.max_other_position, in.other_position_of(i));
          if (!in.times) continue;
          chunk.first_time = std::min(chunk.first_time, in.times[i]);
          chunk.last_time = std::max(chunk.last_time, in.times[i]);
        }
        if (chunk.min_other_position < 0) throw std::invalid_argument("other_position must be arrival numbers from 0 on");
      }
    }
    return chunks;
  }

  // Sorts a chunk by the keys of one condition, and bounds what it looks for.
  void prepare(Chunk& chunk, const Input& in, size_t k) const {
    Chunk::Condition& condition = chunk.conditions[k];
    const int64_t* values = keys(in, k) + chunk.first;
    sort(values, chunk.count, condition.order);
    const bool bounded = k == 0 ? in.bounded : in.others[k - 1].bounded;
    const auto& bounds = k == 0 ? in.bounds : in.others[k - 1].bounds;
    const std::vector<BandOf<int64_t>>& bands = intervals_[chunk.side][k];
    condition.intervals.resize(bounded ? bounds.size() : bands.size());
    for (size_t i = 0; i < condition.intervals.size(); ++i) {
      Chunk::Ends& ends = condition.intervals[i];
      ends.lower.resize(chunk.count);
      ends.upper.resize(chunk.count);
      if (bounded) {
        const auto* lower = static_cast<const int64_t*>(bounds[i].first) + chunk.first;
        const auto* upper = static_cast<const int64_t*>(bounds[i].second) + chunk.first;
        for (size_t j = 0; j < chunk.count; ++j) {
          ends.lower[j] = lower[condition.order[j]];
          ends.upper[j] = upper[condition.order[j]];
        }
        continue;
      }
      for (size_t j = 0; j < chunk.count; ++j) {
        std::tie(ends.lower[j], ends.upper[j]) = bands[i].of(values[condition.order[j]]);
      }
    }
  }

  // Builds the runs of full parts and probes the others side by side; then what was queued for those under construction
  // (section 3.4). Runs are shared out between threads where there are fewer chunks than those (algorithm 4).
  void probe(const std::vector<Chunk>& chunks, const StepRequest& request, int threads, std::vector<Output>& outputs,
             Budget& budget) {
    const bool counting = request.counting();
    const Poll poll = request.poll;
    struct Target {
      std::shared_ptr<const ImmutableRun> run;  // one of the two
      const MutablePart* part;
    };
    std::vector<Target> ready[2], built[2];
    std::vector<std::pair<int, size_t>> builds;
    std::vector<const MutablePart*> sources[2];
    size_t kept[2] = {0, 0};  // of those built; the rest goes with the step
    for (int at = 0; at < window_.sides(); ++at) {
      Side& side = sides_[at];
      for (const auto& run : side.runs) ready[at].push_back({run, nullptr});
      for (const auto& part : side.full) sources[at].push_back(part.get());
      kept[at] = sources[at].size();
      if (side.part) {
        size_t probes = 0;
        for (const Chunk& chunk : chunks) probes += window_.self_join || chunk.side != at ? chunk.count : 0;
        // Many probes meet a copy of the leaves in the form of a run: it is made in less time than they would take.
        const bool copied = !hash_ && probes >= 64 && probes * 16 >= side.part->rows.size();
        if (copied && immutable_ <= Immutable::kPoJoinBits) {
          sources[at].push_back(side.part.get());
        } else {
          ready[at].push_back({nullptr, side.part.get()});
        }
      }
      built[at].resize(sources[at].size());
      for (size_t i = 0; i < sources[at].size(); ++i) builds.emplace_back(at, i);
    }
    std::vector<int> orders[2] = {order(0), order(1)};
    CallVector<double> took(builds.size());
    const auto build = [&](size_t task) {
      const auto start = std::chrono::steady_clock::now();
      const auto [at, i] = builds[task];
      built[at][i] = {std::make_shared<const ImmutableRun>(*sources[at][i], immutable_, orders[at]), nullptr};
      took[task] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    struct Task {
      const Chunk* chunk;
      const std::vector<Target>* targets;
      size_t from, to;
    };
    const auto share = [&](const std::vector<Target> (&targets)[2]) {
      std::vector<Task> tasks;
      const size_t wanted = 2 * std::min<size_t>(threads, 64);
      for (const Chunk& chunk : chunks) {
        const auto& all = targets[window_.stored(1 - chunk.side)];
        const size_t groups = std::min(all.size(), std::max<size_t>(wanted / chunks.size(), 1));
        for (size_t group = 0; group < groups; ++group) {
          tasks.push_back({&chunk, &all, all.size() * group / groups, all.size() * (group + 1) / groups});
        }
      }
      return tasks;
    };
    const auto carry_out = [&](const Task& task, Output& output) {
      output.side = task.chunk->side;
      output.widths.assign(conditions_, 0);
      if (!counting) output.budget = &budget;
      int64_t* const counts = counting ? counts_[output.side].data() : nullptr;
      for (size_t i = task.from; i < task.to; ++i) {
        checkpoint();
        const Target& target = (*task.targets)[i];
        const Input& in = *request.probes[output.side];
        target.part ? prober_.probe(*target.part, *task.chunk, in, counts, output)
                    : prober_.probe(*target.run, *task.chunk, in, counts, output);
      }
      output.settle();
    };
    const std::vector<Task> first = share(ready), queued = share(built);
    outputs.resize(first.size() + queued.size());
    run_tasks(builds.size() + first.size(), threads, poll, [&](size_t task) {
      if (task < builds.size()) {
        build(task);
      } else {
        carry_out(first[task - builds.size()], outputs[task - builds.size()]);
      }
    });
    run_tasks(queued.size(), threads, poll, [&](size_t task) { carry_out(queued[task], outputs[first.size() + task]); });

    for (size_t i = 0; i < outputs.size(); ++i) {
      Side& side = side_of(1 - outputs[i].side);
      for (size_t k = 0; k < conditions_; ++k) side.widths[k] += outputs[i].widths[k];
      side.probes += outputs[i].probes;
      side.by_bits += outputs[i].by_bits;
      side.by_ranks += outputs[i].by_ranks;
    }
    for (const Chunk& chunk : chunks) {
      probed_runs += runs(1 - chunk.side);
      side_of(1 - chunk.side).queued += static_cast<int64_t>(chunk.count * kept[window_.stored(1 - chunk.side)]);
    }
    for (size_t i = 0; i < builds.size(); ++i) {
      const auto [at, which] = builds[i];
      if (which < kept[at]) sides_[at].merge_seconds += took[i];
    }
    for (int at = 0; at < window_.sides(); ++at) {
      Side& side = sides_[at];
      for (size_t i = 0; i < kept[at]; ++i) side.runs.push_back(std::move(built[at][i].run));
      side.merges += static_cast<int64_t>(kept[at]);
      side.full.clear();
    }
  }

  // The conditions by the share of a run that their ranges have taken so far, the least first.
  std::vector<int> order(int at) const {
    const Side& side = side_of(at);
    std::vector<int> order(conditions_);
    std::iota(order.begin(), order.end(), 0);
    if (side.probes > 0) {
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return side.widths[a] < side.widths[b]; });
    }
    return order;
  }

  void copy(const Output& output, const Input& in, size_t start, const Result& result) const {
    auto* left = static_cast<int64_t*>(result.left.data()) + start;
    auto* right = static_cast<int64_t*>(result.right.data()) + start;
    int64_t *probing = output.side == 0 ? left : right, *stored = output.side == 0 ? right : left;
    std::copy_n(output.rows.data(), output.pairs, stored);
    for (const Output::Part& part : output.parts) {
      std::fill_n(probing, part.count, in.row(part.probe));
      probing += part.count;
    }
  }

  // Whole runs leave (coarse removal, section 3.4); single rows are left out by each probe.
  void expire(int at) {
    if (window_.timed()) return;
    Side& side = sides_[at];
    const int64_t before = arrived_[at] - window_.rows(at);
    std::erase_if(side.runs, [before](const auto& run) { return run->extent.last_row < before; });
    if (side.part && side.part->extent.last_row < before) side.part.reset();
  }

  void trim(int at) {
    times_[window_.stored(at)].trim(oldest(at, std::numeric_limits<int64_t>::max()));
  }

  // A part with those rows of others that are kept, in order of arrival.
  template <class Kept>
  std::unique_ptr<MutablePart> thinned(int at, const CallVector<int64_t>& rows,
                                       const std::vector<CallVector<int64_t>>& columns, const Kept& kept) const {
    CallVector<uint32_t> by_row(rows.size());
    std::iota(by_row.begin(), by_row.end(), 0);
    std::sort(by_row.begin(), by_row.end(), [&](uint32_t a, uint32_t b) { return rows[a] < rows[b]; });
    auto part = std::make_unique<MutablePart>(conditions_);
    for (const uint32_t i : by_row) {
      if (!kept(rows[i])) continue;
      const auto id = static_cast<uint32_t>(part->rows.size());
      part->add(rows[i], times_of(at).of(rows[i]));
      for (size_t k = 0; k < conditions_; ++k) part->trees[k].insert(columns[k][i], id);
    }
    return part;
  }

  const KernelTable& kernels_;
  std::vector<std::vector<BandOf<int64_t>>> intervals_[2];  // of each condition, by the role of the rows that probe
  const size_t conditions_, slide_, sub_intervals_;
  const bool hash_;
  const Immutable immutable_;
  Side sides_[2];
  Times times_[2];
  CallVector<int64_t> counts_[2];
  double seconds_per_probe_ = 0;
  Prober prober_{kernels_, window_, times_, conditions_, hash_, immutable_};
};

}  // namespace

std::unique_ptr<Engine> open_spo(const Opening& opening) {
  if (opening.key_bytes != 8) throw std::invalid_argument("spo_join takes keys of 64 bits");
  return std::make_unique<SpoEngine>(opening);
}

}  // namespace muntin
