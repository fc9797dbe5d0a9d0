// Sort, search, merge and copy: the loops that are compiled once per instruction set.
//
// Every sorted run is an array of words in ascending signed order. With 32-bit keys a word has 64 bits, the key above the
// low 32 bits of the row number; with keys of 64 and of 128 bits it is the key alone, and row numbers lie in an array of
// their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace muntin {

using Row = uint32_t;    // the low 32 bits of an arrival number
using Word = int64_t;
using Wide = __int128;   // sums and differences of 64-bit times and keys, and keys of 128 bits

// What a run is an array of.
template <class Key>
using WordOf = std::conditional_t<sizeof(Key) == 16, Wide, Word>;

template <class T>
constexpr T kGreatest = std::numeric_limits<T>::max();
template <>
inline constexpr Wide kGreatest<Wide> = static_cast<Wide>(~static_cast<unsigned __int128>(0) >> 1);

constexpr size_t kLeaf = 8;  // words of a leaf: one cache line, two with keys of 128 bits

// Entries of the index in one cache line (two with keys of 128 bits): the fan-out of its levels.
template <class Key>
constexpr size_t kFan = sizeof(Key) == 16 ? kLeaf : 64 / sizeof(Key);

// A sorted run with its two-level index.
//
// `words` is padded to whole leaves, and by one more, with the greatest word. `leaves[j]` is the key of word `j * kLeaf`, `lines[k]` is
// `leaves[k * kFan]`; both are followed by twice `kFan` of the greatest key.
template <class Key>
struct RunView {
  const WordOf<Key>* words;
  const Row* rows;  // null with 32-bit keys
  const Key* leaves;
  const Key* lines;
  size_t length;
  size_t leaf_count;
  size_t line_count;
};

// A range of a run, or of rows kept after a check, that one probe has found.
struct Found {
  uint32_t probe;  // place of the probing row in its batch
  uint32_t start;
  uint32_t length;
};

// The part of a merge between two diagonals.
template <class W>
struct MergePartOf {
  const W *a, *b;
  const Row *a_rows, *b_rows;  // null with 32-bit keys
  size_t a_length, b_length;
  W* out;
  Row* out_rows;
};
using MergePart = MergePartOf<Word>;

// Where pairs go: for each the arrival number of the probing and of the stored row.
struct PairsOut {
  int64_t* probing;
  int64_t* stored;
  const int64_t* numbers;  // arrival numbers by place in the batch, or null: `first + place`
  int64_t first;
  int64_t base;  // an arrival number at or before all stored rows, less than 2**32 before any
  bool stream;   // bypass the caches: the result is larger than they are
};

template <class Key>
struct Kernels {
  // Sorts `count` keys (at most 2**32 - 1): `words` gets keys in order, with 32-bit keys packed above their places plus
  // `first`; `places` (wider keys only) gets the places. `scratch` has room for `2 * count` words of 64 bits.
  void (*sort)(const Key* keys, size_t count, Row first, WordOf<Key>* words, uint32_t* places, uint64_t* scratch);
  // For probes with ascending bounds, the ranges of words with `lower <= word <= upper`; returns how many are not
  // empty, and adds their lengths to `total`. `out` has room for `count`.
  size_t (*search)(const RunView<Key>& run, const WordOf<Key>* lower, const WordOf<Key>* upper, const uint32_t* probes,
                   size_t count, Found* out, uint64_t* total);
  // The places of the keys in [low, high], ascending; returns how many. `out` has room for `count`. Null with keys of 128
  // bits.
  size_t (*scan)(const Key* keys, size_t count, Key low, Key high, uint32_t* out);
};

constexpr size_t kScanned = 4;  // probes that `scan_together` compares with each word

struct KernelTable {
  const char* name;
  Kernels<int32_t> narrow;
  Kernels<int64_t> wide;
  Kernels<Wide> widest;
  void (*merge)(const MergePart& part);
  void (*merge_widest)(const MergePartOf<Wide>& part);
  // Copies the row numbers of `count` words, or rows, that lie in [first, first + span) modulo 2**32; returns how many.
  // `out` has room for `count` and one cache line more, and may be `rows`.
  size_t (*keep_words)(const Word* words, size_t count, Row first, Row span, Row* out);
  size_t (*keep_rows)(const Row* rows, size_t count, Row first, Row span, Row* out);
  // Moves those of `count` words to the front, in their order, whose row numbers are at least `past` above `low`, modulo
  // 2**32, and their rows, if they do not hold those; returns how many, and the least number above `low`. Behind the words
  // lies room for a cache line.
  size_t (*keep_past)(Word* words, Row* rows, size_t count, Row low, Row past, Row* first);
  size_t (*keep_past_widest)(Wide* words, Row* rows, size_t count, Row low, Row past, Row* first);
  // Copies the row numbers of those of `count` unsorted words with `lower <= word <= upper`; returns how many. `rows` is
  // null where words hold the numbers; room as above.
  size_t (*scan)(const Word* words, const Row* rows, size_t count, Word lower, Word upper, Row* out);
  // The same for `kScanned` probes, with one look at each word: those of probe i go to `out + i * room + found[i]`, and are
  // added to `found[i]`.
  void (*scan_together)(const Word* words, const Row* rows, size_t count, const Word* lower, const Word* upper, Row* out,
                        size_t room, size_t* found);
  // Row numbers are the low halves of words, or lie in an array of rows.
  void (*emit_words)(const Word* words, const Found* found, size_t count, const PairsOut& out);
  void (*emit_rows)(const Row* rows, const Found* found, size_t count, const PairsOut& out);
  // How many bits from `from` on and before `to` are set.
  size_t (*count_bits)(const uint64_t* bits, size_t from, size_t to);
  // How many words have row numbers in [first, first + span) modulo 2**32.
  size_t (*count_words)(const Word* words, size_t count, Row first, Row span);
  // How many values lie there; and their places plus `base`, for which `out` has room
  // for `count` and one cache line more.
  size_t (*count_between)(const uint32_t* values, size_t count, uint32_t first, uint32_t span);
  size_t (*find_between)(const uint32_t* values, size_t count, uint32_t first, uint32_t span, uint32_t base, uint32_t* out);

  template <class Key>
  const Kernels<Key>& of() const {
    if constexpr (sizeof(Key) == 4) {
      return narrow;
    } else if constexpr (sizeof(Key) == 8) {
      return wide;
    } else {
      return widest;
    }
  }
};

// The table for the best instruction set that this processor has; `wanted` (null: the best) names a lesser one.
// Returns null where the processor lacks it, or there is none of that name.
const KernelTable* choose_kernels(const char* wanted);

}  // namespace muntin
