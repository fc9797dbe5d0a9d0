#include "engine/splitjoin_engine.hpp"

#include "index/registry.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <deque>
#include <functional>
#include <random>
#include <thread>

namespace muntin {

void EventCount::wait(uint32_t seen) {
  constexpr int spins = 64;
  for (int spin = 0; spin < spins; ++spin) {
    if (count_.load() != seen) return;
    if (spin % 16 == 15) std::this_thread::yield();
  }
  std::unique_lock lock(mutex_);
  asleep_.store(true);
  // A wait that ends by itself lets the caller of a step look for signals.
  changed_.wait_until(lock, std::chrono::system_clock::now() + std::chrono::milliseconds(20),
                      [&] { return count_.load() != seen; });
  asleep_.store(false);
}

namespace {

constexpr size_t kTogether = 64;  // rows of one side that a core takes at once, where so many wait

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What goes down the tree.
struct RowMessage {
  enum Kind : uint8_t { kRow, kExpire, kPurge, kFlush };
  int64_t key, number, other_position, time;  // `time` of a mark: its limit
  int64_t sent;      // when it was given, in ns; only when timed
  uint32_t place;    // in its side's batch
  uint8_t side;
  Kind kind;
  uint8_t ends;      // a punctuation goes behind this row, on the outputs of these probing sides
};

// What goes up the tree: a pair, or a punctuation.
struct ResultMessage {
  static constexpr int64_t kInside = -1, kGroup = -2, kFlush = -3;  // within a row's pairs; behind a group; behind a step
  int64_t stored;
  uint32_t place;
  bool punctuation() const { return stored < 0; }
};

struct Pair {
  uint32_t probe;  // place in the rows that were taken together
  int64_t stored;
  int64_t block;   // place among the rows of the side that the core has stored, for inner order
};

// Lets a thread lose its turn here and there, by its seed: for tests.
class Schedule {
 public:
  Schedule(uint64_t seed, uint64_t thread) : on_(seed != 0), random_(seed * 1000003 + thread) {}
  void point() {
    if (!on_) return;
    const uint64_t dice = random_() % 64;
    if (dice < 16) std::this_thread::yield();
    if (dice == 63) std::this_thread::sleep_for(std::chrono::microseconds(random_() % 50));
  }
  size_t most(size_t rows) { return on_ ? 1 + random_() % rows : rows; }

 private:
  bool on_;
  std::minstd_rand random_;
};

// What all threads see: written by the caller while they have nothing to do.
struct Shared {
  const KernelTable& kernels;
  const SplitJoinSettings splitjoin;
  const Window window;
  const Condition condition;
  const Input* const* inputs = nullptr;  // of each side
  bool probing = true;
  int64_t oldest_block[2] = {0, 0};  // of a side, in any core, before this step
  std::atomic<bool> stopping{false};
  // Of each row by place, when timed: when the last core was done with it.
  std::unique_ptr<std::atomic<int64_t>[]> done[2] = {};
};

struct StructureChoice;

// One core's share of both windows.
class SubWindows {
 public:
  virtual ~SubWindows() = default;
  // Pairs of rows of one side that came one behind the other, by probing row, and by stored row where that is asked for.
  virtual void probe(const RowMessage* rows, size_t count, std::vector<Pair>& found) = 0;
  virtual void store(const RowMessage* rows, size_t count) = 0;  // of one side
  // Before these rows probe: rows of the other side that neither they nor later ones can meet.
  virtual void expire(const RowMessage& first) = 0;
  virtual void expire_times(int side, int64_t limit, bool purge) = 0;
  virtual void arrived(int side, int64_t rows) = 0;
  virtual size_t rows(int side) const = 0;
  virtual size_t bytes() const = 0;
  virtual int64_t oldest(int side, int64_t none) const = 0;
  virtual int64_t oldest_block(int side) const = 0;
  virtual const StructureChoice* choice() const { return nullptr; }  // where it has one
};

size_t power_of_two(size_t least) {
  size_t size = 1;
  while (size < least) size *= 2;
  return size;
}

// Every row is compared with all those of the other sub-window.
template <class Key>
class NestedLoop final : public SubWindows {
 public:
  explicit NestedLoop(const Shared& shared)
      : shared_(shared), intervals_{shared.condition.of<Key>(0), shared.condition.of<Key>(1)} {
    for (int side = 0; side < 2; ++side) {
      // One more than a core's share: a row that is stored may push out one that its other role in a self join meets.
      const size_t cores = shared.splitjoin.cores;
      most_[side] = (static_cast<size_t>(shared.window.counts[side]) + cores - 1) / cores + 1;
      resize(sides_[side], counted() ? std::min<size_t>(power_of_two(most_[side]), 1024) : 1024);
    }
  }

  void probe(const RowMessage* rows, size_t count, std::vector<Pair>& found) override {
    for (size_t i = 0; i < count; ++i) probe(rows[i], static_cast<uint32_t>(i), found);
  }

  void store(const RowMessage* rows, size_t count) override {
    Side& side = sides_[rows[0].side];
    for (size_t i = 0; i < count; ++i) {
      if (counted()) {  // the oldest row makes room
        if (side.end - side.begin >= static_cast<int64_t>(most_[rows[i].side])) ++side.begin;
      }
      if (side.end - side.begin == static_cast<int64_t>(side.size)) resize(side, 2 * side.size);
      const size_t at = side.end & (side.size - 1);
      keys(side)[at] = static_cast<Key>(rows[i].key);
      numbers(side)[at] = rows[i].number;
      if (!counted()) times(side)[at] = rows[i].time;
      ++side.end;
    }
  }

  void expire(const RowMessage& first) override {
    if (!counted()) return;
    Side& side = sides_[1 - first.side];
    const int64_t before = first.other_position - shared_.window.counts[1 - first.side];
    while (side.begin < side.end && numbers(side)[side.begin & (side.size - 1)] < before) ++side.begin;
  }

  void expire_times(int which, int64_t limit, bool purge) override {
    Side& side = sides_[which];
    const auto mask = side.size - 1;
    for (; side.begin < side.end && (times(side)[side.begin & mask] <= limit || numbers(side)[side.begin & mask] == kGone); ++side.begin) {
      side.gone -= numbers(side)[side.begin & mask] == kGone;
    }
    if (!purge) return;
    // Others lie behind rows that stay. Their places stay taken, as all cores count places alike.
    for (int64_t at = side.begin; at < side.end; ++at) {
      if (times(side)[at & mask] > limit || numbers(side)[at & mask] == kGone) continue;
      numbers(side)[at & mask] = kGone;
      ++side.gone;
    }
  }

  void arrived(int, int64_t) override {}
  size_t rows(int side) const override { return sides_[side].end - sides_[side].begin - sides_[side].gone; }
  size_t bytes() const override { return sides_[0].block.bytes() + sides_[1].block.bytes(); }
  int64_t oldest(int which, int64_t none) const override {
    const Side& side = sides_[which];
    return side.begin == side.end ? none : numbers(side)[side.begin & (side.size - 1)];
  }
  int64_t oldest_block(int side) const override { return sides_[side].begin; }

  // Calls `take(key, number, time)` for each place from the oldest on; numbers of rows that have left are negative.
  template <class Take>
  void each(int which, const Take& take) const {
    const Side& side = sides_[which];
    const auto mask = side.size - 1;
    for (int64_t at = side.begin; at < side.end; ++at) {
      take(keys(side)[at & mask], numbers(side)[at & mask], counted() ? 0 : times(side)[at & mask]);
    }
  }

 private:
  // A ring of rows, by how many the core had stored before.
  struct Side {
    Block block;
    size_t size = 0;
    int64_t begin = 0, end = 0;
    int64_t gone = 0;  // rows among them that have left
    int64_t from = 0;  // the first row that the latest probe could meet
  };

  static constexpr int64_t kGone = -1;  // for the number of a row that has left

  bool counted() const { return !shared_.window.timed(); }
  static int64_t* numbers(const Side& side) { return static_cast<int64_t*>(side.block.data()); }
  static int64_t* times(const Side& side) { return numbers(side) + side.size; }
  Key* keys(const Side& side) const { return reinterpret_cast<Key*>(numbers(side) + side.size * (counted() ? 1 : 2)); }

  void resize(Side& side, size_t size) {
    Side wider;
    wider.block = Block(size * (sizeof(int64_t) * (counted() ? 1 : 2) + sizeof(Key)));
    wider.size = size;
    wider.begin = side.begin, wider.end = side.end, wider.gone = side.gone, wider.from = side.from;
    for (int64_t at = side.begin; at < side.end; ++at) {
      const size_t from = at & (side.size - 1), to = at & (size - 1);
      keys(wider)[to] = keys(side)[from];
      numbers(wider)[to] = numbers(side)[from];
      if (!counted()) times(wider)[to] = times(side)[from];
    }
    side = std::move(wider);
  }

  void probe(const RowMessage& row, uint32_t probe, std::vector<Pair>& found) {
    const int other = 1 - row.side;
    Side& side = sides_[other];
    const auto mask = side.size - 1;
    int64_t from = std::max(side.begin, side.from), end = side.end;
    if (counted()) {  // neither limit moves back
      const int64_t least = row.other_position - shared_.window.counts[other];
      while (from < end && numbers(side)[from & mask] < least) ++from;
      side.from = from;
    } else {
      from = side.begin;
    }
    while (end > from && numbers(side)[(end - 1) & mask] >= row.other_position) --end;
    if (from == end) return;
    const size_t before = found.size();
    const Input& in = *shared_.inputs[row.side];
    const size_t intervals = in.bounded ? in.bounds.size() : intervals_[row.side].size();
    for (size_t interval = 0; interval < intervals; ++interval) {
      const auto [lower, upper] = bounds(row, in, interval);
      if (lower > upper) continue;
      for (int64_t at = from; at < end;) {  // at most twice round the end of the ring
        const size_t start = at & mask;
        const size_t some = std::min<size_t>({static_cast<size_t>(end - at), side.size - start, kCheckpoint});
        if (hits_.size() < some) hits_.resize(some);
        const size_t hits = shared_.kernels.template of<Key>().scan(keys(side) + start, some, lower, upper, hits_.data());
        for (size_t i = 0; i < hits; ++i) {
          const int64_t place = at + hits_[i];
          if (!counted() && (numbers(side)[place & mask] == kGone || !in_time(row, times(side)[place & mask]))) continue;
          found.push_back({probe, numbers(side)[place & mask], place});
        }
        at += some;
        if (shared_.stopping.load(std::memory_order_relaxed)) return;
      }
    }
    if (intervals > 1 && shared_.splitjoin.order == PairOrder::kInner) {
      std::sort(found.begin() + before, found.end(), [](const Pair& a, const Pair& b) { return a.block < b.block; });
    }
  }

  bool in_time(const RowMessage& row, int64_t stored) const {
    const Wide apart = static_cast<Wide>(stored) - row.time;
    return apart >= shared_.window.first_apart(row.side) && apart <= shared_.window.last_apart(row.side);
  }

  std::pair<Key, Key> bounds(const RowMessage& row, const Input& in, size_t interval) const {
    if (in.bounded) {
      return {static_cast<const Key*>(in.bounds[interval].first)[row.place],
              static_cast<const Key*>(in.bounds[interval].second)[row.place]};
    }
    return intervals_[row.side][interval].of(static_cast<Key>(row.key));
  }

  const Shared& shared_;
  const std::vector<BandOf<Key>> intervals_[2];  // by the role of the rows that probe
  size_t most_[2];  // rows of a side in a count window
  Side sides_[2];
  std::vector<uint32_t> hits_;
};

// Any other index of the core as the sub-window.
template <class Key>
class Indexed final : public SubWindows {
 public:
  Indexed(const Shared& shared, const IndexSpec& index)
      : shared_(shared), engine_(open_batched({.kernels = shared.kernels, .key_bytes = sizeof(Key), .window = window(shared.window),
                                               .condition = shared.condition, .others = {}, .index = index, .options = {}})) {}

  // The local engine keeps a row longer where a self join stores it before its other role has probed.
  static Window window(Window window) {
    for (int64_t& count : window.counts) count += window.self_join && count != 0;
    return window.by_role();
  }

  void probe(const RowMessage* rows, size_t count, std::vector<Pair>& found) override {
    const int side = rows[0].side, other = 1 - side;
    Input own = part(side, rows[0].place, count);
    own.stored = false;
    const Result result = step(side, own, Want::kPairs);
    const auto* probing = static_cast<const int64_t*>((side == 0 ? result.left : result.right).data());
    const auto* stored = static_cast<const int64_t*>((side == 0 ? result.right : result.left).data());
    const size_t before = found.size();
    const bool inner = shared_.splitjoin.order == PairOrder::kInner;
    const int64_t window = shared_.window.counts[other];
    for (size_t i = 0; i < result.pairs[side]; ++i) {
      const auto row = std::lower_bound(rows, rows + count, probing[i],
                                        [](const RowMessage& row, int64_t number) { return row.number < number; });
      if (window != 0 && stored[i] < row->other_position - window) continue;
      found.push_back({static_cast<uint32_t>(row - rows), stored[i], inner ? block(other, stored[i]) : 0});
    }
    std::sort(found.begin() + before, found.end(), [](const Pair& a, const Pair& b) {
      return a.probe != b.probe ? a.probe < b.probe : a.stored < b.stored;
    });
  }

  void store(const RowMessage* rows, size_t count) override {
    const int side = rows[0].side;
    keys_.resize(count), rows_.resize(count), other_position_.resize(count), times_.resize(count);
    for (size_t i = 0; i < count; ++i) {
      keys_[i] = static_cast<Key>(rows[i].key);
      rows_[i] = rows[i].number;
      other_position_[i] = rows[i].other_position;
      times_[i] = rows[i].time;
      if (shared_.splitjoin.order == PairOrder::kInner) blocks_[side].push_back(rows[i].number);
    }
    put(side);
  }

  // Takes over what a nested loop holds, before anything else. A nested loop keeps rows that have left a count window
  // until a row probes: those are left out, as numbers in a structure span a window and no more. `arrived`: rows of each
  // side.
  void load(const NestedLoop<Key>& from, const int64_t (&arrived)[2]) {
    for (int side = 0; side < 2; ++side) {
      const int64_t window = Indexed::window(shared_.window).counts[side];
      const int64_t least = window == 0 ? 0 : std::max<int64_t>(0, arrived[side] - window);
      keys_.clear(), rows_.clear(), times_.clear();
      int64_t last = -1;
      from.each(side, [&](Key key, int64_t number, int64_t time) {
        last = std::max(last, number);
        if (shared_.splitjoin.order == PairOrder::kInner) blocks_[side].push_back(last);  // places are searched by number
        if (number < least) return;
        keys_.push_back(key), rows_.push_back(number), times_.push_back(time);
      });
      first_block_[side] = from.oldest_block(side);
      other_position_.assign(keys_.size(), 0);
      if (!keys_.empty()) put(side);
      if (window != 0) engine_->arrived(side, arrived[side]);
    }
  }

  void expire(const RowMessage& first) override {
    if (shared_.window.timed()) return;
    engine_->arrived(1 - first.side, first.other_position);
    forget(1 - first.side);
  }
  void expire_times(int side, int64_t limit, bool purge) override {
    purge ? engine_->purge(side, limit) : engine_->expire_times(side, limit);
    forget(side);
  }
  void arrived(int side, int64_t rows) override { engine_->arrived(side, rows); }
  size_t rows(int side) const override { return engine_->rows(side); }
  size_t bytes() const override { return engine_->bytes(); }
  int64_t oldest(int side, int64_t none) const override { return engine_->oldest(side, none); }
  int64_t oldest_block(int side) const override { return first_block_[side]; }

 private:
  // Rows of this step from `place` on.
  Input part(int side, uint32_t place, size_t count) const {
    Input in = *shared_.inputs[side];
    in.keys = static_cast<const Key*>(in.keys) + place;
    in.count = count;
    in.first_row += place;
    if (in.rows) in.rows += place;
    if (in.other_position) in.other_position += place;
    if (in.times) in.times += place;
    for (auto& [lower, upper] : in.bounds) {
      lower = static_cast<const Key*>(lower) + place;
      upper = static_cast<const Key*>(upper) + place;
    }
    return in;
  }

  // Stores what was gathered.
  void put(int side) {
    const Input own{.keys = keys_.data(), .count = keys_.size(), .rows = rows_.data(), .first_row = 0,
                    .other_position = other_position_.data(), .same_other_position = 0,
                    .times = shared_.window.timed() ? times_.data() : nullptr, .bounds = {},
                    .bounded = shared_.inputs[side]->bounded};
    step(side, own, Want::kNothing);
    forget(side);
  }

  // A step with rows of one side alone.
  Result step(int side, const Input& own, Want want) {
    Input none{};
    none.bounded = own.bounded;
    const Input* const left = side == 0 ? &own : &none;
    const Input* const right = side == 0 ? &none : &own;
    return engine_->step({.probes = {left, right}, .stores = {left, right}, .want = want});
  }

  int64_t block(int side, int64_t number) const {
    const auto& numbers = blocks_[side];
    return first_block_[side] + (std::lower_bound(numbers.begin(), numbers.end(), number) - numbers.begin());
  }

  void forget(int side) {
    auto& numbers = blocks_[side];
    if (numbers.empty()) return;
    const int64_t oldest = engine_->oldest(side, std::numeric_limits<int64_t>::max());
    while (!numbers.empty() && numbers.front() < oldest) {
      numbers.pop_front();
      ++first_block_[side];
    }
  }

  const Shared& shared_;
  std::unique_ptr<Engine> engine_;
  std::vector<Key> keys_;
  std::vector<int64_t> rows_, other_position_, times_;
  std::deque<int64_t> blocks_[2];  // numbers of the stored rows, for inner order
  int64_t first_block_[2] = {0, 0};
};

// What a core with a choice of structures has chosen so far.
struct StructureChoice {
  std::string structure = "nested_loop";
  std::string why = "few rows";
  int64_t changes = 0, trials = 0, borders = 0;
};

int64_t thread_ns() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// A sub-window whose structure follows its rows: nested loops over all of them in the order of arrival, or an index over
// those, which is then probed in their place. At a border, each time that a quarter of its rows are new, other structures
// are loaded, those first that the papers advise for what was counted since the last border. The next rows probe and enter
// all of them, and the one that took the least processor time stays.
//
// Source of the advice: SplitJoin, section 4 (nested loops); PanJoin, section V-A.4 (the other structures).
template <class Key>
class AdaptiveWindow final : public SubWindows {
 public:
  // `kinds`: all but nested loops. `border_rows`: that are stored between two borders; 0: a quarter of the sub-windows.
  // `restless`, for tests: whatever was tried takes the place of what is there.
  AdaptiveWindow(const Shared& shared, std::vector<std::string> kinds, size_t border_rows, bool restless)
      : shared_(shared), all_(shared), kinds_(std::move(kinds)), border_rows_(border_rows), restless_(restless) {}

  void probe(const RowMessage* rows, size_t count, std::vector<Pair>& found) override {
    const size_t before = found.size();
    if (trial_.empty()) {
      held().probe(rows, count, found);
    } else {
      for (Contender& contender : trial_) {
        if (contender.given_up) continue;
        spare_.clear();
        timed(contender, [&] { of(contender).probe(rows, count, &contender == &trial_[0] ? found : spare_); });
        contender.rows += count;
        contender.given_up = warm() && contender.ns > 4 * trial_[0].ns + 200'000;  // the first one is never
      }
      trial_rows_[rows[0].side] += count;
    }
    seen_.probes += static_cast<double>(count);
    seen_.batches += 1;
    seen_.pairs += static_cast<double>(found.size() - before);
  }

  void store(const RowMessage* rows, size_t count) override {
    Keys& keys = keys_[rows[0].side];
    for (size_t i = 0; i < count; ++i) {
      const auto key = static_cast<double>(rows[i].key);
      seen_.rising += key > keys.mean_before;
      seen_.equal += rows[i].key == std::exchange(keys.last, rows[i].key);
      keys.sum += key;
    }
    keys.count += static_cast<double>(count);
    seen_.stored += static_cast<double>(count);
    all_.store(rows, count);  // whatever is chosen
    note_arrived(rows[0].side, rows[count - 1].number + 1);
    if (index_ != nullptr && trial_.empty()) index_->store(rows, count);
    for (Contender& contender : trial_) {
      if (contender.kind == 0 || contender.given_up) continue;
      timed(contender, [&] { index_of(contender)->store(rows, count); });
    }
    if (!shared_.probing) return;
    const size_t most = std::min<size_t>(kTrialRows, border_rows());
    if (!trial_.empty() && !warm()) {
      if (--trial_colds_ > 0) return;
      for (Contender& contender : trial_) contender.ns = contender.rows = 0;
      trial_rows_[0] = trial_rows_[1] = 0;
    } else if (!trial_.empty()) {
      const auto [few, many] = std::minmax(trial_rows_[0], trial_rows_[1]);
      if (few >= most / 4 || many >= 8 * most) decide();
    } else if (seen_.stored >= static_cast<double>(border_rows()) && seen_.probes > 0) {
      border();
    }
  }

  void expire(const RowMessage& first) override {
    note_arrived(1 - first.side, first.other_position);
    each([&](SubWindows& windows) { windows.expire(first); });
  }
  void expire_times(int side, int64_t limit, bool purge) override {
    each([&](SubWindows& windows) { windows.expire_times(side, limit, purge); });
  }
  void arrived(int side, int64_t rows) override {
    note_arrived(side, rows);
    each([&](SubWindows& windows) { windows.arrived(side, rows); });
  }
  size_t rows(int side) const override { return all_.rows(side); }
  size_t bytes() const override {
    size_t bytes = all_.bytes() + (index_ ? index_->bytes() : 0);
    for (const Contender& contender : trial_) bytes += contender.index ? contender.index->bytes() : 0;
    return bytes;
  }
  int64_t oldest(int side, int64_t none) const override { return all_.oldest(side, none); }
  int64_t oldest_block(int side) const override { return all_.oldest_block(side); }
  const StructureChoice* choice() const override { return &choice_; }

 private:
  static constexpr size_t kMinBorderRows = 256;
  static constexpr size_t kTrialRows = 256;       // that probe, of one side
  static constexpr size_t kColdBatches = 32;      // that enter what was loaded before its time counts: it was one batch
  static constexpr size_t kFewRows = 512;         // in both sub-windows, that no index is faster for
  static constexpr size_t kContenders = 3;        // in a trial, what is there included
  static constexpr int64_t kRestBorders = 16;     // after all were tried, until they are again
  static constexpr double kGain = 0.8;            // of the time, for a change

  // What was counted since a border.
  struct Seen {
    double rows = 0, probes = 0, batches = 0, pairs = 0, stored = 0, rising = 0, equal = 0;
    double matches() const { return pairs / probes; }
    double batch() const { return probes / batches; }
    bool rises() const { return rising > 0.9 * stored; }  // above the mean before
    bool heavy() const { return equal > 0.1 * stored; }
    // Whether it is another stream, as far as structures go.
    bool differs(const Seen& other) const {
      const auto far = [](double one, double other) { return one > 3 * other || other > 3 * one; };
      return far(matches() + 1, other.matches() + 1) || far(batch(), other.batch()) || far(rows, other.rows) ||
             rises() != other.rises() || heavy() != other.heavy();
    }
  };

  // Keys of a side that were stored since a border.
  struct Keys {
    int64_t last = 0;
    double sum = 0, count = 0, mean_before = std::numeric_limits<double>::max();
  };

  // `kind`: 0 for nested loops, else a place of `kinds_` from 1 on.
  struct Contender {
    size_t kind;
    std::unique_ptr<Indexed<Key>> index;  // null: what is there
    int64_t ns = 0;
    size_t rows = 0;  // that have probed it
    bool given_up = false;
  };

  void note_arrived(int side, int64_t rows) { arrived_[side] = std::max(arrived_[side], rows); }
  bool warm() const { return trial_colds_ == 0; }
  SubWindows& held() { return index_ ? static_cast<SubWindows&>(*index_) : all_; }
  Indexed<Key>* index_of(Contender& contender) { return contender.index ? contender.index.get() : index_.get(); }
  SubWindows& of(Contender& contender) {
    return contender.kind == 0 ? static_cast<SubWindows&>(all_) : *index_of(contender);
  }
  template <class Work>
  void each(const Work& work) {
    work(all_);
    if (index_) work(*index_);
    for (Contender& contender : trial_) {
      if (contender.index) work(*contender.index);
    }
  }
  template <class Work>
  static void timed(Contender& contender, const Work& work) {
    const int64_t began = thread_ns();
    work();
    contender.ns += thread_ns() - began;
  }

  size_t stored_rows() const { return all_.rows(0) + all_.rows(1); }
  size_t border_rows() const {
    return border_rows_ ? border_rows_ : std::max<size_t>(kMinBorderRows, stored_rows() / 4);
  }
  const std::string& name(size_t kind) const { return kind == 0 ? nested_ : kinds_[kind - 1]; }

  std::unique_ptr<Indexed<Key>> open(size_t kind) const {
    return std::make_unique<Indexed<Key>>(shared_, IndexSpec{name(kind), {}, nullptr});
  }

  // Structures in the order in which they are tried.
  std::vector<size_t> advice(const Seen& seen) const {
    std::vector<std::string> first;
    if (seen.matches() > seen.rows / 32) {
      first = {"nested_loop", "sorted_runs"};  // most of what is read is a match
    } else if (seen.matches() >= 64) {
      first = {"sorted_runs"};
    } else if (!seen.rises() && !seen.heavy()) {
      first = {"rap_table", "sorted_runs"};
    } else {
      first = {"wib_tree", "sorted_runs"};
    }
    std::vector<size_t> order;
    for (size_t at = 0; at < first.size() + kinds_.size() + 1; ++at) {
      for (size_t kind = 0; kind <= kinds_.size(); ++kind) {
        const bool next = at < first.size() ? name(kind) == first[at] : kind == at - first.size();
        if (next && std::find(order.begin(), order.end(), kind) == order.end()) order.push_back(kind);
      }
    }
    return order;
  }

  void border() {
    ++choice_.borders;
    Seen seen = std::exchange(seen_, {});
    seen.rows = static_cast<double>(stored_rows());
    for (Keys& keys : keys_) {
      if (keys.count > 0) keys.mean_before = keys.sum / keys.count;
      keys.sum = keys.count = 0;
    }
    if (stored_rows() < std::min<size_t>(kFewRows, 2 * border_rows())) {
      if (index_) change(0, nullptr);
      choice_.why = "few rows";
      tried_.clear();
      return;
    }
    if (tried_.empty() || seen.differs(judged_)) {
      tried_.assign(1, at_);
      rested_ = 0;
      judged_ = seen;
    }
    latest_ = seen;
    for (const size_t kind : advice(seen)) {
      if (std::find(tried_.begin(), tried_.end(), kind) != tried_.end()) continue;
      if (trial_.empty()) trial_.push_back({at_, nullptr});
      tried_.push_back(kind);
      trial_.push_back({kind, kind == 0 ? nullptr : open(kind)});
      if (kind != 0) trial_.back().index->load(all_, arrived_);
      if (trial_.size() == kContenders) break;
    }
    trial_rows_[0] = trial_rows_[1] = 0;
    trial_colds_ = std::min<size_t>(kColdBatches, border_rows());
    if (trial_.empty() && ++rested_ >= (restless_ ? 1 : kRestBorders)) tried_.clear();
  }

  void decide() {
    ++choice_.trials;
    size_t best = 0;
    for (size_t at = 1; at < trial_.size(); ++at) {
      if (!trial_[at].given_up && trial_[at].ns < trial_[best].ns) best = at;
    }
    if (static_cast<double>(trial_[best].ns) > kGain * static_cast<double>(trial_[0].ns)) best = 0;
    if (restless_ && !trial_.back().given_up) best = trial_.size() - 1;
    std::string took;
    for (const Contender& contender : trial_) {
      took += (took.empty() ? "" : ", ") + name(contender.kind) + (contender.given_up ? " over " : " ") +
              std::to_string(contender.ns / static_cast<int64_t>(std::max<size_t>(contender.rows, 1))) + " ns";
    }
    char text[160];
    std::snprintf(text, sizeof text, "%.0f rows, %.3g matches of a row, %.3g rows at a time, %s keys%s", latest_.rows,
                  latest_.matches(), latest_.batch(), latest_.rises() ? "rising" : "unordered",
                  latest_.heavy() ? ", many equal" : "");
    choice_.why = took + " a row: " + text;
    if (best != 0) change(trial_[best].kind, std::move(trial_[best].index));
    trial_.clear();
  }

  void change(size_t kind, std::unique_ptr<Indexed<Key>> index) {
    at_ = kind;
    index_ = std::move(index);
    choice_.structure = name(kind);
    ++choice_.changes;
  }

  const Shared& shared_;
  NestedLoop<Key> all_;
  const std::vector<std::string> kinds_;
  const size_t border_rows_;
  const bool restless_;
  const std::string nested_ = "nested_loop";
  int64_t arrived_[2] = {0, 0};           // rows of each side, as far as is known here
  size_t at_ = 0;                         // the structure that is probed
  std::unique_ptr<Indexed<Key>> index_;   // null: nested loops
  std::vector<Contender> trial_;          // the first one is what is there; empty between trials
  size_t trial_rows_[2] = {0, 0};         // that have probed, of each side, since its time counts
  size_t trial_colds_ = 0;                // batches until then
  std::vector<Pair> spare_;
  Seen seen_, latest_;                    // since the last border; before it
  Seen judged_;                           // what the structures of `tried_` were tried with
  std::vector<size_t> tried_;
  int64_t rested_ = 0;                    // borders since all were tried
  Keys keys_[2];
  StructureChoice choice_;
};

// Merges the results of one probing side. An input that has come to its punctuation waits for the others; of their
// punctuations, which all inputs have alike, one goes on. In inner order inputs take turns (algorithm 5). Else they go as
// they come, for a core whose turn is later would hold up the rows that the first one needs for its punctuation.
class Merger {
 public:
  void add(Queue<ResultMessage>* input) {
    inputs_.push_back(input);
    ended_.push_back(false);
  }
  // Moves what it can. `put` returns false where there is no room.
  template <class Put>
  bool run(bool in_turn, size_t most, const Put& put) {
    bool moved = false;
    for (size_t idle = 0; idle < inputs_.size() && most > 0;) {
      const ResultMessage* item = ended_[turn_] ? nullptr : inputs_[turn_]->front();
      const bool last = ended_count_ + 1 == inputs_.size();
      if (item == nullptr || (item->punctuation() ? last && !put(*item) : !put(*item))) {
        if (in_turn) break;
        turn_ = (turn_ + 1) % inputs_.size();
        ++idle;
        continue;
      }
      if (item->punctuation()) {  // this input waits for the others
        ended_[turn_] = !last;
        ended_count_ = last ? 0 : ended_count_ + 1;
        if (last) ended_.assign(inputs_.size(), false);
        inputs_[turn_]->pop();
        turn_ = (turn_ + 1) % inputs_.size();
      } else {
        inputs_[turn_]->pop();
      }
      moved = true;
      idle = 0;
      --most;
    }
    return moved;
  }

 private:
  std::vector<Queue<ResultMessage>*> inputs_;
  std::vector<bool> ended_;
  size_t ended_count_ = 0, turn_ = 0;
};

// A place in the tree: rows come in from above, results go out towards it.
struct Place {
  Place(size_t queue_rows) : down(queue_rows), up{Queue<ResultMessage>(queue_rows), Queue<ResultMessage>(queue_rows)} {}
  virtual ~Place() = default;
  virtual void serve() = 0;

  Queue<RowMessage> down;
  Queue<ResultMessage> up[2];
  EventCount events;
  EventCount* parent = nullptr;
};

// An inner node: a distributor that hands rows on to its children, and two mergers.
struct Node final : Place {
  Node(Shared& shared, size_t id) : Place(power_of_two(shared.splitjoin.queue_rows)), shared(shared), schedule(shared.splitjoin.schedule, id) {}

  static bool room(const std::vector<Place*>& children) {
    for (Place* child : children) {
      if (child->down.full()) return false;
    }
    return true;
  }

  void serve() override {
    const bool in_turn = shared.splitjoin.order == PairOrder::kInner;
    while (true) {
      const uint32_t seen = events.count();
      if (shared.stopping.load()) return;
      schedule.point();
      bool moved = false;
      for (size_t left = schedule.most(kTogether); left > 0 && down.front() != nullptr && room(children); --left) {
        for (Place* child : children) child->down.push(*down.front());
        down.pop();
        moved = true;
      }
      for (int side = 0; side < 2; ++side) {
        moved |= mergers[side].run(in_turn, schedule.most(kTogether), [&](const ResultMessage& item) {
          if (up[side].full()) return false;
          up[side].push(item);
          return true;
        });
      }
      if (moved) {
        parent->notify();
        for (Place* child : children) child->events.notify();
      } else {
        events.wait(seen);
      }
    }
  }

  Shared& shared;
  Schedule schedule;
  std::vector<Place*> children;
  Merger mergers[2];
};

// A join core: compares every row of one stream with its sub-window of the other, and stores every J-th row.
struct Core final : Place {
  Core(Shared& shared, size_t index, std::unique_ptr<SubWindows> windows)
      : Place(power_of_two(shared.splitjoin.queue_rows)), shared(shared), index(index),
        schedule(shared.splitjoin.schedule, 1000 + index), windows(std::move(windows)) {}

  void serve() override {
    while (true) {
      const uint32_t seen = events.count();
      if (shared.stopping.load()) return;
      schedule.point();
      taken.clear();
      const size_t most = schedule.most(kTogether);
      while (taken.size() < most) {
        const RowMessage* item = down.front();
        if (item == nullptr || (!taken.empty() && (item->kind != RowMessage::kRow || item->side != taken[0].side))) break;
        taken.push_back(*item);
        down.pop();
        if (taken.back().kind != RowMessage::kRow) break;  // the item is the producer's again
      }
      if (taken.empty()) {
        events.wait(seen);
        continue;
      }
      parent->notify();
      taken[0].kind == RowMessage::kRow ? join() : mark(taken[0]);
    }
  }

  void mark(const RowMessage& item) {
    if (item.kind == RowMessage::kFlush) {
      for (int side = 0; side < 2; ++side) put(side, {ResultMessage::kFlush, 0});
    } else {
      guarded([&] { windows->expire_times(item.side, item.time, item.kind == RowMessage::kPurge); });
    }
  }

  template <class Work>
  void guarded(const Work& work) {
    if (failed.load(std::memory_order_relaxed)) return;
    try {
      work();
    } catch (const std::exception& error) {
      why = error.what();
      failed.store(true, std::memory_order_release);
      lost[0] = windows->rows(0), lost[1] = windows->rows(1);
      found.clear();
    }
  }

  // Rows of one side, which do not meet each other: first all probe, then some are stored.
  void join() {
    const int side = taken[0].side, other = 1 - side;
    const bool timed = shared.splitjoin.timed && shared.probing;
    const int64_t began = timed ? now_ns() : 0;
    found.clear();
    guarded([&] {
      if (fail_after >= 0 && (fail_after -= static_cast<int64_t>(taken.size())) < 0) throw std::runtime_error("injected fault");
      if (shared.splitjoin.active) windows->expire(taken[0]);
      if (shared.probing) windows->probe(taken.data(), taken.size(), found);
    });
    if (timed) measure(began);
    size_t at = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      const RowMessage& row = taken[i];
      if (shared.splitjoin.order == PairOrder::kInner) punctuate(row, other, i, at);
      for (; at < found.size() && found[at].probe == i; ++at) put(side, {found[at].stored, row.place});
      for (int output = 0; output < 2; ++output) {
        if (row.ends >> output & 1) put(output, {ResultMessage::kGroup, row.place});
      }
    }
    // Each core finds by itself which rows are its own.
    size_t mine = 0;
    for (const RowMessage& row : taken) {
      if (seen_rows[side]++ % static_cast<int64_t>(shared.splitjoin.cores) == static_cast<int64_t>(index)) taken[mine++] = row;
    }
    if (mine > 0) guarded([&] { windows->store(taken.data(), mine); });
  }

  // In inner order: the pairs of a row up to the last punctuation within them, behind every `every`-th stored row, which
  // all cores put at the same places, from the first row that any of them may hold.
  void punctuate(const RowMessage& row, int other, size_t probe, size_t& at) {
    const auto cores = static_cast<int64_t>(shared.splitjoin.cores);
    const int64_t every = shared.splitjoin.every, window = shared.window.counts[other];
    const int64_t end = (seen_rows[other] + cores - 1) / cores;
    int64_t base = shared.oldest_block[other];
    if (window != 0) base = std::max(base, (seen_rows[other] - window) / cores);
    for (int64_t block = (base / every + 1) * every; block < end; block += every) {
      for (; at < found.size() && found[at].probe == probe && found[at].block < block; ++at) {
        put(row.side, {found[at].stored, row.place});
      }
      put(row.side, {ResultMessage::kInside, row.place});
    }
  }

  void put(int side, const ResultMessage& item) {
    while (up[side].full()) {
      const uint32_t seen = events.count();
      if (!up[side].full()) break;
      if (shared.stopping.load()) return;
      parent->notify();
      events.wait(seen);
    }
    up[side].push(item);
    schedule.point();
    if (item.punctuation()) parent->notify();
  }

  void measure(int64_t began) {
    const int64_t ended = now_ns();
    for (const RowMessage& row : taken) {
      waited += static_cast<double>(began - row.sent);
      worked += static_cast<double>(ended - began);
      auto& done = shared.done[row.side][row.place];
      for (int64_t last = done.load(); last < ended && !done.compare_exchange_weak(last, ended);) {
      }
    }
    rows += taken.size();
    for (const Pair& pair : found) visited += static_cast<double>(ended - taken[pair.probe].sent);
    pairs += found.size();
  }

  Shared& shared;
  const size_t index;
  Schedule schedule;
  std::unique_ptr<SubWindows> windows;
  std::vector<RowMessage> taken;
  std::vector<Pair> found;
  int64_t seen_rows[2] = {0, 0};  // of each side
  // Once it has failed it goes on without pairs, so that the others' come out.
  std::atomic<bool> failed{false};
  std::string why;
  size_t lost[2] = {0, 0};
  int64_t fail_after = -1;  // rows until it fails, in tests
  double waited = 0, worked = 0, visited = 0;  // ns, summed
  uint64_t rows = 0, pairs = 0;
};

// Where rows come in and results go out: the root of both trees, on the thread of the caller.
class SplitJoin final : public Engine {
 public:
  explicit SplitJoin(const Opening& opening)
      : Engine(opening.window.by_role()), key_bytes_(opening.key_bytes), pid_(getpid()), tree_(std::make_unique<Tree>(opening)) {
    Tree& tree = *tree_;
    const SplitJoinSettings& splitjoin = tree.shared.splitjoin;
    schedule_ = Schedule(splitjoin.schedule, 0);
    for (size_t index = 0; index < splitjoin.cores; ++index) {
      tree.cores.push_back(std::make_unique<Core>(tree.shared, index, key_bytes_ == 4 ? windows<int32_t>(opening.index)
                                                                                    : windows<int64_t>(opening.index)));
    }
    connect(tree.root, tree.mergers, &tree.events, 0, splitjoin.cores, 1);
    try {
      for (auto& core : tree.cores) tree.threads.emplace_back([place = core.get()] { place->serve(); });
      for (auto& node : tree.nodes) tree.threads.emplace_back([place = node.get()] { place->serve(); });
    } catch (...) {
      tree.stop();
      throw;
    }
  }

  ~SplitJoin() override {
    if (getpid() == pid_) {
      tree_->stop();
    } else {
      (void)tree_.release();  // a forked child has none of the threads, which may have been in the middle of anything
    }
  }

  Result step(const StepRequest& request) override {
    if (request.apart()) throw std::invalid_argument("rows of this engine probe and are stored");
    if (marked_ && request.count() > 0) settle();  // the first blocks of windows are read here
    if (tree_->threads.empty()) throw std::runtime_error("a call of this engine was broken off: open another one");
    check(request, false);
    ++applied;
    try {
      tree_->shared.probing = request.probing();
      max_pairs_ = request.max_pairs;
      return give_and_gather(request);
    } catch (...) {
      tree_->stop();  // before the arrays go that the threads read
      throw;
    }
  }

  void arrived(int side, int64_t rows) override {
    settle();
    for (const auto& core : tree_->cores) core->guarded([&] { core->windows->arrived(side, rows); });
  }
  void expire_times(int side, int64_t limit) override { mark(side, limit, RowMessage::kExpire); }
  void purge(int side, int64_t limit) override { mark(side, limit, RowMessage::kPurge); }

  size_t rows(int side) const override {
    settle();
    size_t rows = 0;
    for (const auto& core : tree_->cores) rows += core->windows->rows(side);
    return rows;
  }
  size_t runs(int side) const override { return rows(side) > 0; }
  size_t bytes() const override {
    settle();
    size_t bytes = 0;
    for (const auto& core : tree_->cores) bytes += core->windows->bytes() + core->down.bytes() + 2 * core->up[0].bytes();
    for (const auto& node : tree_->nodes) bytes += node->down.bytes() + 2 * node->up[0].bytes();
    return bytes;
  }
  int64_t oldest(int side, int64_t none) const override {
    settle();
    int64_t oldest = std::numeric_limits<int64_t>::max();
    for (const auto& core : tree_->cores) oldest = std::min(oldest, core->windows->oldest(side, oldest));
    return oldest == std::numeric_limits<int64_t>::max() ? none : oldest;
  }

  Figures figures(int side) const override {
    settle();
    const Tree& tree = *tree_;
    std::vector<int64_t> rows;
    double waited = 0, worked = 0, visited = 0;
    uint64_t taken = 0, pairs = 0;
    for (const auto& core : tree.cores) {
      rows.push_back(static_cast<int64_t>(core->windows->rows(side)));
      waited += core->waited, worked += core->worked, visited += core->visited;
      taken += core->rows, pairs += core->pairs;
    }
    Figures figures{{"rows_of_cores", rows}, {"depth", tree.depth}, {"punctuations", punctuations_}};
    if (tree.cores[0]->windows->choice() != nullptr) {
      std::vector<std::string> structures, why;
      std::vector<int64_t> borders, trials, changes;
      for (const auto& core : tree.cores) {
        const StructureChoice& choice = *core->windows->choice();
        structures.push_back(choice.structure), why.push_back(choice.why);
        borders.push_back(choice.borders), trials.push_back(choice.trials), changes.push_back(choice.changes);
      }
      figures.insert({{"structures", structures}, {"why", why}, {"borders", borders}, {"trials", trials}, {"changes", changes}});
    }
    if (tree.shared.splitjoin.timed) {
      figures["distribution_us"] = waited / 1e3 / static_cast<double>(std::max<uint64_t>(taken, 1));
      figures["execution_us"] = worked / 1e3 / static_cast<double>(std::max<uint64_t>(taken, 1));
      figures["gathering_us"] = gathered_ / 1e3 / static_cast<double>(std::max<uint64_t>(ended_, 1));
      figures["end_to_end_us"] = whole_ / 1e3 / static_cast<double>(std::max<uint64_t>(ended_, 1));
      figures["visiting_us"] = visited / 1e3 / static_cast<double>(std::max<uint64_t>(pairs, 1));
    }
    return figures;
  }

  std::vector<Failure> failures() const override {
    settle();
    std::vector<Failure> failures;
    for (const auto& core : tree_->cores) {
      if (core->failed.load(std::memory_order_acquire)) {
        failures.push_back({core->index, core->why, {core->lost[0], core->lost[1]}});
      }
    }
    return failures;
  }
  void inject_fault(size_t core, int64_t after) override { tree_->cores.at(core)->fail_after = after; }

 private:
  struct Tree {
    explicit Tree(const Opening& opening)
        : shared{.kernels = opening.kernels, .splitjoin = SplitJoinSettings(opening.options), .window = opening.window,
                 .condition = opening.condition} {}

    Shared shared;
    EventCount events;
    std::vector<std::unique_ptr<Core>> cores;
    std::vector<std::unique_ptr<Node>> nodes;
    std::vector<Place*> root;  // the children of the root
    Merger mergers[2];
    int64_t depth = 0;
    std::vector<std::thread> threads;

    void stop() {
      shared.stopping.store(true);
      for (auto& core : cores) core->events.notify();
      for (auto& node : nodes) node->events.notify();
      for (std::thread& thread : threads) thread.join();
      threads.clear();
    }
  };

  template <class Key>
  std::unique_ptr<SubWindows> windows(const IndexSpec& index) const {
    const Shared& shared = tree_->shared;
    if (index.name == "nested_loop") return std::make_unique<NestedLoop<Key>>(shared);
    if (index.name != "auto") return std::make_unique<Indexed<Key>>(shared, index);
    return std::make_unique<AdaptiveWindow<Key>>(shared, std::vector<std::string>{"sorted_runs", "rap_table", "wib_tree", "bplus_tree"},
                                         index.options.whole("border_rows", 0, 0), index.options.flag("restless", false));
  }

  // The subtree over cores [from, to): as wide as it may be before it becomes deeper.
  void connect(std::vector<Place*>& children, Merger (&mergers)[2], EventCount* parent, size_t from, size_t to, int64_t depth) {
    Tree& tree = *tree_;
    tree.depth = std::max(tree.depth, depth);
    const size_t fan_out = tree.shared.splitjoin.fan_out;
    const size_t parts = std::min(to - from, fan_out);
    for (size_t part = 0; part < parts; ++part) {
      const size_t first = from + (to - from) * part / parts, last = from + (to - from) * (part + 1) / parts;
      Place* child;
      if (last - first == 1) {
        child = tree.cores[first].get();
      } else {
        tree.nodes.push_back(std::make_unique<Node>(tree.shared, tree.nodes.size() + 1));
        Node* node = tree.nodes.back().get();
        connect(node->children, node->mergers, &node->events, first, last, depth + 1);
        child = node;
      }
      child->parent = parent;
      children.push_back(child);
      for (int side = 0; side < 2; ++side) mergers[side].add(&child->up[side]);
    }
  }

  Result give_and_gather(const StepRequest& request) {
    Tree& tree = *tree_;
    Shared& shared = tree.shared;
    const auto& input = request.probes;
    for (int side = 0; side < 2; ++side) {
      if (shared.splitjoin.timed) shared.done[side] = std::make_unique<std::atomic<int64_t>[]>(input[side]->count);
      if (request.count() == 0) continue;  // cores may have marks under way
      shared.oldest_block[side] = std::numeric_limits<int64_t>::max();
      for (const auto& core : tree.cores) {
        shared.oldest_block[side] = std::min(shared.oldest_block[side], core->windows->oldest_block(side));
      }
    }
    shared.inputs = input;
    counting_ = request.counting();
    Result result;
    for (int side = 0; side < 2; ++side) result.counts[side].assign(counting_ ? input[side]->count : 0, 0);
    left_.clear(), right_.clear(), groups_.clear(), starts_[0].clear(), starts_[1].clear();
    size_t next[2] = {0, 0};
    uint8_t group = 0;
    bool flushed = false;
    flushes_ = 0;
    while (flushes_ < 2) {
      const uint32_t seen = tree.events.count();
      schedule_.point();
      bool moved = false;
      for (size_t left = schedule_.most(kTogether); left > 0 && !flushed && Node::room(tree.root); --left) {
        RowMessage item{};
        if (next[0] < input[0]->count || next[1] < input[1]->count) {
          item = take(input, next, group);
          if (item.ends != 0) groups_.push_back(item.ends);
        } else {
          item.kind = RowMessage::kFlush;
          groups_.push_back(3);
          flushed = true;
        }
        for (Place* child : tree.root) child->down.push(item);
        moved = true;
      }
      moved |= combine(result);
      if (moved) {
        for (Place* child : tree.root) child->events.notify();
      } else {
        if (request.poll != nullptr && request.poll()) throw Interrupted();
        tree.events.wait(seen);
      }
    }
    for (int side = 0; side < 2; ++side) {
      if (input[side]->count) arrived_[side] = input[side]->last_row() + 1;
    }
    marked_ = false;
    result.pairs[0] = left_.size();
    if (!left_.empty()) {
      for (auto [rows, block] : {std::pair(&left_, &result.left), std::pair(&right_, &result.right)}) {
        *block = Block(rows->size() * sizeof(int64_t), Use::kResult);
        std::memcpy(block->data(), rows->data(), rows->size() * sizeof(int64_t));
      }
    }
    return result;
  }

  static uint64_t place_of(const Input& in, size_t at) {
    return static_cast<uint64_t>(in.row(at)) + static_cast<uint64_t>(in.other_position_of(at));
  }
  static int earlier(const Input* const (&input)[2], const size_t (&next)[2]) {
    if (next[0] >= input[0]->count) return 1;
    if (next[1] >= input[1]->count) return 0;
    return place_of(*input[1], next[1]) < place_of(*input[0], next[0]) ? 1 : 0;  // in a self join, the left role first
  }

  // The next row in the order of arrival.
  RowMessage take(const Input* const (&input)[2], size_t (&next)[2], uint8_t& group) {
    const SplitJoinSettings& splitjoin = tree_->shared.splitjoin;
    const int side = earlier(input, next);
    const Input& in = *input[side];
    const size_t at = next[side]++;
    RowMessage item{};
    item.key = key_bytes_ == 4 ? static_cast<const int32_t*>(in.keys)[at] : static_cast<const int64_t*>(in.keys)[at];
    item.number = in.row(at);
    item.other_position = in.other_position_of(at);
    item.time = in.times ? in.times[at] : 0;
    item.place = static_cast<uint32_t>(at);
    item.side = static_cast<uint8_t>(side);
    if (splitjoin.timed) {
      item.sent = now_ns();
      starts_[side].push_back(item.sent);
    }
    if (splitjoin.order == PairOrder::kNone) return item;
    group |= static_cast<uint8_t>(1 << side);
    bool ends = true;
    if (splitjoin.order == PairOrder::kOuter && splitjoin.every > 1 && (next[0] < input[0]->count || next[1] < input[1]->count)) {
      const auto every = static_cast<uint64_t>(splitjoin.every);
      const int then = earlier(input, next);
      ends = place_of(in, at) / every != place_of(*input[then], next[then]) / every;
    }
    if (ends) item.ends = std::exchange(group, uint8_t{0});
    return item;
  }

  // The combiner: takes each group's pairs from the mergers of the sides that probed in it, as the groups were given.
  bool combine(Result& result) {
    Tree& tree = *tree_;
    const PairOrder order = tree.shared.splitjoin.order;
    const bool grouped = order != PairOrder::kNone;
    bool moved = false;
    for (bool some = true; some;) {
      some = false;
      for (int side = 0; side < 2; ++side) {
        // Where no group is owed, what comes is of the group whose last row has not been given yet.
        if (grouped && !groups_.empty() && !(groups_.front() >> side & 1)) continue;
        bool ended = false;
        some |= tree.mergers[side].run(order == PairOrder::kInner, grouped ? 1 : size_t{1} << 12, [&](const ResultMessage& item) {
          accept(side, item, result);
          ended |= item.stored == ResultMessage::kGroup || item.stored == ResultMessage::kFlush;
          return true;
        });
        if (!ended || !grouped) continue;
        groups_.front() &= static_cast<uint8_t>(~(1 << side));
        if (groups_.front() != 0) continue;
        groups_.pop_front();
        break;
      }
      moved |= some;
      if (!grouped) break;
    }
    return moved;
  }

  void accept(int side, const ResultMessage& item, Result& result) {
    if (item.punctuation()) {
      punctuations_ += item.stored != ResultMessage::kFlush;
      flushes_ += item.stored == ResultMessage::kFlush;
      if (item.stored == ResultMessage::kGroup && tree_->shared.splitjoin.timed && tree_->shared.probing) {
        const int64_t now = now_ns();
        gathered_ += static_cast<double>(now - tree_->shared.done[side][item.place].load());
        whole_ += static_cast<double>(now - starts_[side][item.place]);
        ++ended_;
      }
      return;
    }
    if (counting_) {
      ++result.counts[side][item.place];
      return;
    }
    if (left_.size() >= max_pairs_) throw TooManyPairs();
    const int64_t number = tree_->shared.inputs[side]->row(item.place);
    left_.push_back(side == 0 ? number : item.stored);
    right_.push_back(side == 0 ? item.stored : number);
  }

  // Limits on event times take the rows' way, so that every core meets them at the same row.
  void mark(int side, int64_t limit, RowMessage::Kind kind) {
    RowMessage item{};
    item.kind = kind, item.side = static_cast<uint8_t>(side), item.time = limit;
    Tree& tree = *tree_;
    if (tree.threads.empty()) return;
    for (bool sent = false; !sent;) {
      const uint32_t seen = tree.events.count();
      sent = Node::room(tree.root);
      if (!sent) {
        tree.events.wait(seen);
        continue;
      }
      for (Place* child : tree.root) {
        child->down.push(item);
        child->events.notify();
      }
    }
    marked_ = true;
  }

  // Waits until the cores have met the marks that are under way: only then may their sub-windows be looked at.
  void settle() const {
    if (!marked_ || tree_->threads.empty()) return;
    const Input none{};
    const_cast<SplitJoin*>(this)->step({.probes = {&none, &none}, .stores = {&none, &none}});
  }

  const size_t key_bytes_;
  const pid_t pid_;
  std::unique_ptr<Tree> tree_;
  Schedule schedule_{0, 0};
  bool counting_ = false;
  uint64_t max_pairs_ = kAnyPairs;
  std::vector<int64_t> left_, right_;
  std::deque<uint8_t> groups_;  // outputs that still owe a punctuation to each group that was given
  std::vector<int64_t> starts_[2];
  int flushes_ = 0;
  bool marked_ = false;
  int64_t punctuations_ = 0;
  double gathered_ = 0, whole_ = 0;
  uint64_t ended_ = 0;
};

}  // namespace

std::unique_ptr<Engine> open_split_join(const Opening& opening) { return std::make_unique<SplitJoin>(opening); }

}  // namespace muntin
