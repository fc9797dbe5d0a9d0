// NumPy's arrays in the pool's memory, for as long as a call lasts: NEP 49, NumPy's data memory handlers.
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <cstring>

#include "bindings/bindings.hpp"
#include "core/memory.hpp"

namespace nb = nanobind;

namespace muntin {
namespace {

// As NumPy's ndarraytypes.h has them; they are part of its stable binary interface.
struct Allocator {
  void* context;
  void* (*malloc)(void* context, size_t size);
  void* (*calloc)(void* context, size_t count, size_t size);
  void* (*realloc)(void* context, void* data, size_t size);
  void (*free)(void* context, void* data, size_t size);
};
struct Handler {
  char name[127];
  uint8_t version;
  Allocator allocator;
};
constexpr size_t kSetHandler = 304;  // its place in the table of functions, from NumPy 1.22 on

// Lies before each array. NumPy does not always know the size of what it frees.
struct Head {
  size_t bytes;
  size_t lead;  // from the start of the memory to the array
};
constexpr size_t kSmallLead = 16, kLead = 64;
static_assert(sizeof(Head) <= kSmallLead);

Head* head(void* data) { return static_cast<Head*>(data) - 1; }

void* place(char* memory, size_t bytes, size_t lead) {
  if (memory == nullptr) return nullptr;
  void* data = memory + lead;
  *head(data) = {bytes, lead};
  return data;
}

void* allocate(void*, size_t bytes) {
  if (bytes > SIZE_MAX - kLead) return nullptr;
  if (bytes < kPooled) return place(static_cast<char*>(std::malloc(bytes + kSmallLead)), bytes, kSmallLead);
  try {
    return place(static_cast<char*>(take_memory(bytes + kLead, Use::kResult)), bytes, kLead);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void*, void* data, size_t) {
  if (data == nullptr) return;
  const Head own = *head(data);
  char* memory = static_cast<char*>(data) - own.lead;
  own.lead == kLead ? give_memory(memory, own.bytes + kLead, Use::kResult) : std::free(memory);
}

void* allocate_zeros(void*, size_t count, size_t size) {
  if (size != 0 && count > SIZE_MAX / size) return nullptr;
  void* data = allocate(nullptr, count * size);
  if (data != nullptr) std::memset(data, 0, count * size);
  return data;
}

void* reallocate(void*, void* data, size_t bytes) {
  void* moved = allocate(nullptr, bytes);
  if (moved == nullptr || data == nullptr) return moved;
  std::memcpy(moved, data, std::min(bytes, head(data)->bytes));
  release(nullptr, data, 0);
  return moved;
}

Handler handler{"muntin", 1, {nullptr, allocate, allocate_zeros, reallocate, release}};

using Set = PyObject* (*)(PyObject*);

Set find_set() {
  nb::object numpy = nb::module_::import_("numpy");
  const bool first = !nb::hasattr(numpy, "_core");
  nb::object api = nb::module_::import_(first ? "numpy.core._multiarray_umath" : "numpy._core._multiarray_umath").attr("_ARRAY_API");
  auto** const table = static_cast<void**>(PyCapsule_GetPointer(api.ptr(), nullptr));
  if (table == nullptr) throw nb::python_error();
  return reinterpret_cast<Set>(table[kSetHandler]);
}

nb::object swap_handler(nb::object to) {
  static Set set = nullptr;  // looked up in the first call: this module is loaded where NumPy is not, as it is built
  static PyObject* own = nullptr;  // lives as long as the arrays
  if (set == nullptr) {
    const Set found = find_set();
    if (own == nullptr) own = PyCapsule_New(&handler, "mem_handler", nullptr);
    if (own == nullptr) throw nb::python_error();
    set = found;
  }
  PyObject* before = set(to.is_none() ? own : to.ptr());
  if (before == nullptr) throw nb::python_error();
  return nb::steal(before);
}

}  // namespace

void bind_numpy_memory(nb::module_& m) {
  using namespace nb::literals;
  m.def("numpy_memory", swap_handler, "handler"_a.none() = nb::none(),
        "Lets new arrays of NumPy in this context lie in the pool, or as the handler says that an earlier call has given; "
        "gives the one before.");
}

}  // namespace muntin
