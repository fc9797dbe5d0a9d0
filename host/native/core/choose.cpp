#include <cstring>

#include "core/kernels.hpp"

#if defined(__x86_64__)
#include "core/x86_64_level.hpp"

const muntin::KernelTable& muntin_kernels_v2();
const muntin::KernelTable& muntin_kernels_v3();
const muntin::KernelTable& muntin_kernels_v4();
#else
const muntin::KernelTable& muntin_kernels_plain();
#endif

namespace muntin {

const KernelTable* choose_kernels(const char* wanted) {
  const auto fits = [wanted](const char* name) { return wanted == nullptr || std::strcmp(wanted, name) == 0; };
#if defined(__x86_64__)
  const int level = x86_64_level();
  if (level >= 4 && fits("v4")) return &muntin_kernels_v4();
  if (level >= 3 && fits("v3")) return &muntin_kernels_v3();
  if (level >= 2 && fits("v2")) return &muntin_kernels_v2();
#else
  if (fits("plain")) return &muntin_kernels_plain();
#endif
  return nullptr;
}

}  // namespace muntin
