#include "engine/splitjoin_windows.hpp"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <deque>
#include <functional>
#include <random>
#include <thread>

namespace muntin {

using namespace splitjoin;

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
  Node(Shared& shared, size_t id) : Place(std::bit_ceil(shared.splitjoin.queue_rows)), shared(shared), schedule(shared.splitjoin.schedule, id) {}

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
      : Place(std::bit_ceil(shared.splitjoin.queue_rows)), shared(shared), index(index),
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
      tree.cores.push_back(
          std::make_unique<Core>(tree.shared, index, open_sub_windows(tree.shared, opening.key_bytes, opening.index)));
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
        // Where no group is owed, what comes belongs to the group whose last row has not been given yet.
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
