// The newest of the x86-64 psABI's levels (2, 3, 4; 1 for older processors) that this processor and its operating system
// have. __builtin_cpu_supports would say the same, but not where Zig compiles: its runtime library answers no to all.
#pragma once

#include <cpuid.h>

#include <cstdint>

namespace muntin {

inline int x86_64_level() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  const auto has = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return 1;
  const unsigned basic = c;
  if (!has(basic, bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT | bit_CMPXCHG16B)) return 1;
  if (!has(basic, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C | bit_MOVBE)) return 2;
  // Which registers the operating system saves: 2 SSE, 4 AVX, 0xe0 those of AVX-512.
  uint32_t saved = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  if (!has(saved, 6)) return 2;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) == 0 || !has(c, bit_LZCNT)) return 2;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || !has(b, bit_AVX2 | bit_BMI | bit_BMI2)) return 2;
  if (!has(saved, 0xe6)) return 3;
  return has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL) ? 4 : 3;
}

}  // namespace muntin
