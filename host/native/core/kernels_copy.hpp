// The part of kernels.cpp that copies, filters and counts rows; compiled with it, once per instruction set.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "core/kernels.hpp"

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define MUNTIN_JOIN2(a, b) a##b
#define MUNTIN_JOIN(a, b) MUNTIN_JOIN2(a, b)
#define MUNTIN_TEXT2(a) #a
#define MUNTIN_TEXT(a) MUNTIN_TEXT2(a)

namespace muntin {
namespace MUNTIN_JOIN(isa_, MUNTIN_ISA) {

inline Row row_of(Word word) { return static_cast<Row>(word); }
inline Row row_of(Row row) { return row; }

template <class From>
inline void copy_pairs(const From* from, size_t count, int64_t number, int64_t base, int64_t* __restrict probing,
                       int64_t* __restrict stored) {
  for (size_t i = 0; i < count; ++i) probing[i] = number;
  const auto low = static_cast<Row>(base);
  for (size_t i = 0; i < count; ++i) stored[i] = base + static_cast<Row>(row_of(from[i]) - low);
}

template <class W>
size_t keep_past(W* words, Row* rows, size_t count, Row low, Row past, Row* first) {
  size_t end = 0;
  Row least = std::numeric_limits<Row>::max();
  for (size_t at = 0; at < count; ++at) {
    const Row number = rows ? rows[at] : static_cast<Row>(words[at]), above = number - low;
    const bool stays = above >= past;
    words[end] = words[at];
    if (rows) rows[end] = number;
    least = stays && above < least ? above : least;
    end += stays;
  }
  *first = least;
  return end;
}

#if defined(__AVX512F__) && defined(__AVX512VL__)
// Whole vectors are written: what lies behind `end` has been read.
template <>
size_t keep_past(Word* words, Row* rows, size_t count, Row low, Row past, Row* first) {
  const __m256i from = _mm256_set1_epi32(static_cast<int>(low)), bound = _mm256_set1_epi32(static_cast<int>(past));
  __m256i least = _mm256_set1_epi32(-1);
  size_t end = 0;
  for (size_t at = 0; at < count; at += 8) {
    const auto some = static_cast<__mmask8>(count - at < 8 ? (1u << (count - at)) - 1 : 0xFF);
    const __m512i held = _mm512_maskz_loadu_epi64(some, words + at);
    const __m256i numbers =
        rows ? _mm256_maskz_loadu_epi32(some, rows + at) : _mm512_maskz_cvtepi64_epi32(0xFF, held);
    const __m256i above = _mm256_sub_epi32(numbers, from);
    const __mmask8 stays = _mm256_mask_cmpge_epu32_mask(some, above, bound);
    _mm512_storeu_si512(words + end, _mm512_maskz_compress_epi64(stays, held));
    if (rows) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + end), _mm256_maskz_compress_epi32(stays, numbers));
    }
    least = _mm256_mask_min_epu32(least, stays, least, above);
    end += std::popcount(static_cast<unsigned>(stays));
  }
  Row lanes[8];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), least);
  *first = *std::min_element(lanes, lanes + 8);
  return end;
}

size_t keep_words(const Word* words, size_t count, Row first, Row span, Row* out) {
  const __m256i from = _mm256_set1_epi32(static_cast<int>(first)), most = _mm256_set1_epi32(static_cast<int>(span));
  Row* const begin = out;
  for (size_t i = 0; i < count; i += 8) {
    const auto some = static_cast<__mmask8>(count - i < 8 ? (1u << (count - i)) - 1 : 0xFF);
    const __m256i rows = _mm512_maskz_cvtepi64_epi32(0xFF, _mm512_maskz_loadu_epi64(some, words + i));
    const __mmask8 kept = _mm256_mask_cmplt_epu32_mask(some, _mm256_sub_epi32(rows, from), most);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_maskz_compress_epi32(kept, rows));
    out += std::popcount(static_cast<unsigned>(kept));
  }
  return out - begin;
}

size_t keep_rows(const Row* rows, size_t count, Row first, Row span, Row* out) {
  const __m512i from = _mm512_set1_epi32(static_cast<int>(first)), most = _mm512_set1_epi32(static_cast<int>(span));
  Row* const begin = out;
  for (size_t i = 0; i < count; i += 16) {
    const auto some = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFF);
    const __m512i held = _mm512_maskz_loadu_epi32(some, rows + i);
    const __mmask16 kept = _mm512_mask_cmplt_epu32_mask(some, _mm512_sub_epi32(held, from), most);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(kept, held));
    out += std::popcount(static_cast<unsigned>(kept));
  }
  return out - begin;
}

size_t scan(const Word* words, const Row* rows, size_t count, Word lower, Word upper, Row* out) {
  const __m512i least = _mm512_set1_epi64(lower), most = _mm512_set1_epi64(upper);
  Row* const begin = out;
  for (size_t i = 0; i < count; i += 8) {
    const auto some = static_cast<__mmask8>(count - i < 8 ? (1u << (count - i)) - 1 : 0xFF);
    const __m512i held = _mm512_maskz_loadu_epi64(some, words + i);
    const __mmask8 met = _mm512_mask_cmple_epi64_mask(_mm512_mask_cmple_epi64_mask(some, least, held), held, most);
    if (met == 0) continue;
    const __m256i numbers = rows ? _mm256_maskz_loadu_epi32(some, rows + i) : _mm512_maskz_cvtepi64_epi32(0xFF, held);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_maskz_compress_epi32(met, numbers));
    out += std::popcount(static_cast<unsigned>(met));
  }
  return out - begin;
}

void scan_together(const Word* words, const Row* rows, size_t count, const Word* lower, const Word* upper, Row* out,
                   size_t room, size_t* found) {
  __m512i least[kScanned], most[kScanned];
  Row* end[kScanned];
  for (size_t probe = 0; probe < kScanned; ++probe) {
    least[probe] = _mm512_set1_epi64(lower[probe]);
    most[probe] = _mm512_set1_epi64(upper[probe]);
    end[probe] = out + probe * room + found[probe];
  }
  for (size_t i = 0; i < count; i += 8) {
    const auto some = static_cast<__mmask8>(count - i < 8 ? (1u << (count - i)) - 1 : 0xFF);
    const __m512i held = _mm512_maskz_loadu_epi64(some, words + i);
    for (size_t probe = 0; probe < kScanned; ++probe) {
      const __mmask8 met =
          _mm512_mask_cmple_epi64_mask(_mm512_mask_cmple_epi64_mask(some, least[probe], held), held, most[probe]);
      if (met == 0) continue;
      const __m256i numbers = rows ? _mm256_maskz_loadu_epi32(some, rows + i) : _mm512_maskz_cvtepi64_epi32(0xFF, held);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(end[probe]), _mm256_maskz_compress_epi32(met, numbers));
      end[probe] += std::popcount(static_cast<unsigned>(met));
    }
  }
  for (size_t probe = 0; probe < kScanned; ++probe) found[probe] = end[probe] - (out + probe * room);
}
#else
size_t scan(const Word* words, const Row* rows, size_t count, Word lower, Word upper, Row* out) {
  Row* const begin = out;
  for (size_t i = 0; i < count; ++i) {
    *out = rows ? rows[i] : static_cast<Row>(words[i]);
    out += (lower <= words[i]) & (words[i] <= upper);
  }
  return out - begin;
}

void scan_together(const Word* words, const Row* rows, size_t count, const Word* lower, const Word* upper, Row* out,
                   size_t room, size_t* found) {
  for (size_t i = 0; i < count; ++i) {
    const Row row = rows ? rows[i] : static_cast<Row>(words[i]);
    for (size_t probe = 0; probe < kScanned; ++probe) {
      out[probe * room + found[probe]] = row;
      found[probe] += (lower[probe] <= words[i]) & (words[i] <= upper[probe]);
    }
  }
}

template <class From>
inline size_t keep(const From* from, size_t count, Row first, Row span, Row* out) {
  Row* const begin = out;
  for (size_t i = 0; i < count; ++i) {
    const Row row = row_of(from[i]);
    *out = row;
    out += row - first < span;
  }
  return out - begin;
}

size_t keep_words(const Word* words, size_t count, Row first, Row span, Row* out) {
  return keep(words, count, first, span, out);
}

size_t keep_rows(const Row* rows, size_t count, Row first, Row span, Row* out) {
  return keep(rows, count, first, span, out);
}
#endif

// A stretch of an output array that is gathered in the first-level cache and written by whole lines, past the caches.
class Streamed {
 public:
  explicit Streamed(int64_t* out) : out_(out) {
    // The first stretch ends at a line's border, so that all others start at one.
    room_ = (64 - (reinterpret_cast<uintptr_t>(out) & 63)) / 8 % 8 + kStretch;
  }
  int64_t* place() { return held_ + count_; }
  size_t room() const { return room_ - count_; }
  void add(size_t count) {
    count_ += count;
    if (count_ == room_) flush();
  }
  void flush() {
    size_t i = 0;
    for (; i < count_ && (reinterpret_cast<uintptr_t>(out_ + i) & 63) != 0; ++i) out_[i] = held_[i];
#if defined(__AVX512F__)
    for (; i + 8 <= count_; i += 8) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out_ + i), _mm512_loadu_si512(held_ + i));
    }
#elif defined(__AVX2__)
    for (; i + 8 <= count_; i += 8) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out_ + i),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(held_ + i)));
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out_ + i + 4),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(held_ + i + 4)));
    }
#endif
    for (; i < count_; ++i) out_[i] = held_[i];
    out_ += count_;
    count_ = 0;
    room_ = kStretch;
  }

 private:
  static constexpr size_t kStretch = 512;
  int64_t held_[kStretch + 8];
  int64_t* out_;
  size_t count_ = 0;
  size_t room_;
};

template <class From>
void emit(const From* from, const Found* found, size_t count, const PairsOut& out) {
  constexpr size_t ahead = 16;
  if (out.stream) {
    Streamed probing(out.probing), stored(out.stored);
    for (size_t i = 0; i < count; ++i) {
      if (i + ahead < count) __builtin_prefetch(from + found[i + ahead].start);
      const Found range = found[i];
      const int64_t number = out.numbers ? out.numbers[range.probe] : out.first + range.probe;
      const From* at = from + range.start;
      for (size_t left = range.length; left > 0;) {
        const size_t some = std::min({left, probing.room(), stored.room()});
        copy_pairs(at, some, number, out.base, probing.place(), stored.place());
        probing.add(some);
        stored.add(some);
        at += some;
        left -= some;
      }
    }
    probing.flush();
    stored.flush();
#if defined(__AVX2__)
    _mm_sfence();
#endif
    return;
  }
  int64_t *probing = out.probing, *stored = out.stored;
  const auto low = static_cast<Row>(out.base);
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count) __builtin_prefetch(from + found[i + ahead].start);
    const Found range = found[i];
    const int64_t number = out.numbers ? out.numbers[range.probe] : out.first + range.probe;
    const From* at = from + range.start;
    if (range.length <= 4) {
      for (size_t j = 0; j < range.length; ++j) {
        probing[j] = number;
        stored[j] = out.base + static_cast<Row>(row_of(at[j]) - low);
      }
    } else {
      copy_pairs(at, range.length, number, out.base, probing, stored);
    }
    probing += range.length;
    stored += range.length;
  }
}

// Blocks of keys with no hit, most of them, take one pass without a branch for each key.
template <class Key>
size_t scan(const Key* keys, size_t count, Key low, Key high, uint32_t* out) {
  using Bits = std::make_unsigned_t<Key>;
  constexpr size_t block = 64;
  const Bits from = static_cast<Bits>(low), span = static_cast<Bits>(high) - from;
  size_t found = 0, at = 0;
  for (; at + block <= count; at += block) {
    Bits any = 0;
    for (size_t i = 0; i < block; ++i) any |= static_cast<Bits>(static_cast<Bits>(keys[at + i]) - from <= span);
    if (any == 0) continue;
    for (size_t i = 0; i < block; ++i) {
      out[found] = static_cast<uint32_t>(at + i);
      found += static_cast<Bits>(keys[at + i]) - from <= span;
    }
  }
  for (; at < count; ++at) {
    out[found] = static_cast<uint32_t>(at);
    found += static_cast<Bits>(keys[at]) - from <= span;
  }
  return found;
}

size_t count_bits(const uint64_t* bits, size_t from, size_t to) {
  if (from >= to) return 0;
  const size_t first = from / 64, last = (to - 1) / 64;
  const uint64_t head = ~uint64_t{0} << (from % 64), tail = ~uint64_t{0} >> (63 - (to - 1) % 64);
  if (first == last) return std::popcount(bits[first] & head & tail);
  size_t count = std::popcount(bits[first] & head) + std::popcount(bits[last] & tail);
  for (size_t i = first + 1; i < last; ++i) count += std::popcount(bits[i]);
  return count;
}

template <class From>
inline size_t count_in(const From* from, size_t count, uint32_t first, uint32_t span) {
  size_t found = 0;
  while (count > 0) {
    const size_t some = count < (size_t{1} << 20) ? count : size_t{1} << 20;
    uint32_t part = 0;  // of the values' width, so that the loop is one of vectors
    for (size_t i = 0; i < some; ++i) part += row_of(from[i]) - first < span;
    found += part;
    from += some;
    count -= some;
  }
  return found;
}

size_t count_words(const Word* words, size_t count, Row first, Row span) { return count_in(words, count, first, span); }

size_t count_between(const uint32_t* values, size_t count, uint32_t first, uint32_t span) {
  return count_in(values, count, first, span);
}

#if defined(__AVX512F__) && defined(__AVX512VL__)
size_t find_between(const uint32_t* values, size_t count, uint32_t first, uint32_t span, uint32_t base, uint32_t* out) {
  const __m512i from = _mm512_set1_epi32(static_cast<int>(first)), most = _mm512_set1_epi32(static_cast<int>(span));
  __m512i places = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(base)),
                                    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  uint32_t* const begin = out;
  for (size_t i = 0; i < count; i += 16) {
    const auto some = static_cast<__mmask16>(count - i < 16 ? (1u << (count - i)) - 1 : 0xFFFF);
    const __m512i held = _mm512_maskz_loadu_epi32(some, values + i);
    const __mmask16 kept = _mm512_mask_cmplt_epu32_mask(some, _mm512_sub_epi32(held, from), most);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(kept, places));
    out += std::popcount(static_cast<unsigned>(kept));
    places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
  }
  return out - begin;
}
#else
size_t find_between(const uint32_t* values, size_t count, uint32_t first, uint32_t span, uint32_t base, uint32_t* out) {
  uint32_t* const begin = out;
  for (size_t i = 0; i < count; ++i) {
    *out = base + static_cast<uint32_t>(i);
    out += values[i] - first < span;
  }
  return out - begin;
}
#endif

}  // namespace MUNTIN_JOIN(isa_, MUNTIN_ISA)
}  // namespace muntin
