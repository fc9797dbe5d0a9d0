// Ordered maps that others wrote, as peers of the native indexes: std::map, and absl::btree_map where it is compiled in.
// Keys and values of 32 bits, one value for each key; compiled and called by bench/papers/ptwi.py.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#ifdef WITH_ABSL
#include <absl/container/btree_map.h>
#endif

namespace {

size_t allocated = 0;

template <class T>
struct Counting {
  using value_type = T;
  Counting() = default;
  template <class U>
  Counting(const Counting<U>&) {}
  T* allocate(size_t count) {
    allocated += count * sizeof(T);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* at, size_t count) {
    allocated -= count * sizeof(T);
    std::allocator<T>().deallocate(at, count);
  }
  friend bool operator==(const Counting&, const Counting&) { return true; }
  friend bool operator!=(const Counting&, const Counting&) { return false; }
};

using Entry = std::pair<const uint32_t, uint32_t>;

struct Map {
  virtual ~Map() = default;
  virtual void insert(const uint32_t* keys, size_t count, uint32_t first) = 0;
  virtual uint64_t find(const uint32_t* keys, size_t count) const = 0;
  virtual uint64_t sum(uint32_t low, uint32_t high, uint64_t* count) const = 0;
  virtual void erase(const uint32_t* keys, size_t count) = 0;
};

template <class M>
struct Held final : Map {
  M map;
  void insert(const uint32_t* keys, size_t count, uint32_t first) override {
    for (size_t i = 0; i < count; ++i) map.emplace(keys[i], first + static_cast<uint32_t>(i));
  }
  uint64_t find(const uint32_t* keys, size_t count) const override {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto at = map.find(keys[i]);
      if (at != map.end()) sum += at->second;
    }
    return sum;
  }
  uint64_t sum(uint32_t low, uint32_t high, uint64_t* count) const override {
    uint64_t sum = 0;
    *count = 0;
    for (auto at = map.lower_bound(low); at != map.end() && at->first <= high; ++at, ++*count) sum += at->second;
    return sum;
  }
  void erase(const uint32_t* keys, size_t count) override {
    for (size_t i = 0; i < count; ++i) map.erase(keys[i]);
  }
};

}  // namespace

extern "C" {
void* om_new(int kind) {
  switch (kind) {
    case 0: return static_cast<Map*>(new Held<std::map<uint32_t, uint32_t, std::less<uint32_t>, Counting<Entry>>>());
#ifdef WITH_ABSL
    case 1: return static_cast<Map*>(new Held<absl::btree_map<uint32_t, uint32_t, std::less<uint32_t>, Counting<Entry>>>());
#endif
    default: return nullptr;
  }
}
void om_free(void* map) { delete static_cast<Map*>(map); }
void om_insert(void* map, const uint32_t* keys, size_t count, uint32_t first) { static_cast<Map*>(map)->insert(keys, count, first); }
uint64_t om_find(void* map, const uint32_t* keys, size_t count) { return static_cast<Map*>(map)->find(keys, count); }
uint64_t om_sum(void* map, uint32_t low, uint32_t high, uint64_t* count) { return static_cast<Map*>(map)->sum(low, high, count); }
void om_erase(void* map, const uint32_t* keys, size_t count) { static_cast<Map*>(map)->erase(keys, count); }
size_t om_bytes() { return allocated; }
}
