#include <cstring>

#include "kernels.hpp"

#if defined(__x86_64__)
#include "x86_64_level.hpp"

const mullion::KernelTable& mullion_kernels_v2();
const mullion::KernelTable& mullion_kernels_v3();
const mullion::KernelTable& mullion_kernels_v4();
#else
const mullion::KernelTable& mullion_kernels_plain();
#endif

namespace mullion {

const KernelTable* choose_kernels(const char* wanted) {
  const auto fits = [wanted](const char* name) { return wanted == nullptr || std::strcmp(wanted, name) == 0; };
#if defined(__x86_64__)
  const int level = x86_64_level();
  if (level >= 4 && fits("v4")) return &mullion_kernels_v4();
  if (level >= 3 && fits("v3")) return &mullion_kernels_v3();
  if (level >= 2 && fits("v2")) return &mullion_kernels_v2();
#else
  if (fits("plain")) return &mullion_kernels_plain();
#endif
  return nullptr;
}

}  // namespace mullion
