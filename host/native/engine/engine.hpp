// What an engine is asked and gives: a step of the join, over both windows.
#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "core/threads.hpp"
#include "core/window_index.hpp"
#include "engine/window.hpp"

namespace muntin {

// Bounds on the other side's keys by place, both included, one pair of arrays for each interval; a row with lower > upper
// has none.
using RowBounds = std::vector<std::pair<const void*, const void*>>;

// Keys of a further condition, by place.
struct OtherKeys {
  const void* keys;
  RowBounds bounds;
  bool bounded;
};

// Rows of one side, in order of arrival. Pointers that may be null stand for what is said.
struct Input {
  const void* keys;         // of 128 bits: within 2**98 of 0
  size_t count;
  const int64_t* rows;      // ascending arrival numbers; null: from `first_row` on
  int64_t first_row;
  const int64_t* other_position;  // rows of the other stream that came before each; null: `same_other_position` for all
  int64_t same_other_position;
  const int64_t* times;     // null in count windows
  RowBounds bounds;
  bool bounded;             // they come with the rows, though there may be none
  bool stored = true;       // later rows may meet them
  std::vector<OtherKeys> others = {};
  const uint32_t* order = nullptr;  // the places in the order of keys, ties by place; null: not known

  int64_t row(size_t place) const { return rows ? rows[place] : first_row + static_cast<int64_t>(place); }
  int64_t last_row() const { return row(count - 1); }
  int64_t other_position_of(size_t place) const { return other_position ? other_position[place] : same_other_position; }
};

constexpr uint64_t kAnyPairs = std::numeric_limits<uint64_t>::max();

// What a step is to find: pairs; their numbers by row; ranges of runs; or those and, for every run that a row may meet,
// empty ones; or nothing: rows are stored alone.
enum class Want { kPairs, kCounts, kRanges, kAllRanges, kNothing };

struct StepRequest {
  const Input* probes[2];  // of each side
  // What is stored, and met by the other side's rows of `probes`: the same inputs where all rows do both. In a self join
  // whose rows are stored once these are those of one side.
  const Input* stores[2];
  Want want = Want::kPairs;
  int threads = 1;
  Poll poll = nullptr;
  uint64_t max_pairs = kAnyPairs;

  bool probing() const { return want != Want::kNothing; }
  bool counting() const { return want == Want::kCounts; }
  bool ranging() const { return want == Want::kRanges || want == Want::kAllRanges; }
  bool apart() const { return probes[0] != stores[0]; }
  size_t count() const { return probes[0]->count + probes[1]->count; }
};

// Pairs of a step: those found by left rows, then those found by right rows.
struct Result {
  Block left, right;  // int64 arrival numbers
  size_t pairs[2] = {0, 0};
  CallVector<int64_t> counts[2];  // by place, when counting, and of a step that was refused
  bool refused = false;
  CallVector<int64_t> ranges[2];  // found by rows of each side, four numbers each: probing row, run, start and end in it
};

// A part of an engine that has failed: its number, why, and how many rows of each side went with it.
struct Failure {
  size_t core;
  std::string why;
  size_t lost[2];
};

class Engine {
 public:
  explicit Engine(const Window& window) : window_(window) {}
  virtual ~Engine() = default;
  // Where there are more than `max_pairs` pairs, the step is refused, with their numbers by row: it has changed nothing. An
  // engine that stores rows before all have probed throws TooManyPairs instead, and cannot be used then.
  virtual Result step(const StepRequest& request) = 0;
  virtual std::vector<int64_t> take_events(int) { return {}; }  // of runs, four numbers each: see RunEvent
  virtual void expire_times(int side, int64_t limit) = 0;
  virtual void purge(int side, int64_t limit) = 0;
  virtual void arrived(int side, int64_t rows) = 0;
  virtual size_t rows(int side) const = 0;
  virtual size_t bytes() const = 0;
  virtual size_t runs(int side) const = 0;
  virtual int64_t oldest(int side, int64_t none) const = 0;
  virtual Figures figures(int side) const = 0;
  virtual Figures report(bool /* reset */) { return {}; }  // of the engine itself, since it was opened or reset
  virtual std::vector<Failure> failures() const { return {}; }
  // For tests: a core fails after so many more rows.
  virtual void inject_fault(size_t, int64_t) { throw std::invalid_argument("this engine has no cores that could fail"); }
  // For tests: merges in the background wait where they begin (1), or once they are done (2), until this is 0.
  virtual void hold_merges(int) { throw std::invalid_argument("this engine has no merges in the background"); }
  double seconds[4] = {0, 0, 0, 0};  // sort, probe, copy, store
  uint64_t applied = 0;              // steps that have begun to change what is held: those that failed before changed nothing
  uint64_t probed_runs = 0;

 protected:
  // Throws where the rows of a step are not those that may come next.
  void check(const StepRequest& request, bool ranges) const {
    if (request.ranging() && !ranges) throw std::invalid_argument("only sorted runs give ranges");
    if (window_.self_join && request.probes[0]->count != request.probes[1]->count) {
      throw std::invalid_argument("both sides of a self join are the same rows");
    }
    for (int side = 0; side < 2; ++side) {
      const Input& in = *request.stores[side];
      if (in.count > 0 && in.row(0) < arrived_[window_.stored(side)]) {
        throw std::invalid_argument("rows must come after those of earlier steps");
      }
    }
  }

  const Window window_;
  int64_t arrived_[2] = {0, 0};  // rows of each side so far
};

// What an engine is opened with.
struct Opening {
  const KernelTable& kernels;
  size_t key_bytes;
  Window window;
  Condition condition;
  std::vector<Condition> others;  // further ones, for engines that index several
  IndexSpec index;
  Options options;                // the engine's
  bool recording = false;         // `take_events` gives what happens to the runs of an index
};

// Steps of many rows, over an index a side.
std::unique_ptr<Engine> open_batched(const Opening& opening);
// Join cores, each with a share of both windows.
std::unique_ptr<Engine> open_split_join(const Opening& opening);
// All conditions of a conjunction at once.
std::unique_ptr<Engine> open_spo(const Opening& opening);

}  // namespace muntin
