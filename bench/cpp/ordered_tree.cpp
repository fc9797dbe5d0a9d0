// The tree that PanJoin compares its WiB+-Tree with (section V-A.2): Google's B-Tree, today absl::btree_multimap, and the
// standard library's red-black tree beside it. Rows are a 32-bit key and a 32-bit number.
#include <cstdint>
#include <map>

#if __has_include(<absl/container/btree_map.h>)
#include <absl/container/btree_map.h>
#endif

namespace {

struct Tree {
  virtual ~Tree() = default;
  virtual void insert(const int32_t* keys, uint32_t first, int64_t count) = 0;
  virtual int64_t probe(const int32_t* keys, int64_t count, int32_t reach, uint32_t* found) const = 0;
};

template <class Map>
struct Of final : Tree {
  Map map;
  void insert(const int32_t* keys, uint32_t first, int64_t count) override {
    for (int64_t i = 0; i < count; ++i) map.insert({keys[i], first + static_cast<uint32_t>(i)});
  }
  // Copies the numbers of all rows within `reach` of each key; returns how many.
  int64_t probe(const int32_t* keys, int64_t count, int32_t reach, uint32_t* found) const override {
    int64_t total = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t low = static_cast<int64_t>(keys[i]) - reach, high = static_cast<int64_t>(keys[i]) + reach;
      auto at = map.lower_bound(static_cast<int32_t>(low < INT32_MIN ? INT32_MIN : low));
      for (uint32_t* out = found; at != map.end() && at->first <= high; ++at, ++total) *out++ = at->second;
    }
    return total;
  }
};

}  // namespace

extern "C" {
// Null where this was compiled without Abseil.
void* tree_new(int absl) {
  if (!absl) return static_cast<Tree*>(new Of<std::multimap<int32_t, uint32_t>>);
#if __has_include(<absl/container/btree_map.h>)
  return static_cast<Tree*>(new Of<absl::btree_multimap<int32_t, uint32_t>>);
#else
  return nullptr;
#endif
}
void tree_free(void* tree) { delete static_cast<Tree*>(tree); }
void tree_insert(void* tree, const int32_t* keys, uint32_t first, int64_t count) {
  static_cast<Tree*>(tree)->insert(keys, first, count);
}
int64_t tree_probe(void* tree, const int32_t* keys, int64_t count, int32_t reach, uint32_t* found) {
  return static_cast<Tree*>(tree)->probe(keys, count, reach, found);
}
}
