#include "engine/splitjoin_windows.hpp"

#include "index/registry.hpp"

#include <bit>
#include <ctime>
#include <deque>
#include <functional>

namespace muntin::splitjoin {
namespace {

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
      resize(sides_[side], counted() ? std::min<size_t>(std::bit_ceil(most_[side]), 1024) : 1024);
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

template <class Key>
std::unique_ptr<SubWindows> opened(const Shared& shared, const IndexSpec& index) {
  if (index.name == "nested_loop") return std::make_unique<NestedLoop<Key>>(shared);
  if (index.name != "auto") return std::make_unique<Indexed<Key>>(shared, index);
  return std::make_unique<AdaptiveWindow<Key>>(shared, std::vector<std::string>{"sorted_runs", "rap_table", "wib_tree", "bplus_tree"},
                                               index.options.whole("border_rows", 0, 0), index.options.flag("restless", false));
}

}  // namespace

std::unique_ptr<SubWindows> open_sub_windows(const Shared& shared, size_t key_bytes, const IndexSpec& index) {
  return key_bytes == 4 ? opened<int32_t>(shared, index) : opened<int64_t>(shared, index);
}

}  // namespace muntin::splitjoin
