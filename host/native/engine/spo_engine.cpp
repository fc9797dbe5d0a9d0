// SPO-Join: an engine that indexes every condition of a conjunction, in B+-Trees and in runs of permutation arrays.
//
// Source: SPO-Join, section 3. Where a step brings many rows, probes go through a run in the order of their keys, as
// IE-Join does: the offsets of their bounds are found by one pass over both (algorithm 3), and from one probe to the
// next only the bits change by which their ranges differ.
#include "engine/spo_engine.hpp"

#include <atomic>
#include <cmath>

namespace muntin {

void KeyTree::insert(int64_t key, uint32_t id) {
  if (root_ == nullptr) root_ = &leaves_.emplace_back();
  Inner* path[16];
  uint32_t slots[16];
  void* node = root_;
  for (size_t level = height_; level > 0; --level) {
    auto* inner = static_cast<Inner*>(node);
    path[level] = inner;
    slots[level] = std::upper_bound(inner->separators, inner->separators + inner->count - 1, key) - inner->separators;
    node = inner->children[slots[level]];
  }
  auto* leaf = static_cast<Leaf*>(node);
  uint32_t at = std::upper_bound(leaf->keys, leaf->keys + leaf->count, key) - leaf->keys;
  if (leaf->count < kItems) {
    std::copy_backward(leaf->keys + at, leaf->keys + leaf->count, leaf->keys + leaf->count + 1);
    std::copy_backward(leaf->ids + at, leaf->ids + leaf->count, leaf->ids + leaf->count + 1);
    leaf->keys[at] = key;
    leaf->ids[at] = id;
    ++leaf->count;
    return;
  }
  auto* right = &leaves_.emplace_back();
  right->next = leaf->next;
  leaf->next = right;
  const uint32_t kept = at == kItems && right->next == nullptr ? kItems : kItems / 2;  // ascending keys fill leaves
  right->count = kItems - kept;
  std::copy_n(leaf->keys + kept, right->count, right->keys);
  std::copy_n(leaf->ids + kept, right->count, right->ids);
  leaf->count = kept;
  if (at >= kept) {
    leaf = right;
    at -= kept;
  }
  std::copy_backward(leaf->keys + at, leaf->keys + leaf->count, leaf->keys + leaf->count + 1);
  std::copy_backward(leaf->ids + at, leaf->ids + leaf->count, leaf->ids + leaf->count + 1);
  leaf->keys[at] = key;
  leaf->ids[at] = id;
  ++leaf->count;
  int64_t separator = right->keys[0];
  void* added = right;
  for (size_t level = 1; level <= height_; ++level) {
    Inner* parent = path[level];
    uint32_t slot = slots[level];
    const auto put = [&](Inner* into, uint32_t place) {
      std::copy_backward(into->separators + place, into->separators + into->count - 1, into->separators + into->count);
      std::copy_backward(into->children + place + 1, into->children + into->count, into->children + into->count + 1);
      into->separators[place] = separator;
      into->children[place + 1] = added;
      ++into->count;
    };
    if (parent->count < kFanout) return put(parent, slot);
    auto* sibling = &inners_.emplace_back();
    constexpr uint32_t half = kFanout / 2;
    const int64_t middle = parent->separators[half - 1];
    sibling->count = kFanout - half;
    std::copy_n(parent->children + half, sibling->count, sibling->children);
    std::copy_n(parent->separators + half, sibling->count - 1, sibling->separators);
    parent->count = half;
    slot < half ? put(parent, slot) : put(sibling, slot - half);
    separator = middle;
    added = sibling;
  }
  auto* top = &inners_.emplace_back();
  top->count = 2;
  top->separators[0] = separator;
  top->children[0] = root_;
  top->children[1] = added;
  root_ = top;
  ++height_;
}

void CssDirectory::build(const int64_t* keys, size_t length) {
  levels_.clear();
  const int64_t* below = keys;
  for (size_t entries = length; entries > kNode; entries = levels_.back().size()) {
    CallVector<int64_t> level;
    for (size_t i = 0; i < entries; i += kNode) level.push_back(below[i]);
    levels_.push_back(std::move(level));
    below = levels_.back().data();
  }
}

ImmutableRun::ImmutableRun(const MutablePart& part, Immutable kind, std::vector<int> order)
    : extent(part.extent), length(part.rows.size()), order(std::move(order)), keys(part.trees.size()),
      permutation(part.trees.size()), rank(part.trees.size()) {
  const bool css = kind == Immutable::kCssBits || kind == Immutable::kCssHash;
  const size_t conditions = keys.size(), permuted = css ? conditions : conditions - 1;
  // A cache line of room behind each array, for loops over whole vectors.
  const size_t wide = (length + 8) * sizeof(int64_t), narrow = (length + 16) * sizeof(uint32_t);
  block = Block(conditions * wide + ((css ? 1 : 2) * permuted + 1) * narrow);
  char* at = static_cast<char*>(block.data());
  const auto take = [&at](size_t bytes) { return std::exchange(at, at + bytes); };
  for (auto& column : keys) column = reinterpret_cast<int64_t*>(take(wide));
  offset = reinterpret_cast<uint32_t*>(take(narrow));
  CallVector<uint32_t> bit_of(css ? 0 : length);  // of an identifier: `tmp` of algorithm 2
  for (size_t i = 0; i < conditions; ++i) {
    const int condition = this->order[i];
    const bool scanned = !css && i == 0;
    if (!scanned) permutation[condition] = reinterpret_cast<uint32_t*>(take(narrow));
    if (!scanned && !css) rank[condition] = reinterpret_cast<uint32_t*>(take(narrow));
    uint32_t place = 0;
    for (const KeyTree::Leaf* leaf = part.trees[condition].first(); leaf != nullptr; leaf = leaf->next) {
      std::copy_n(leaf->keys, leaf->count, keys[condition] + place);
      for (uint32_t j = 0; j < leaf->count; ++j, ++place) {
        const uint32_t id = leaf->ids[j];
        if (scanned) {
          bit_of[id] = place;
        } else {
          permutation[condition][place] = css ? id : bit_of[id];
          if (!css) rank[condition][bit_of[id]] = place;
        }
      }
    }
    checkpoint();
  }
  for (size_t id = 0; id < length; ++id) {
    offset[css ? id : bit_of[id]] = static_cast<uint32_t>(part.rows[id] - extent.first_row);
  }
  if (css) {
    directories.resize(conditions);
    for (size_t k = 0; k < conditions; ++k) directories[k].build(keys[k], length);
  }
}

namespace {

constexpr size_t kChunk = 8192;  // probes that go through a run together

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

// Rows of a step that probe together, in order of arrival, and what they look for.
struct Chunk {
  struct Ends {
    CallVector<int64_t> lower, upper;  // in `order`; lower > upper: none
  };
  struct Condition {
    CallVector<uint32_t> order;  // the chunk's places by key
    std::vector<Ends> intervals;
  };
  int side;
  size_t first, count;
  std::vector<Condition> conditions;
  int64_t min_other_position = 0, max_other_position = 0, first_time = 0, last_time = 0;
};

// What a task has found: for each probe that found any, how many rows, which lie one behind the other.
struct Output {
  struct Part {
    uint32_t probe, count;
  };
  int side = 0;
  CallVector<Part> parts;
  Buffer<int64_t> rows;
  size_t pairs = 0;
  Budget* budget = nullptr;  // that they are taken from
  size_t taken = 0;
  CallVector<double> widths;  // by condition: the share of runs that ranges take, summed over probes
  double probes = 0;
  uint64_t by_bits = 0, by_ranks = 0;

  void settle() {
    if (budget != nullptr) budget->take(pairs - std::exchange(taken, pairs));
  }
};

// The memory of one thread, kept between tasks. Bits are all 0 between probes of a run.
struct Scratch {
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

Scratch& scratch() {
  thread_local Scratch held;
  return held;
}

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
    size_t bytes = bit_bytes_;
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
            {"bit_array_bytes", static_cast<int64_t>(bit_bytes_)},
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
      for (size_t i = task.from; i < task.to; ++i) {
        checkpoint();
        const Target& target = (*task.targets)[i];
        if (target.part) {
          probe_part(*target.part, *task.chunk, *request.probes[output.side], counting, output);
        } else if (immutable_ == Immutable::kCssBits || immutable_ == Immutable::kCssHash) {
          probe_css(*target.run, *task.chunk, *request.probes[output.side], counting, output);
        } else {
          probe_run(*target.run, *task.chunk, *request.probes[output.side], counting, output);
        }
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

  // Which stored rows the probes of a chunk may meet, by arrival and time: all of an extent, none, or some.
  enum class Visibility { kNone, kSome, kAll };
  struct View {
    const SpoEngine& engine;
    const Chunk& chunk;
    const Input& in;
    int64_t span;
    Wide low, high;  // of stored less probing time
    const Times& times;

    View(const SpoEngine& engine, const Chunk& chunk, const Input& in)
        : engine(engine), chunk(chunk), in(in), span(engine.window_.span(1 - chunk.side)),
          low(engine.window_.first_apart(chunk.side)), high(engine.window_.last_apart(chunk.side)),
          times(engine.times_of(1 - chunk.side)) {}

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
  struct Sink {
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

  static void push(Buffer<int64_t>& rows, int64_t row) {
    const size_t at = rows.size();
    rows.resize(at + 1);
    rows[at] = row;
  }

  // The first place from `from` on that `before` does not hold for, in `length` of them that it holds for up to a place.
  template <class Before>
  static size_t advance(const int64_t* keys, size_t length, size_t from, const Before& before) {
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

  // For each probe of a chunk the range of places in a run that satisfy a condition, by interval.
  void ranges(const ImmutableRun& run, const Chunk& chunk, size_t k, uint32_t* out) const {
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
  std::vector<const uint32_t*> all_ranges(const ImmutableRun& run, const Chunk& chunk, Output& output) const {
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

  static void set(uint64_t* bits, uint32_t bit) { bits[bit / 64] |= uint64_t{1} << (bit % 64); }
  static void reset(uint64_t* bits, uint32_t bit) { bits[bit / 64] &= ~(uint64_t{1} << (bit % 64)); }

  // Calls `see` with the bits that are set from `from` on and before `to`.
  template <class See>
  static void each_bit(const uint64_t* bits, size_t from, size_t to, const See& see) {
    for (size_t word = from / 64; word * 64 < to; ++word) {
      uint64_t left = bits[word];
      if (word == from / 64) left &= ~uint64_t{0} << (from % 64);
      if (to - word * 64 < 64) left &= (uint64_t{1} << (to - word * 64)) - 1;
      for (; left != 0; left &= left - 1) see(word * 64 + std::countr_zero(left));
    }
  }

  // PO-Join. The bits of rows that satisfy the second condition are set by way of its permutation array; those in the
  // range of the first one are scanned; further conditions are asked of each row found, by its ranks.
  void probe_run(const ImmutableRun& run, const Chunk& chunk, const Input& in, bool counting, Output& output) {
    const View view(*this, chunk, in);
    const Visibility visibility = view.of(run.extent);
    if (visibility == Visibility::kNone) return;
    const bool checked = visibility == Visibility::kSome;
    const std::vector<const uint32_t*> of = all_ranges(run, chunk, output);
    const size_t scan = run.order[0], scans = chunk.conditions[scan].intervals.size();
    Sink sink{output, counts_[chunk.side].data(), chunk.first};
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
  void intersect(size_t length, size_t first, size_t last, bool hash, const Visit& visit, const See& see) {
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
  void probe_part(const MutablePart& part, const Chunk& chunk, const Input& in, bool counting, Output& output) {
    const View view(*this, chunk, in);
    if (view.of(part.extent) == Visibility::kNone) return;
    Sink sink{output, counts_[chunk.side].data(), chunk.first};
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
  void probe_css(const ImmutableRun& run, const Chunk& chunk, const Input& in, bool counting, Output& output) {
    const View view(*this, chunk, in);
    if (view.of(run.extent) == Visibility::kNone) return;
    const std::vector<const uint32_t*> of = all_ranges(run, chunk, output);
    Sink sink{output, counts_[chunk.side].data(), chunk.first};
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

  void note_bits(const Scratch& own) {
    const size_t bytes = own.bytes();
    for (size_t seen = bit_bytes_; bytes > seen && !bit_bytes_.compare_exchange_weak(seen, bytes);) {}
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
  std::atomic<size_t> bit_bytes_{0};  // of one thread, at most
};

}  // namespace

std::unique_ptr<Engine> open_spo(const Opening& opening) {
  if (opening.key_bytes != 8) throw std::invalid_argument("spo_join takes keys of 64 bits");
  return std::make_unique<SpoEngine>(opening);
}

}  // namespace muntin
