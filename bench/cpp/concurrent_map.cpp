// An index join of two streams over oneTBB's concurrent ordered map, which threads fill and search at once: a peer of the
// Bw-Tree that PIM-Tree's paper compares with. Compiled and called by bench/papers/pim_tree.py.
//
// The map cannot remove entries beside other threads, so rows are taken block by block: threads insert all rows of a
// block, threads probe with all of them, and one thread removes what has expired. A probe leaves out what its row may not
// see, so that the result is exact.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include <tbb/concurrent_map.h>

namespace {

using Key = uint64_t;  // a 32-bit key above the low bits of its row's number
using Map = tbb::concurrent_map<Key, uint32_t>;

Key key_of(int32_t key, uint32_t row) {
  return static_cast<Key>(static_cast<uint32_t>(key) ^ 0x80000000u) << 32 | row;
}

struct Side {
  Map map;
  std::vector<int32_t> keys;  // of all rows that came
  size_t oldest = 0;          // in the map
};

struct Join {
  Side sides[2];
  size_t window;
  int64_t low, high;  // of right less left
  int threads;
  int64_t arrived[2] = {0, 0};
};

// Runs `work(i)` for every i below `count`, some at a time.
template <class Work>
void run(int threads, size_t count, const Work& work) {
  constexpr size_t some = 256;
  std::atomic<size_t> next{0};
  const auto serve = [&] {
    for (size_t from; (from = next.fetch_add(some)) < count;) {
      for (size_t i = from; i < count && i < from + some; ++i) work(i);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(serve);
  serve();
  for (std::thread& other : others) other.join();
}

}  // namespace

extern "C" {
void* cm_new(int64_t window, int64_t low, int64_t high, int threads) {
  Join* join = new Join();
  join->window = static_cast<size_t>(window);
  join->low = low;
  join->high = high;
  join->threads = threads;
  return join;
}
void cm_free(void* join) { delete static_cast<Join*>(join); }

// Joins a block of rows of both sides; `other_position` holds how many rows of the other side came before each. Returns the
// pairs found.
uint64_t cm_step(void* handle, const int32_t* const* keys, const int64_t* const* other_position, const int64_t* counts) {
  Join& join = *static_cast<Join*>(handle);
  const size_t count[2] = {static_cast<size_t>(counts[0]), static_cast<size_t>(counts[1])};
  const size_t all = count[0] + count[1];
  size_t first[2];
  for (int side = 0; side < 2; ++side) {
    std::vector<int32_t>& own = join.sides[side].keys;
    first[side] = own.size();
    own.insert(own.end(), keys[side], keys[side] + count[side]);
  }
  run(join.threads, all, [&](size_t i) {
    const int side = i < count[0] ? 0 : 1;
    const size_t place = side == 0 ? i : i - count[0];
    const auto row = static_cast<uint32_t>(first[side] + place);
    join.sides[side].map.emplace(key_of(keys[side][place], row), row);
  });
  std::atomic<uint64_t> pairs{0};
  run(join.threads, all, [&](size_t i) {
    const int side = i < count[0] ? 0 : 1;
    const size_t place = side == 0 ? i : i - count[0];
    const int64_t key = keys[side][place];
    const int64_t low = key + (side == 0 ? join.low : -join.high), high = key + (side == 0 ? join.high : -join.low);
    if (high < INT32_MIN || low > INT32_MAX) return;
    const Map& map = join.sides[1 - side].map;
    const auto least = static_cast<int32_t>(low < INT32_MIN ? INT32_MIN : low);
    const auto most = static_cast<int32_t>(high > INT32_MAX ? INT32_MAX : high);
    const int64_t before = other_position[side][place], from = before - static_cast<int64_t>(join.window);
    uint64_t found = 0;
    const Key last = key_of(most, 0xFFFFFFFF);
    for (auto at = map.lower_bound(key_of(least, 0)); at != map.end() && at->first <= last; ++at) {
      const int64_t row = at->second;
      found += row >= from && row < before;
    }
    if (found > 0) pairs.fetch_add(found, std::memory_order_relaxed);
  });
  for (Side& side : join.sides) {
    for (; side.keys.size() - side.oldest > join.window; ++side.oldest) {
      side.map.unsafe_erase(key_of(side.keys[side.oldest], static_cast<uint32_t>(side.oldest)));
    }
  }
  return pairs;
}
}
