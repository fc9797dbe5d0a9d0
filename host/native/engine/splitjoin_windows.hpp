// A join core's share of both windows in SplitJoin, and what it is given.
//
// Source: SplitJoin, section 4; PanJoin, section V-A.4, for structures other than nested loops.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/splitjoin_engine.hpp"

namespace muntin::splitjoin {

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

// What a core with a choice of structures has chosen so far.
struct StructureChoice {
  std::string structure = "nested_loop";
  std::string why = "few rows";
  int64_t changes = 0, trials = 0, borders = 0;
};

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

// Opens it for keys of 4 or 8 bytes: "nested_loop", "auto" (an `AdaptiveWindow`), or any other index of the core.
std::unique_ptr<SubWindows> open_sub_windows(const Shared& shared, size_t key_bytes, const IndexSpec& index);

}  // namespace muntin::splitjoin
