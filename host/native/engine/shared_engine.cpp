// The parallel join over shared indexes: row by row, in the order in which rows of both streams have arrived.
//
// Source: PIM-Tree, section 4. Threads take tasks of some rows from a work queue. A row's results come from the index,
// for the rows before the edge tuple, and from a scan of those from there on to the row itself. Then its task's rows
// go into the index, and the thread moves the edge and hands on what is complete at the head of the queue, unless
// another thread is at that.
//
// A merge waits twice until no task is active: to begin, and to take up what it has made. In between it runs in the
// background, over trees that change no more, and tasks and calls go on: see `PimIndex`. Section 4.2 has rows wait outside
// of the index meanwhile, and every probe scan them; here they have trees of their own.
#include <condition_variable>
#include <optional>

#include "engine/shared_step.hpp"
#include "index/pim_indexes.hpp"

namespace muntin {
namespace {

template <class Index>
class SharedEngine final : public SharedStep {
 public:
  using Key = typename Index::Key;
  using Item = typename Index::Item;

  // `make`: an index of what it is made for.
  template <class Make>
  SharedEngine(const Opening& opening, const Make& make)
      : SharedStep(opening.window), intervals_{opening.condition.of<Key>(0), opening.condition.of<Key>(1)},
        task_size_(std::min(opening.options.whole("task_size", 1, 8), kMaxTask)),
        locks_(static_cast<Locks>(opening.options.choice("locks", {"with_threads", "always"}))),
        schedule_(opening.options.whole("schedule", 0, 0)),
        slots_(std::min<size_t>(opening.options.whole("queue_tasks", 1, 16), 4096)) {
    for (int side = 0; side < window_.sides(); ++side) {
      side_[side].index = make({.kernels = opening.kernels, .window_rows = static_cast<size_t>(window_.rows(side)),
                                .time_width = window_.width()});
    }
    for (Slot& slot : slots_) slot.rows.resize(task_size_);
    const bool blocking = opening.options.flag("blocking", false);
    if constexpr (Index::kMerges) {
      const size_t rows = opening.options.whole("behind_rows", 1, Index::kMinBehind);
      for (int side = 0; side < window_.sides() && !blocking; ++side) side_[side].index->merge_behind(rows, gate_);
    }
  }
  ~SharedEngine() override { gate_->hold(MergeGate::kNone); }

  // All pairs count as found by left rows: they stand in the order of arrival of the rows that found them, and those
  // of one row in the order of the stored rows.
  Result step(const StepRequest& request) override {
    if (request.apart()) throw std::invalid_argument("rows of this engine probe and are stored");
    check(request, false);
    check_order(request);
    ++applied;
    const auto start = Clock::now();
    Result result;
    for (int side = 0; side < 2; ++side) {
      input_[side] = request.probes[side];
      cursor_[side] = seen_[side] = 0;
      result.counts[side].assign(request.counting() ? input_[side]->count : 0, 0);
      counts_[side] = result.counts[side].data();
    }
    counting_ = request.counting();
    probing_ = request.probing();
    for (int side = 0; side < window_.sides(); ++side) begin(side);
    taken_.store(0);
    head_.store(0);
    admitted_ = 0;
    active_ = others_ = 0;
    closed_ = merging_ = false;
    stop_.store(false);
    error_ = nullptr;
    pairs_ = 0;
    max_pairs_ = request.max_pairs;
    ++steps_;
    max_threads_ = request.threads;
    locked_ = request.threads > 1 || locks_ == Locks::kAlways;
    poll_ = request.poll;
    work(0);
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    if (error_) std::rethrow_exception(error_);
    propagate();
    for (int side = 0; side < window_.sides(); ++side) end(side);
    result.left = std::move(left_);
    result.right = std::move(right_);
    left_ = Block();
    right_ = Block();
    room_ = 0;
    result.pairs[0] = pairs_;
    seconds[1] += std::chrono::duration<double>(Clock::now() - start).count() - merge_seconds_;
    seconds[3] += std::exchange(merge_seconds_, 0);
    return result;
  }

  void hold_merges(int point) override {
    if constexpr (Index::kMerges) {
      gate_->hold(point);
    } else {
      Engine::hold_merges(point);
    }
  }

  void arrived(int side, int64_t rows) override {
    const int stored = window_.stored(side);
    arrived_[stored] = std::max(arrived_[stored], rows);
    expire(stored);
  }
  void expire_times(int side, int64_t limit) override {
    side_of(side).index->expire_times(limit, side_of(side).times);
    trim(side);
  }
  void purge(int side, int64_t limit) override {
    side_of(side).index->purge(limit, side_of(side).times);
    trim(side);
  }
  size_t rows(int side) const override { return side_of(side).index->rows(); }
  size_t runs(int side) const override { return side_of(side).index->runs(); }
  int64_t oldest(int side, int64_t none) const override { return side_of(side).index->oldest(none); }
  Figures figures(int side) const override { return side_of(side).index->figures(); }
  size_t bytes() const override {
    size_t bytes = 0;
    for (int side = 0; side < window_.sides(); ++side) bytes += side_[side].index->bytes() + side_[side].times.bytes();
    return bytes;
  }

  Figures report(bool reset) override {
    constexpr double us = 1e-3;
    Figures figures = {{"tasks", static_cast<int64_t>(tasks_)},
                       {"task_size", static_cast<int64_t>(task_size_)},
                       {"merges", static_cast<int64_t>(merges_)},
                       {"merging", merging()},
                       {"waits", static_cast<int64_t>(waits_)},
                       {"max_threads", static_cast<int64_t>(max_workers_)},
                       {"max_scanned", static_cast<int64_t>(max_scanned_.load())},
                       {"pending", static_cast<int64_t>(pending_)},
                       {"timed_rows", static_cast<int64_t>(latency_.total())},
                       {"latency_p50_us", us * latency_.quantile(0.5)},
                       {"latency_p90_us", us * latency_.quantile(0.9)},
                       {"latency_p99_us", us * latency_.quantile(0.99)},
                       {"latency_p999_us", us * latency_.quantile(0.999)},
                       {"latency_max_us", us * static_cast<double>(latency_.most())}};
    if (reset) {
      latency_ = Histogram();
      tasks_ = merges_ = waits_ = pending_ = 0;
      max_workers_ = 1;
      max_scanned_.store(0);
    }
    return figures;
  }

 private:
  static constexpr size_t kMaxTask = 1024;
  static constexpr size_t kGroup = 32;         // probes that descend together
  static constexpr size_t kFewRows = 512;      // of a step that one thread does
  static constexpr uint64_t kPollWork = 1 << 16;  // rows looked at between two looks at signals
  static constexpr uint64_t kTaskWork = 1 << 10;  // what a task counts for at least
  static constexpr auto kPollWait = std::chrono::milliseconds(20);

  // The rows that a step brings on one side, and the index over those before.
  struct Side {
    std::unique_ptr<Index> index;
    SpinLock index_lock;  // of an index without locks of its own
    Times times;
    int64_t base = 0;  // at or before the numbers of all stored rows and of this step's
    std::unique_ptr<std::atomic<bool>[]> indexed;  // by place
    size_t indexed_size = 0;
    alignas(64) std::atomic<size_t> edge{0};  // place of the first row that is not known to be in the index
    SpinLock edge_lock;
    alignas(64) std::atomic<int64_t> unneeded{0};  // no row that is not complete needs rows before this
  };
  struct Probe {
    Key low, high;
    uint32_t row, role;
  };
  struct Scratch {
    std::vector<Probe> probes;
    std::vector<std::vector<uint64_t>> found;
    std::vector<size_t> parts;  // of an index, by the task's rows
    uint64_t random = 0;
    int worker = 0;
    uint64_t done = 0;  // rows looked at since it looked at signals
  };

  // Merges that are under way in the background.
  int64_t merging() const {
    int64_t some = 0;
    if constexpr (Index::kMerges) {
      for (int side = 0; side < window_.sides(); ++side) some += side_[side].index->merging();
    }
    return some;
  }
  Side& side_of(int side) { return side_[window_.stored(side)]; }
  const Side& side_of(int side) const { return side_[window_.stored(side)]; }
  void expire(int side) {
    if (!window_.timed()) side_[side].index->expire_rows(arrived_[side] - window_.rows(side));
  }

  void begin(int side) {
    Side& own = side_[side];
    const Input& in = *input_[side];
    if (in.times != nullptr) own.times.put(in.rows, in.first_row, in.times, in.count);
    if (own.indexed_size < in.count) {
      own.indexed_size = in.count;
      own.indexed = std::make_unique<std::atomic<bool>[]>(in.count);
    }
    for (size_t i = 0; i < in.count; ++i) own.indexed[i].store(false, std::memory_order_relaxed);
    own.edge.store(0);
    own.unneeded.store(needed(side));
    const int64_t first = in.count > 0 ? in.row(0) : arrived_[side];
    own.base = own.index->rows() > 0 ? own.index->floor() : first;
    if constexpr (Index::kMerges) own.index->begin(first);
  }

  void end(int side) {
    Side& own = side_[side];
    const Input& in = *input_[side];
    own.index->settle();
    if (in.count > 0) {
      arrived_[side] = std::max(arrived_[side], in.last_row() + 1);
      if constexpr (Index::kMerges) own.index->end(in.last_row());
    }
    expire(side);
  }

  void trim(int side) {
    side_of(side).times.trim(side_of(side).index->oldest(std::numeric_limits<int64_t>::max()));
  }

  // Threads

  int wanted() const { return std::min(max_threads_, threads()); }

  void work(int worker) {
    Scratch scratch;
    scratch.worker = worker;
    scratch.random = schedule_ == 0 ? 0 : (schedule_ * 0x9E3779B97F4A7C15u + steps_ * 0xBF58476D1CE4E5B9u + worker) | 1;
    try {
      for (Slot* slot = nullptr; (slot = acquire(worker, slot != nullptr, scratch)) != nullptr;) {
        run(*slot, scratch);
        disturb(scratch);
        slot->done.store(true, std::memory_order_release);
        propagate();
      }
    } catch (...) {
      const std::lock_guard lock(queue_);
      if (!error_) error_ = std::current_exception();
      stop_.store(true);
      turn_.notify_all();
    }
  }

  // For tests: lets another thread run, or waits, at points where threads meet.
  void disturb(Scratch& scratch) const {
    if (schedule_ == 0) return;
    scratch.random ^= scratch.random << 13;
    scratch.random ^= scratch.random >> 7;
    scratch.random ^= scratch.random << 17;
    if (scratch.random % 16 == 0) {
      std::this_thread::yield();
    } else if (scratch.random % 251 == 1) {
      std::this_thread::sleep_for(std::chrono::microseconds(scratch.random % 64));
    } else {
      for (uint64_t turns = scratch.random % 512; turns > 0; --turns) std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }

  // For work of any length, outside of locks: throws Interrupted where the step is to end.
  void attend(Scratch& scratch, uint64_t work) {
    if ((scratch.done += work) < kPollWork) return;
    scratch.done = 0;
    if (stop_.load() || (scratch.worker == 0 && poll_ != nullptr && poll_())) throw Interrupted();
  }

  // The next task, or null where there is none, or where this thread is to leave.
  Slot* acquire(int worker, bool had, Scratch& scratch) {
    attend(scratch, kTaskWork);
    disturb(scratch);
    const auto now = Clock::now();
    std::unique_lock lock(queue_, std::defer_lock);
    if (locked_) lock.lock();
    if (had && --active_ == 0 && closed_) turn_.notify_all();
    while (true) {
      if (stop_.load()) return nullptr;
      if (locked_ && worker > 0 && others_ >= wanted()) {
        --others_;
        return nullptr;
      }
      if (closed_) {
        ++waits_;
        if (worker > 0) turn_.wait(lock);
        while (worker == 0 && closed_ && !stop_.load()) {
          turn_.wait_for(lock, kPollWait);
          lock.unlock();
          attend(scratch, kPollWork);
          lock.lock();
        }
        continue;
      }
      if constexpr (Index::kMerges) {
        int due = -1, late = -1;
        for (int side = 0; side < window_.sides(); ++side) {
          const Index& index = *side_[side].index;
          if (index.merged() || index.full()) due = side;
          if (index.overfull()) late = side;
        }
        if (due >= 0 && !merging_) {
          merge(due, lock);
          continue;
        }
        if (late >= 0 && !merging_) {  // rows come faster than they are merged
          ++waits_;
          side_[late].index->wait(kPollWait);
          if (locked_) lock.unlock();
          attend(scratch, kPollWork);
          if (locked_) lock.lock();
          continue;
        }
      }
      if (cursor_[0] == input_[0]->count && (window_.self_join || cursor_[1] == input_[1]->count)) {
        if (worker > 0) --others_;
        return nullptr;
      }
      if (taken_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) < slots_.size()) break;
      lock.unlock();
      propagate();
      attend(scratch, kTaskWork);
      std::this_thread::yield();
      lock.lock();
    }
    // Rows arrive as soon as the queue has room for them.
    for (const size_t end = head_.load(std::memory_order_acquire) + slots_.size(); admitted_ < end; ++admitted_) {
      slots_[admitted_ % slots_.size()].arrived = now;
    }
    const size_t task = taken_.load(std::memory_order_relaxed);
    Slot& slot = slots_[task % slots_.size()];
    slot.done.store(false, std::memory_order_relaxed);
    slot.count = 0;
    for (int side = 0; side < window_.sides(); ++side) slot.needed[side] = needed(side);
    while (slot.count < task_size_ && take(slot.rows[slot.count])) ++slot.count;
    taken_.store(task + 1, std::memory_order_release);
    ++active_;
    ++tasks_;
    if (locked_ && worker == 0 && others_ + 1 < wanted() && (schedule_ != 0 || left() > kFewRows)) {
      ++others_;
      max_workers_ = std::max<size_t>(max_workers_, others_ + 1);
      workers_.emplace_back([this, number = static_cast<int>(workers_.size()) + 1] { work(number); });
    }
    return &slot;
  }

  // A task

  void run(Slot& slot, Scratch& scratch) {
    size_t edge[2];
    for (int side = 0; side < window_.sides(); ++side) edge[side] = side_[side].edge.load(std::memory_order_acquire);
    disturb(scratch);
    scratch.found.resize(std::max(scratch.found.size(), slot.count));
    for (size_t i = 0; i < slot.count; ++i) scratch.found[i].clear();
    for (int other = 0; other < window_.sides() && probing_; ++other) {
      scratch.probes.clear();
      for (size_t i = 0; i < slot.count; ++i) {
        const TaskRow& row = slot.rows[i];
        for (uint32_t role = 0; role < 2; ++role) {
          if (window_.self_join || (role == row.side && other != static_cast<int>(role))) {
            intervals(role, row.place, [&](Key low, Key high) {
              scratch.probes.push_back({low, high, static_cast<uint32_t>(i), role});
            });
          }
        }
      }
      for (size_t from = 0; from < scratch.probes.size(); from += kGroup) {
        const size_t count = std::min(kGroup, scratch.probes.size() - from);
        search(other, edge[other], slot, scratch.probes.data() + from, count, scratch);
      }
    }
    slot.found.clear();
    for (size_t i = 0; i < slot.count; ++i) {
      std::vector<uint64_t>& found = scratch.found[i];
      attend(scratch, found.size());
      if (!counting_) {
        if (found.size() > 1) std::sort(found.begin(), found.end());
        const size_t before = slot.found.size();
        slot.found.resize(before + found.size());
        std::copy(found.begin(), found.end(), slot.found.data() + before);
      }
      slot.rows[i].found = static_cast<uint32_t>(slot.found.size());
    }
    disturb(scratch);
    if constexpr (Index::kMerges) prepare(slot, scratch);
    for (size_t i = 0; i < slot.count; ++i) {
      add(static_cast<int>(slot.rows[i].side), slot.rows[i].place, Index::kMerges ? scratch.parts[i] : 0);
      disturb(scratch);
    }
    for (int side = 0; side < window_.sides(); ++side) move_edge(side);
  }

  // Finds the parts that a task's rows go to, and asks for their memory before it is read.
  void prepare(const Slot& slot, Scratch& scratch) {
    scratch.parts.resize(slot.count);
    for (size_t i = 0; i < slot.count; ++i) {
      const TaskRow& row = slot.rows[i];
      const auto& state = side_[row.side].index->state();
      scratch.parts[i] = part_of(state, static_cast<const Key*>(input_[row.side]->keys)[row.place]);
      __builtin_prefetch(&state.parts[scratch.parts[i]]);
    }
    if (locked_) return;
    for (size_t i = 0; i < slot.count; ++i) {
      const auto* root = reinterpret_cast<const char*>(side_[slot.rows[i].side].index->state().parts[scratch.parts[i]].tree.root());
      for (size_t line = 0; line < 4; ++line) __builtin_prefetch(root + 64 * line);
    }
  }
  template <class State>
  static size_t part_of(const State& state, Key key) {
    return state.depth == 0 ? 0 : state.tree.node_of(key, state.depth);
  }

  // The intervals of keys that a row asks for in a role.
  template <class See>
  void intervals(uint32_t role, size_t place, const See& see) const {
    const Input& in = *input_[role];
    for (const auto& [lower, upper] : in.bounds) {
      const Key low = static_cast<const Key*>(lower)[place], high = static_cast<const Key*>(upper)[place];
      if (low <= high) see(low, high);
    }
    if (in.bounded) return;
    for (const BandOf<Key>& band : intervals_[role]) {
      const auto [low, high] = band.of(static_cast<const Key*>(in.keys)[place]);
      if (low <= high) see(low, high);
    }
  }

  void search(int other, size_t edge, const Slot& slot, const Probe* probes, size_t count, Scratch& scratch) {
    Side& side = side_[other];
    const Input& in = *input_[other];
    uint32_t parts[kGroup], leaves[kGroup];
    if constexpr (Index::kMerges) {
      Key lows[kGroup];
      for (size_t i = 0; i < count; ++i) lows[i] = probes[i].low;
      const auto& state = side.index->state();
      if (state.tree.size() > 0) {
        state.tree.template descend<kGroup>(lows, count, state.depth, parts, leaves);
        for (size_t i = 0; i < count; ++i) __builtin_prefetch(&state.parts[parts[i]]);
        if (!locked_) {
          for (size_t i = 0; i < count; ++i) {
            const auto* root = reinterpret_cast<const char*>(state.parts[parts[i]].tree.root());
            for (size_t line = 0; line < 4; ++line) __builtin_prefetch(root + 64 * line);
          }
        }
      } else {
        std::fill_n(parts, count, 0);
        std::fill_n(leaves, count, 0);
      }
    }
    const int64_t edge_number = edge < in.count ? in.row(edge) : std::numeric_limits<int64_t>::max();
    const Key* keys = static_cast<const Key*>(in.keys);
    for (size_t i = 0; i < count; ++i) {
      const Probe& probe = probes[i];
      const TaskRow& row = slot.rows[probe.row];
      const Input& own = *input_[row.side];
      const int64_t end = own.other_position_of(row.place);
      // In a self join a row meets as many earlier rows in a role as the other role's window has.
      const int64_t first = std::max(end - window_.span(static_cast<int>(1 - probe.role)), side.base);
      const int64_t time = own.times != nullptr ? own.times[row.place] : 0;
      std::vector<uint64_t>& found = scratch.found[probe.row];
      uint64_t matches = 0, met = 0;
      const auto take = [&](int64_t stored) {
        ++met;
        if (own.times != nullptr) {
          const Wide apart = static_cast<Wide>(side.times.of(stored)) - time;
          if (apart < window_.first_apart(probe.role) || apart > window_.last_apart(probe.role)) return;
        }
        if (counting_) {
          ++matches;
        } else {
          found.push_back(static_cast<uint64_t>(stored) << 1 | probe.role);
        }
      };
      const int64_t last = std::min(end, edge_number);
      if (first < last) {
        const Row from = static_cast<Row>(first), rows = static_cast<Row>(last - first);
        const auto see = [&](Row stored) {
          const Row ahead = stored - from;
          if (ahead < rows) take(first + ahead);
        };
        if constexpr (Index::kMerges) {
          side.index->range_from(probe.low, probe.high, parts[i], leaves[i], locked_, see);
        } else {
          if (locked_) side.index_lock.lock();
          side.index->range(probe.low, probe.high, see);
          if (locked_) side.index_lock.unlock();
        }
      }
      disturb(scratch);
      for (size_t place = edge; place < row.seen; ++place) {
        if (keys[place] >= probe.low && keys[place] <= probe.high && in.row(place) >= first) take(in.row(place));
      }
      if (row.seen > edge && row.seen - edge > max_scanned_.load(std::memory_order_relaxed)) {
        max_scanned_.store(row.seen - edge, std::memory_order_relaxed);
      }
      attend(scratch, met + (row.seen > edge ? row.seen - edge : 0));
      if (matches > 0) counts_[probe.role][row.place] += static_cast<int64_t>(matches);
    }
  }

  void add(int of, size_t place, size_t part) {
    Side& side = side_[of];
    const Input& in = *input_[of];
    const int64_t row = in.row(place);
    const Item item = make_item(static_cast<const Key*>(in.keys)[place], static_cast<Row>(row));
    if constexpr (Index::kOwnLocks) {
      side.index->insert_at(side.index->state(), item, part, locked_);
    } else {
      if (locked_) side.index_lock.lock();
      side.index->add(item, row, in.times ? in.times[place] : 0, locked_);
      if (!window_.timed()) side.index->expire(locked_ ? side.unneeded.load(std::memory_order_relaxed) : needed(of));
      if (locked_) side.index_lock.unlock();
    }
    if (locked_) {
      side.indexed[place].store(true, std::memory_order_release);
    } else {
      side.edge.store(place + 1, std::memory_order_relaxed);
    }
  }

  // Moves the edge past rows that are in the index, unless another thread is at it.
  void move_edge(int of) {
    Side& side = side_[of];
    if (!locked_ || !side.edge_lock.try_lock()) return;
    size_t edge = side.edge.load(std::memory_order_relaxed);
    const size_t end = input_[of]->count;
    while (edge < end && side.indexed[edge].load(std::memory_order_acquire)) ++edge;
    side.edge.store(edge, std::memory_order_release);
    side.edge_lock.unlock();
  }

  // Hands on the results of the tasks at the head of the queue that are complete, unless another thread is at it.
  void propagate() {
    while (!locked_ || propagation_.try_lock()) {
      size_t head = head_.load(std::memory_order_relaxed);
      std::optional<Clock::time_point> now;
      const auto complete = [&] {
        return head < taken_.load(std::memory_order_acquire) && slots_[head % slots_.size()].done.load(std::memory_order_acquire);
      };
      for (; complete(); ++head) {
        Slot& slot = slots_[head % slots_.size()];
        hand_on(slot);
        if (!now) now = Clock::now();
        const auto waited = std::chrono::duration_cast<std::chrono::nanoseconds>(*now - slot.arrived).count();
        latency_.add(static_cast<uint64_t>(std::max<int64_t>(waited, 0)), slot.count);
        slot.done.store(false, std::memory_order_relaxed);
        head_.store(head + 1, std::memory_order_release);
      }
      if (!locked_) return;
      if (head < taken_.load(std::memory_order_acquire)) {
        for (int side = 0; side < window_.sides(); ++side) {
          side_[side].unneeded.store(slots_[head % slots_.size()].needed[side], std::memory_order_relaxed);
        }
      }
      propagation_.unlock();
      if (!complete()) return;
    }
  }

  // Begins or ends a merge of one side's index. Called and left with the queue locked.
  void merge(int of, std::unique_lock<std::mutex>& lock) {
    Side& side = side_[of];
    Index& index = *side.index;
    const auto start = Clock::now();
    const auto act = [&] {
      if (index.merged()) {
        pending_ += index.end_merge();
        return;
      }
      Keep keep = index.keep(&side.times);
      keep.before = std::max(keep.before, needed(of));
      ++merges_;
      if (index.merges_behind()) {
        const Input& in = *input_[of];
        const size_t next = cursor_[of];
        index.begin_merge(keep, next < in.count ? in.row(next) : in.count > 0 ? in.row(next - 1) + 1 : arrived_[of]);
      } else {
        index.swap(index.build(keep));
      }
    };
    if (!locked_) {
      act();
    } else {
      merging_ = closed_ = true;  // no task begins
      turn_.wait(lock, [&] { return active_ == 0 || stop_.load(); });
      if (!stop_.load()) {
        move_edge(of);
        act();
      }
      merging_ = closed_ = false;
      turn_.notify_all();
    }
    merge_seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
  }

  // Whether threads lock what they share also where there is but one.
  enum class Locks { kWithThreads, kAlways };

  const std::vector<BandOf<Key>> intervals_[2];  // by the role of the rows that probe
  const size_t task_size_;
  const Locks locks_;
  const uint64_t schedule_;
  const std::shared_ptr<MergeGate> gate_ = std::make_shared<MergeGate>();
  Side side_[2];

  // Of the step under way
  int64_t* counts_[2] = {};
  bool counting_ = false, probing_ = true;
  bool locked_ = false;
  int max_threads_ = 1;
  Poll poll_ = nullptr;
  std::vector<std::thread> workers_;
  std::mutex queue_;
  std::condition_variable turn_;
  int active_ = 0, others_ = 0;            // tasks; threads beside the caller's
  bool closed_ = false, merging_ = false;  // `merging_`: a thread begins or ends a merge
  size_t admitted_ = 0;                    // tasks whose rows have arrived
  std::vector<Slot> slots_;
  alignas(64) std::atomic<size_t> taken_{0};
  alignas(64) std::atomic<size_t> head_{0};
  std::atomic<bool> stop_{false};
  std::exception_ptr error_;
  SpinLock propagation_;
  double merge_seconds_ = 0;

  // Since it was opened
  Histogram latency_;
  uint64_t steps_ = 0, tasks_ = 0, merges_ = 0, waits_ = 0, pending_ = 0;
  size_t max_workers_ = 1;
  std::atomic<size_t> max_scanned_{0};
};

// An engine for keys of 32 or of 64 bits, over what `make` gives of its options and what it is made for.
template <template <class> class Index, class Make>
std::unique_ptr<Engine> share(const Opening& opening, const Make& make) {
  const auto made = [&]<class Key>(std::type_identity<Key> key) -> std::unique_ptr<Engine> {
    return std::make_unique<SharedEngine<Index<Key>>>(opening, [&](const Making& making) {
      return make(key, opening.index.options, making);
    });
  };
  return opening.key_bytes == 4 ? made(std::type_identity<int32_t>()) : made(std::type_identity<int64_t>());
}

std::unique_ptr<Engine> share_chains(const Opening& opening, bool immutable) {
  return share<ChainIndex>(opening, [=]<class Key>(std::type_identity<Key>, const Options& options, const Making& making) {
    return make_chain<Key>(options, making, immutable);
  });
}

std::unique_ptr<Engine> share_pim(const Opening& opening, bool partitioned) {
  return share<PimIndex>(opening, [=]<class Key>(std::type_identity<Key>, const Options& options, const Making& making) {
    return make_pim<Key>(options, making, partitioned);
  });
}

}  // namespace

std::unique_ptr<Engine> share_bplus_tree(const Opening& opening) {
  return share<BPlusIndex>(opening, []<class Key>(std::type_identity<Key>, const Options&, const Making&) {
    return std::make_unique<BPlusIndex<Key>>();
  });
}
std::unique_ptr<Engine> share_b_chain(const Opening& opening) { return share_chains(opening, false); }
std::unique_ptr<Engine> share_ib_chain(const Opening& opening) { return share_chains(opening, true); }
std::unique_ptr<Engine> share_im_tree(const Opening& opening) { return share_pim(opening, false); }
std::unique_ptr<Engine> share_pim_tree(const Opening& opening) { return share_pim(opening, true); }

}  // namespace muntin
