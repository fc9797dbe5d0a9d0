// Compiled once per instruction set, with MUNTIN_ISA naming it.
#include "core/kernels_copy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace muntin {
namespace MUNTIN_JOIN(isa_, MUNTIN_ISA) {

// Counts in one cache line, two of keys of 128 bits

// How many of the 8 words (or 16 narrow keys) of a line are below `x`, or not above it. The line need not be aligned.
inline size_t count_below(const int64_t* line, int64_t x) {
#if defined(__AVX512F__)
  return std::popcount(static_cast<unsigned>(_mm512_cmplt_epi64_mask(_mm512_loadu_si512(line), _mm512_set1_epi64(x))));
#elif defined(__AVX2__)
  const __m256i at = _mm256_set1_epi64x(x);
  const __m256i low = _mm256_cmpgt_epi64(at, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line)));
  const __m256i high = _mm256_cmpgt_epi64(at, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + 4)));
  return std::popcount(static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                                             _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4));
#else
  size_t count = 0;
  for (size_t i = 0; i < 8; ++i) count += line[i] < x;
  return count;
#endif
}

inline size_t count_below(const int32_t* line, int32_t x) {
#if defined(__AVX512F__)
  return std::popcount(static_cast<unsigned>(_mm512_cmplt_epi32_mask(_mm512_loadu_si512(line), _mm512_set1_epi32(x))));
#elif defined(__AVX2__)
  const __m256i at = _mm256_set1_epi32(x);
  const __m256i low = _mm256_cmpgt_epi32(at, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line)));
  const __m256i high = _mm256_cmpgt_epi32(at, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + 8)));
  return std::popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)) |
                                             _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8));
#else
  size_t count = 0;
  for (size_t i = 0; i < 16; ++i) count += line[i] < x;
  return count;
#endif
}

inline size_t count_to(const int64_t* line, int64_t x) {
#if defined(__AVX512F__)
  return std::popcount(static_cast<unsigned>(_mm512_cmple_epi64_mask(_mm512_loadu_si512(line), _mm512_set1_epi64(x))));
#elif defined(__AVX2__)
  const __m256i at = _mm256_set1_epi64x(x);
  const __m256i low = _mm256_cmpgt_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(line)), at);
  const __m256i high = _mm256_cmpgt_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + 4)), at);
  return 8 - std::popcount(static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(low)) |
                                                 _mm256_movemask_pd(_mm256_castsi256_pd(high)) << 4));
#else
  size_t count = 0;
  for (size_t i = 0; i < 8; ++i) count += line[i] <= x;
  return count;
#endif
}

inline size_t count_to(const int32_t* line, int32_t x) {
#if defined(__AVX512F__)
  return std::popcount(static_cast<unsigned>(_mm512_cmple_epi32_mask(_mm512_loadu_si512(line), _mm512_set1_epi32(x))));
#elif defined(__AVX2__)
  const __m256i at = _mm256_set1_epi32(x);
  const __m256i low = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(line)), at);
  const __m256i high = _mm256_cmpgt_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(line + 8)), at);
  return 16 - std::popcount(static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(low)) |
                                                  _mm256_movemask_ps(_mm256_castsi256_ps(high)) << 8));
#else
  size_t count = 0;
  for (size_t i = 0; i < 16; ++i) count += line[i] <= x;
  return count;
#endif
}

#if defined(__AVX512F__)
// Which of 8 keys of 128 bits are below `x`, or are it: by their upper halves, then by the lower ones.
inline std::pair<unsigned, unsigned> compare(const Wide* line, Wide x) {
  const __m512i a = _mm512_loadu_si512(line), b = _mm512_loadu_si512(line + 4);
  const __m512i low = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), b);
  const __m512i high = _mm512_permutex2var_epi64(a, _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15), b);
  const __m512i low_x = _mm512_set1_epi64(static_cast<int64_t>(x)), high_x = _mm512_set1_epi64(static_cast<int64_t>(x >> 64));
  const __mmask8 same = _mm512_cmpeq_epi64_mask(high, high_x);
  return {_mm512_cmplt_epi64_mask(high, high_x) | _mm512_mask_cmplt_epu64_mask(same, low, low_x),
          _mm512_mask_cmpeq_epi64_mask(same, low, low_x)};
}
#endif

inline size_t count_below(const Wide* line, Wide x) {
#if defined(__AVX512F__)
  return std::popcount(compare(line, x).first);
#else
  size_t count = 0;
  for (size_t i = 0; i < 8; ++i) count += line[i] < x;
  return count;
#endif
}

inline size_t count_to(const Wide* line, Wide x) {
#if defined(__AVX512F__)
  const auto [below, same] = compare(line, x);
  return std::popcount(below | same);
#else
  size_t count = 0;
  for (size_t i = 0; i < 8; ++i) count += line[i] <= x;
  return count;
#endif
}

// Sort

// Sorts words by the `bits` bits above bit 32, least digit first; returns the array that holds the result.
uint64_t* radix_sort(uint64_t* from, uint64_t* to, size_t count, int bits) {
  const int digit = count < 4096 ? 8 : 11;
  const int passes = (bits + digit - 1) / digit;
  const size_t values = size_t{1} << digit;
  uint32_t slots[4][2048];
  for (int pass = 0; pass < passes || pass < 1; ++pass) std::memset(slots[pass], 0, values * sizeof(uint32_t));
  for (size_t i = 0; i < count; ++i) {
    const uint64_t key = from[i] >> 32;
    ++slots[0][key & (values - 1)];
    if (passes > 1) ++slots[1][key >> digit & (values - 1)];
    if (passes > 2) ++slots[2][key >> 2 * digit & (values - 1)];
    if (passes > 3) ++slots[3][key >> 3 * digit & (values - 1)];
  }
  for (int pass = 0; pass < passes; ++pass) {
    uint32_t* slot = slots[pass];
    const int shift = 32 + pass * digit;
    if (slot[from[0] >> shift & (values - 1)] == count) continue;  // all share this digit
    uint32_t sum = 0;
    for (size_t value = 0; value < values; ++value) {
      const uint32_t size = slot[value];
      slot[value] = sum;
      sum += size;
    }
    for (size_t i = 0; i < count; ++i) to[slot[from[i] >> shift & (values - 1)]++] = from[i];
    std::swap(from, to);
  }
  return from;
}

void sort_narrow(const int32_t* keys, size_t count, Row first, Word* words, uint32_t*, uint64_t* scratch) {
  if (count == 0) return;
  int32_t low = keys[0], high = keys[0];
  for (size_t i = 1; i < count; ++i) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  const int64_t least = low;
  const int bits = std::bit_width(static_cast<uint64_t>(high - least));
  auto* target = reinterpret_cast<uint64_t*>(words);
  for (size_t i = 0; i < count; ++i) target[i] = static_cast<uint64_t>(keys[i] - least) << 32 | i;
  const uint64_t* sorted = radix_sort(target, scratch, count, bits);
  const uint64_t offset = (static_cast<uint64_t>(least) << 32) + first;
  for (size_t i = 0; i < count; ++i) target[i] = sorted[i] + offset;
}

// Sorts places by their 64-bit keys, and gives the keys in that order: by the 32 leading bits that differ, then groups
// that share those by the rest.
void sort_group(const int64_t* keys, size_t count, Word* words, uint32_t* places, uint64_t* scratch) {
  if (count < 32) {
    std::sort(places, places + count,
              [keys](uint32_t a, uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
    for (size_t i = 0; i < count; ++i) words[i] = keys[places[i]];
    return;
  }
  for (size_t i = 0; i < count; ++i) words[i] = keys[places[i]];
  Word low = words[0], high = words[0];
  for (size_t i = 1; i < count; ++i) {
    low = words[i] < low ? words[i] : low;
    high = words[i] > high ? words[i] : high;
  }
  const auto least = static_cast<uint64_t>(low);
  const int bits = std::bit_width(static_cast<uint64_t>(high) - least);
  const int shift = std::max(bits - 32, 0);
  const auto lead = [least, shift](Word word) { return (static_cast<uint64_t>(word) - least) >> shift; };
  for (size_t i = 0; i < count; ++i) scratch[i] = lead(words[i]) << 32 | places[i];
  const uint64_t* sorted = radix_sort(scratch, scratch + count, count, bits - shift);
  for (size_t i = 0; i < count; ++i) places[i] = static_cast<uint32_t>(sorted[i]);
  for (size_t i = 0; i < count; ++i) words[i] = keys[places[i]];
  if (shift == 0) return;
  for (size_t start = 0, stop; start < count; start = stop) {
    stop = start + 1;
    while (stop < count && lead(words[stop]) == lead(words[start])) ++stop;
    if (stop - start > 1) sort_group(keys, stop - start, words + start, places + start, scratch);
  }
}

void sort_wide(const int64_t* keys, size_t count, Row, Word* words, uint32_t* places, uint64_t* scratch) {
  for (size_t i = 0; i < count; ++i) places[i] = static_cast<uint32_t>(i);
  if (count) sort_group(keys, count, words, places, scratch);
}

// Sorts places by their 128-bit keys, and gives the keys in that order: by as many leading bits of both halves' ranges
// as fit 63, then groups that share those by the rest. Bits that all keys have alike, most of those of composite keys, are
// in no range.
void sort_widest(const Wide* keys, size_t count, Row, Wide* words, uint32_t* places, uint64_t* scratch) {
  if (count == 0) return;
  const auto high = [](Wide key) { return static_cast<int64_t>(key >> 64); };
  const auto low = [](Wide key) { return static_cast<uint64_t>(key); };
  int64_t min_high = high(keys[0]), max_high = min_high;
  uint64_t min_low = low(keys[0]), max_low = min_low;
  for (size_t i = 1; i < count; ++i) {
    min_high = std::min(min_high, high(keys[i]));
    max_high = std::max(max_high, high(keys[i]));
    min_low = std::min(min_low, low(keys[i]));
    max_low = std::max(max_low, low(keys[i]));
  }
  const auto base = static_cast<uint64_t>(min_high);
  const int high_bits = std::bit_width(static_cast<uint64_t>(max_high) - base);
  const int low_bits = std::bit_width(max_low - min_low);
  const int high_shift = std::max(high_bits - 63, 0);
  const int room = 63 - (high_bits - high_shift);  // for bits of the lower halves
  const int low_shift = std::max(low_bits - room, 0);
  auto* lead = reinterpret_cast<int64_t*>(words);  // what `words` gets is written when this has been read
  int64_t* const sorted = lead + count;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t above = (static_cast<uint64_t>(high(keys[i])) - base) >> high_shift;
    const uint64_t below = low_shift < 64 ? (low(keys[i]) - min_low) >> low_shift : 0;
    lead[i] = static_cast<int64_t>(above << (low_bits - low_shift) | below);
    places[i] = static_cast<uint32_t>(i);
  }
  sort_group(lead, count, sorted, places, scratch);
  if (high_shift > 0 || low_shift > 0) {
    const auto before = [keys](uint32_t a, uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; };
    for (size_t start = 0, stop; start < count; start = stop) {
      stop = start + 1;
      while (stop < count && sorted[stop] == sorted[start]) ++stop;
      if (!std::is_sorted(places + start, places + stop, before)) std::sort(places + start, places + stop, before);
    }
  }
  for (size_t i = 0; i < count; ++i) words[i] = keys[places[i]];
}

// Search

inline Wide key_of(Wide word, Wide) { return word; }
inline int32_t key_of(Word word, int32_t) { return static_cast<int32_t>(word >> 32); }
inline int64_t key_of(Word word, int64_t) { return word; }

// The last of `count` ascending keys, at or after `at`, that is below `x` (`at` where none is). Behind the keys lies a
// cache line of the greatest key.
template <class Key>
inline size_t last_below(const Key* keys, size_t count, size_t at, Key x) {
  constexpr size_t fan = kFan<Key>;
  const size_t below = count_below(keys + at + 1, x);
  if (below < fan) [[likely]] return at + below;
  at += fan;
  // Far ahead: doubling steps, then halving.
  size_t step = fan;
  while (at + step < count && keys[at + step] < x) {
    at += step;
    step *= 2;
  }
  size_t end = at + step < count ? at + step : count;  // keys[end] is not below, or there is none
  while (end - at > 1) {
    const size_t middle = at + (end - at) / 2;
    if (keys[middle] < x) {
      at = middle;
    } else {
      end = middle;
    }
  }
  return at;
}

// The number of words of a run that are not above `high`, given a leaf at or before the last of them.
template <class Key>
inline size_t stop_of(const RunView<Key>& run, size_t leaf, WordOf<Key> high) {
  const Key high_key = key_of(high, Key{});
  const size_t more = count_to(run.leaves + leaf + 1, high_key);
  leaf += more;
  if (more == kFan<Key>) [[unlikely]] {
    leaf = high_key == kGreatest<Key>
               ? run.leaf_count - 1
               : last_below(run.leaves, run.leaf_count, leaf, static_cast<Key>(high_key + 1));
  }
  if (leaf >= run.leaf_count) leaf = run.leaf_count - 1;
  const size_t stop = leaf * kLeaf + count_to(run.words + leaf * kLeaf, high);
  return stop < run.length ? stop : run.length;
}

// Probes are searched in four stretches side by side, as the search for one starts where that for the one before ended.
constexpr size_t kStretches = 4;
constexpr size_t kGroup = 64;  // probes whose cache misses overlap
constexpr size_t kDense = 6;   // words a probe up to which all words are walked

template <class Key>
size_t search(const RunView<Key>& view, const WordOf<Key>* lower, const WordOf<Key>* upper, const uint32_t* probes,
              size_t count, Found* out, uint64_t* total) {
  using Word = WordOf<Key>;
  constexpr size_t fan = kFan<Key>;
  const RunView<Key> run = view;
  const auto key = [lower](size_t i) { return key_of(lower[i], Key{}); };
  Found* const begin = out;
  uint64_t sum = 0;
  const auto add = [&](size_t i, size_t start, size_t stop) {
    const size_t length = stop > start ? stop - start : 0;
    *out = {probes[i], static_cast<uint32_t>(start), static_cast<uint32_t>(length)};
    out += length > 0;
    sum += length;
  };
  // Given the last leaf whose first key is below the bound.
  const auto in_leaf = [&](size_t i, size_t leaf) {
    const Word* words = run.words + leaf * kLeaf;
    const Word high = upper[i];
    const size_t start = leaf * kLeaf + count_below(words, lower[i]);
    size_t stop;
    if (run.leaves[leaf + 1] > key_of(high, Key{})) [[likely]] {
      stop = leaf * kLeaf + count_to(words, high);
    } else {
      stop = stop_of(run, leaf, high);
    }
    add(i, start, stop);
  };
  const size_t each = count / kStretches;
  size_t at[kStretches];  // the leaf that each stretch has come to
  for (size_t c = 0; c < kStretches; ++c) at[c] = last_below(run.leaves, run.leaf_count, c ? at[c - 1] : 0, key(c * each));
  const size_t last = last_below(run.leaves, run.leaf_count, at[kStretches - 1], key(count - 1));
  const size_t spanned = (last - at[0] + 1) * kLeaf;
  size_t at0 = at[0], at1 = at[1], at2 = at[2], at3 = at[3];

  if (spanned <= kDense * count) {
    const Word *w0 = run.words + at0 * kLeaf, *w1 = run.words + at1 * kLeaf, *w2 = run.words + at2 * kLeaf,
               *w3 = run.words + at3 * kLeaf;
    const auto step = [&](const Word*& from, size_t i) {
      const Word low = lower[i], high = upper[i];
      size_t below;
      while ((below = count_below(from, low)) == kLeaf) [[unlikely]] from += kLeaf;
      from += below;
      const size_t start = from - run.words;
      const size_t more = count_to(from, high);
      size_t stop = start + more;
      if (more == kLeaf) [[unlikely]] stop = stop_of(run, start / kLeaf, high);
      add(i, start, stop < run.length ? stop : run.length);
    };
    for (size_t i = 0; i < each; ++i) {
      step(w0, i);
      step(w1, each + i);
      step(w2, 2 * each + i);
      step(w3, 3 * each + i);
    }
    for (size_t i = kStretches * each; i < count; ++i) step(w3, i);
  } else {
    uint32_t line[kGroup], leaf[kGroup];
    at0 /= fan, at1 /= fan, at2 /= fan, at3 /= fan;
    for (size_t from = 0; from < each; from += kGroup / kStretches) {
      const size_t to = each - from < kGroup / kStretches ? each : from + kGroup / kStretches;
      uint32_t* next = line;
      const auto find = [&](size_t& at, size_t i) {
        at = last_below(run.lines, run.line_count, at, key(i));
        *next++ = static_cast<uint32_t>(at);
        __builtin_prefetch(run.leaves + at * fan);
      };
      for (size_t i = from; i < to; ++i) {
        find(at0, i);
        find(at1, each + i);
        find(at2, 2 * each + i);
        find(at3, 3 * each + i);
      }
      size_t place = 0;
      const auto descend = [&](size_t i) {
        const size_t below = count_below(run.leaves + line[place] * fan, key(i));
        leaf[place] = static_cast<uint32_t>(line[place] * fan + below - (below > 0));
        __builtin_prefetch(run.words + size_t{leaf[place]} * kLeaf);
        ++place;
      };
      for (size_t i = from; i < to; ++i) {
        descend(i);
        descend(each + i);
        descend(2 * each + i);
        descend(3 * each + i);
      }
      place = 0;
      for (size_t i = from; i < to; ++i) {
        in_leaf(i, leaf[place]);
        in_leaf(each + i, leaf[place + 1]);
        in_leaf(2 * each + i, leaf[place + 2]);
        in_leaf(3 * each + i, leaf[place + 3]);
        place += kStretches;
      }
    }
    for (size_t i = kStretches * each; i < count; ++i) {
      at3 = last_below(run.lines, run.line_count, at3, key(i));
      const size_t below = count_below(run.leaves + at3 * fan, key(i));
      in_leaf(i, at3 * fan + below - (below > 0));
    }
  }
  *total += sum;
  return out - begin;
}

// Merge

constexpr int kChains = 4;

template <class W>
struct Chain {
  const W *a, *a_end, *b, *b_end;
  const Row *a_rows, *b_rows;
  W* out;
  Row* out_rows;
};

// How many of the first `diagonal` words of a merge come from `a`; of equal words those of `a` come first.
template <class W>
size_t split(const W* a, size_t a_length, const W* b, size_t b_length, size_t diagonal) {
  size_t low = diagonal > b_length ? diagonal - b_length : 0, high = std::min(diagonal, a_length);
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (a[middle] <= b[diagonal - 1 - middle]) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <bool with_rows, class W>
inline void step(Chain<W>& chain) {
  const W a = *chain.a, b = *chain.b;
  const bool take_b = b < a;
  *chain.out++ = take_b ? b : a;
  chain.a += !take_b;
  chain.b += take_b;
  if constexpr (with_rows) {
    *chain.out_rows++ = take_b ? *chain.b_rows : *chain.a_rows;
    chain.a_rows += !take_b;
    chain.b_rows += take_b;
  }
}

template <bool with_rows, class W>
void finish(Chain<W>& chain) {
  while (true) {
    const size_t safe = std::min(chain.a_end - chain.a, chain.b_end - chain.b);
    if (safe == 0) break;
    for (size_t i = 0; i < safe; ++i) step<with_rows>(chain);
  }
  const auto rest = [&chain](const W* from, const W* end, const Row* rows) {
    const size_t count = end - from;
    if (count == 0) return;
    std::memcpy(chain.out, from, count * sizeof(W));
    if constexpr (with_rows) std::memcpy(chain.out_rows, rows, count * sizeof(Row));
    chain.out += count;
    if constexpr (with_rows) chain.out_rows += count;
  };
  rest(chain.a, chain.a_end, chain.a_rows);
  rest(chain.b, chain.b_end, chain.b_rows);
}

template <bool with_rows, class W>
void merge_chains(const MergePartOf<W>& part) {
  const size_t total = part.a_length + part.b_length;
  Chain<W> chain[kChains];
  size_t from = 0, from_a = 0;
  for (int c = 0; c < kChains; ++c) {
    const size_t to = total * (c + 1) / kChains;
    const size_t to_a = c + 1 == kChains ? part.a_length : split(part.a, part.a_length, part.b, part.b_length, to);
    const size_t from_b = from - from_a, to_b = to - to_a;
    chain[c] = {part.a + from_a, part.a + to_a, part.b + from_b, part.b + to_b,
                with_rows ? part.a_rows + from_a : nullptr, with_rows ? part.b_rows + from_b : nullptr,
                part.out + from, with_rows ? part.out_rows + from : nullptr};
    from = to;
    from_a = to_a;
  }
  while (true) {
    size_t safe = std::numeric_limits<size_t>::max();
    for (const Chain<W>& c : chain) safe = std::min<size_t>(safe, std::min(c.a_end - c.a, c.b_end - c.b));
    if (safe == 0) break;
    Chain<W> c0 = chain[0], c1 = chain[1], c2 = chain[2], c3 = chain[3];
    for (size_t i = 0; i < safe; ++i) {
      step<with_rows>(c0);
      step<with_rows>(c1);
      step<with_rows>(c2);
      step<with_rows>(c3);
    }
    chain[0] = c0;
    chain[1] = c1;
    chain[2] = c2;
    chain[3] = c3;
  }
  for (Chain<W>& c : chain) finish<with_rows>(c);
}

void merge(const MergePart& part) {
  if (part.out_rows) {
    merge_chains<true>(part);
  } else {
    merge_chains<false>(part);
  }
}

void merge_widest(const MergePartOf<Wide>& part) { merge_chains<true>(part); }

constexpr KernelTable table = {
    MUNTIN_TEXT(MUNTIN_ISA),
    {sort_narrow, search<int32_t>, scan<int32_t>},
    {sort_wide, search<int64_t>, scan<int64_t>},
    {sort_widest, search<Wide>, nullptr},
    merge,
    merge_widest,
    keep_words,
    keep_rows,
    keep_past<Word>,
    keep_past<Wide>,
    scan,
    scan_together,
    emit<Word>,
    emit<Row>,
    count_bits,
    count_words,
    count_between,
    find_between,
};

}  // namespace MUNTIN_JOIN(isa_, MUNTIN_ISA)
}  // namespace muntin

const muntin::KernelTable& MUNTIN_JOIN(muntin_kernels_, MUNTIN_ISA)() {
  return muntin::MUNTIN_JOIN(isa_, MUNTIN_ISA)::table;
}
