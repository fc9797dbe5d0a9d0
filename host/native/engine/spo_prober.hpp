// How the rows of a step probe one part of the other side's window in SPO-Join.
//
// Source: SPO-Join, sections 3.2 and 3.3, and 5.4 for what it compares itself with.
#pragma once

#include <atomic>

#include "engine/spo_parts.hpp"

namespace muntin::spo {

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

class Prober {
 public:
  // `times`: of the rows that are stored, by side. `hash`: what the conditions find in a mutable part is intersected by hashing.
  Prober(const KernelTable& kernels, const Window& window, const Times (&times)[2], size_t conditions, bool hash, Immutable immutable)
      : kernels_(kernels), window_(window), times_(times), conditions_(conditions), hash_(hash), immutable_(immutable) {}

  // The pairs that the rows of a chunk make with those of a run or of a mutable part. `counts`: of each row of the step that
  // `in` holds, which are added to in place of pairs; null where pairs are asked for.
  void probe(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output);
  void probe(const MutablePart& part, const Chunk& chunk, const Input& in, int64_t* counts, Output& output);
  size_t bit_bytes() const { return bit_bytes_; }

 private:
  struct View;
  struct Sink;
  struct Scratch;

  static Scratch& scratch();
  void ranges(const ImmutableRun& run, const Chunk& chunk, size_t k, uint32_t* out) const;
  std::vector<const uint32_t*> all_ranges(const ImmutableRun& run, const Chunk& chunk, Output& output) const;
  template <class Visit, class See>
  void intersect(size_t length, size_t first, size_t last, bool hash, const Visit& visit, const See& see);
  void probe_permutations(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output);
  void probe_css(const ImmutableRun& run, const Chunk& chunk, const Input& in, int64_t* counts, Output& output);
  void note_bits(const Scratch& own);

  const KernelTable& kernels_;
  const Window& window_;
  const Times (&times_)[2];
  const size_t conditions_;
  const bool hash_;
  const Immutable immutable_;
  std::atomic<size_t> bit_bytes_{0};  // of one thread, at most
};

}  // namespace muntin::spo
