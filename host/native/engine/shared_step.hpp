// What a step of the engine over shared indexes is, whatever the index: its rows in the order in which they have arrived,
// the tasks that they are cut into, and the pairs that these hand on.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>

#include "engine/engine.hpp"

namespace muntin {

// Times by their powers of two, each cut into eight.
class Histogram {
 public:
  void add(uint64_t value, uint64_t count) {
    counts_[bucket(value)] += count;
    total_ += count;
    most_ = std::max(most_, value);
  }
  double quantile(double share) const {
    uint64_t below = 0;
    for (size_t at = 0; at < counts_.size(); ++at) {
      below += counts_[at];
      if (total_ > 0 && static_cast<double>(below) >= share * static_cast<double>(total_)) return std::min(upper(at), static_cast<double>(most_));
    }
    return 0;
  }
  uint64_t most() const { return most_; }
  uint64_t total() const { return total_; }

 private:
  static size_t bucket(uint64_t value) {
    if (value < 8) return value;
    const int power = std::bit_width(value) - 1;
    return static_cast<size_t>(power - 2) * 8 + (value >> (power - 3) & 7);
  }
  static double upper(size_t bucket) {
    if (bucket < 8) return static_cast<double>(bucket);
    return static_cast<double>((bucket % 8 + 9) << (bucket / 8 - 1));
  }
  std::array<uint64_t, 512> counts_{};
  uint64_t total_ = 0, most_ = 0;
};

class SharedStep : public Engine {
 protected:
  using Clock = std::chrono::steady_clock;
  using Engine::Engine;

  struct TaskRow {
    uint32_t side, place;
    uint32_t seen;   // rows of the other side's in this step that it may meet: those before this place
    uint32_t found;  // end of its results
  };
  struct alignas(64) Slot {
    std::atomic<bool> done{false};
    std::vector<TaskRow> rows;
    size_t count = 0;
    int64_t needed[2];
    Clock::time_point arrived;
    Buffer<uint64_t> found;  // twice the stored row's number, and 1 where the probing row is a right one
  };

  // Rows are taken as they have come: no later one came before fewer rows of the other side.
  static void check_order(const StepRequest& request) {
    for (const Input* in : request.probes) {
      for (size_t i = 0; i < in->count; ++i) {
        if (in->other_position_of(i) < (i == 0 ? 0 : in->other_position_of(i - 1))) {
          throw std::invalid_argument("other_position must be ascending arrival numbers from 0 on");
        }
      }
    }
  }

  size_t left() const {
    return input_[0]->count - cursor_[0] + (window_.self_join ? 0 : input_[1]->count - cursor_[1]);
  }

  // The next row in the order of arrival; false where there is none.
  bool take(TaskRow& row) {
    const Input &left = *input_[0], &right = *input_[1];
    int side = 0;
    if (window_.self_join) {
      if (cursor_[0] == left.count) return false;
    } else if (cursor_[0] == left.count) {
      if (cursor_[1] == right.count) return false;
      side = 1;
    } else if (cursor_[1] < right.count) {
      side = right.row(cursor_[1]) < left.other_position_of(cursor_[0]);
    }
    const Input& other = window_.self_join ? left : *input_[1 - side];
    const size_t place = cursor_[side]++;
    const int64_t end = input_[side]->other_position_of(place);
    while (seen_[side] < other.count && other.row(seen_[side]) < end) ++seen_[side];
    row = {static_cast<uint32_t>(side), static_cast<uint32_t>(place), static_cast<uint32_t>(seen_[side]), 0};
    return true;
  }

  // The least number of a side's rows that rows not yet taken, of this step or a later one, may meet.
  int64_t needed(int side) const {
    if (window_.timed()) return std::numeric_limits<int64_t>::min() / 2;
    const int other = window_.self_join ? 0 : 1 - side;
    const Input &own = *input_[side], &probing = *input_[other];
    int64_t before = arrived_[side];
    if (cursor_[other] < probing.count) {
      before = probing.other_position_of(cursor_[other]);
    } else if (own.count > 0) {
      before = own.row(own.count - 1) + 1;
    }
    return before - window_.rows(side);
  }

  // Adds the pairs of a task to those of the step.
  void hand_on(const Slot& slot) {
    const size_t count = slot.found.size();
    if (count == 0) return;
    if (pairs_ + count > max_pairs_) throw TooManyPairs();
    if (pairs_ + count > room_) {
      room_ = std::max<size_t>(2 * room_, pairs_ + count + 4096);
      for (Block* block : {&left_, &right_}) {
        Block grown(room_ * sizeof(int64_t), Use::kResult);
        if (pairs_ > 0) std::memcpy(grown.data(), block->data(), pairs_ * sizeof(int64_t));
        *block = std::move(grown);
      }
    }
    auto* left = static_cast<int64_t*>(left_.data());
    auto* right = static_cast<int64_t*>(right_.data());
    size_t at = 0;
    for (size_t i = 0; i < slot.count; ++i) {
      const int64_t probing = input_[slot.rows[i].side]->row(slot.rows[i].place);
      for (; at < slot.rows[i].found; ++at, ++pairs_) {
        const auto stored = static_cast<int64_t>(slot.found[at] >> 1);
        const bool by_right = slot.found[at] & 1;
        left[pairs_] = by_right ? stored : probing;
        right[pairs_] = by_right ? probing : stored;
      }
    }
  }

  const Input* input_[2] = {};
  size_t cursor_[2] = {}, seen_[2] = {};  // next place of each side, and of the other one before it
  Block left_, right_;
  size_t pairs_ = 0, room_ = 0;
  uint64_t max_pairs_ = kAnyPairs;
};

}  // namespace muntin
