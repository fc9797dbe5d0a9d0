#include "core/memory.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <vector>

namespace muntin {
namespace {

constexpr size_t kHuge = size_t{2} << 20;
constexpr size_t kLine = 64;
constexpr size_t kPage = 4096;
constexpr size_t kLeast = size_t{64} << 10;  // of a block whose pages are worth a call to give them back
constexpr size_t kRegion = size_t{32} << 20;  // the system is asked for so much at once, if it is an eighth of what is used
constexpr std::chrono::seconds kPatience{60};

using Clock = std::chrono::steady_clock;

size_t round_up(size_t size, size_t step) { return (size + step - 1) / step * step; }

// Bytes of the block for so many that are asked for.
size_t rounded(size_t bytes) { return bytes < kPage ? round_up(std::max<size_t>(bytes, 1), kLine) : round_up(bytes, kPage); }

// Regions that the system gave, in huge pages, cut into blocks. Pages of free blocks are kept for a while: to touch new
// ones costs more than to merge what lies in them.
class BlockPool {
 public:
  static BlockPool& of(Use use) {
    static BlockPool* pools = [] {
      auto* made = new BlockPool[2];  // live as long as the process: blocks may outlive static destructors
      pthread_atfork([] { of(Use::kWindow).mutex_.lock(), of(Use::kResult).mutex_.lock(); }, unlock, unlock);
      return made;
    }();
    return pools[static_cast<int>(use)];
  }

  void* take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = find(bytes);
    if (best == sizes_.end()) {
      add_region(bytes);
      best = find(bytes);
    }
    char* data = best->second;
    const Free whole = remove(data);
    if (whole.size > bytes) insert(data + bytes, {whole.size - bytes, whole.since, whole.clean});
    used_ += bytes;
    return data;
  }

  // True about once a minute: what has been free for long goes back then.
  bool give(void* block, size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
    auto* data = static_cast<char*>(block);
    Free free{bytes, Clock::now(), false};
    const auto next = free_.lower_bound(data);
    if (next != free_.end() && next->first == data + bytes && !regions_.contains(next->first)) {
      free.size += remove(next->first).size;
    }
    if (!regions_.contains(data)) {
      const auto before = free_.lower_bound(data);
      if (before != free_.begin()) {
        char* start = std::prev(before)->first;
        if (start + std::prev(before)->second.size == data) {
          free.size += remove(start).size;
          data = start;
        }
      }
    }
    insert(data, free);
    // Between two results of a join that goes on, the pages stay: new ones would cost more than the result.
    if (used_ == 0 && (this == &of(Use::kWindow) || of(Use::kWindow).used_ == 0)) {
      release(Clock::time_point::max());
      return false;
    }
    const bool due = free.since >= next_;
    if (due) next_ = free.since + kPatience;
    if (due || kept_ > limit_) release(free.since - kPatience);
    return due;
  }

  // Gives back the pages of blocks that are free since before `until`.
  void give_back(Clock::time_point until) {
    const std::lock_guard lock(mutex_);
    release(until);
  }

  bool unused() const { return used_ == 0; }

  MemoryUse use() {
    const std::lock_guard lock(mutex_);
    return {used_.load(), kept_};
  }

 private:
  using Sizes = std::set<std::pair<size_t, char*>>;

  // The smallest free block of at least so many bytes. Of a large result's region no small block is cut: the next large
  // result, where that one is in use, would have to have a region of its own, of new pages.
  Sizes::iterator find(size_t bytes) {
    auto at = sizes_.lower_bound({bytes, nullptr});
    if (this == &of(Use::kWindow)) return at;
    while (at != sizes_.end()) {
      const size_t region = std::prev(regions_.upper_bound(at->second))->second;
      if (region <= kRegion || bytes >= region / 16) break;
      ++at;
    }
    return at;
  }

  static void unlock() { of(Use::kResult).mutex_.unlock(), of(Use::kWindow).mutex_.unlock(); }

  struct Free {
    size_t size;
    Clock::time_point since;
    bool clean;  // its pages are not there
  };

  void insert(char* data, const Free& free) {
    free_.emplace(data, free);
    sizes_.emplace(free.size, data);
    if (!free.clean) kept_ += free.size;
  }

  Free remove(char* data) {
    const auto at = free_.find(data);
    const Free free = at->second;
    sizes_.erase({free.size, data});
    free_.erase(at);
    if (!free.clean) kept_ -= free.size;
    return free;
  }

  void add_region(size_t least) {
    // More than is asked for: the next result may be a little larger. What is not touched costs nothing.
    const size_t wanted = std::max(least + least / 8, std::min(kRegion, used_.load() / 8));
    const size_t bytes = round_up(wanted, wanted < kHuge ? kPage * 16 : kHuge);
    void* all = MAP_FAILED;
    // Aligned to a huge page: what lies around it goes back.
    const size_t slack = bytes < kHuge ? 0 : kHuge;
    all = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    auto* start = static_cast<char*>(all);
    char* data = start;
    if (slack) {
      data += (kHuge - reinterpret_cast<uintptr_t>(start) % kHuge) % kHuge;
      if (data != start) munmap(start, data - start);
      if (data + bytes != start + bytes + slack) munmap(data + bytes, start + slack - data);
#ifdef MADV_HUGEPAGE
      madvise(data, bytes, MADV_HUGEPAGE);  // a kernel without huge pages: slower, nothing else
#endif
    }
    regions_.emplace(data, bytes);
    insert(data, {bytes, Clock::now(), true});
  }

  // Gives pages of free blocks back to the system: of those that lie since before `until`, and of others above the limit.
  // Those that have been free for longest go first: the last one is what the next call asks for.
  void release(Clock::time_point until) {
    std::vector<std::pair<Clock::time_point, char*>> all;
    for (const auto& [data, free] : free_) all.emplace_back(free.since, data);
    std::sort(all.begin(), all.end());
    for (const auto& [since, data] : all) {
      if (since >= until && kept_ <= limit_) break;
      Free free = free_.at(data);
      const auto region = regions_.find(data);
      const bool whole = region != regions_.end() && region->second == free.size;
      if (whole) {
        remove(data);
        regions_.erase(region);
        munmap(data, free.size);
      } else if (!free.clean && free.size >= kLeast) {
        remove(data);
        const uintptr_t from = round_up(reinterpret_cast<uintptr_t>(data), kPage);
        const uintptr_t to = (reinterpret_cast<uintptr_t>(data) + free.size) / kPage * kPage;
        madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
        free.clean = true;
        insert(data, free);
      }
    }
  }

  std::mutex mutex_;
  std::map<char*, size_t> regions_;
  std::map<char*, Free> free_;
  Sizes sizes_;
  std::atomic<size_t> used_ = 0;
  size_t kept_ = 0;
  const size_t limit_ = sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 8;
  Clock::time_point next_ = Clock::now() + kPatience;
};

}  // namespace

MemoryUse memory_use() {
  const MemoryUse windows = BlockPool::of(Use::kWindow).use(), results = BlockPool::of(Use::kResult).use();
  return {windows.used + results.used, windows.kept + results.kept};
}

void give_back_idle(double seconds) {
  const auto until = Clock::now() - std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  BlockPool::of(Use::kWindow).give_back(until);
  BlockPool::of(Use::kResult).give_back(until);
}

void* take_memory(size_t bytes, Use use) {
  if (bytes > std::numeric_limits<size_t>::max() / 2) throw std::bad_alloc();
  return BlockPool::of(use).take(rounded(bytes));
}

void give_memory(void* data, size_t bytes, Use use) {
  BlockPool& pool = BlockPool::of(use);
  const bool due = pool.give(data, rounded(bytes));
  if (use == Use::kWindow && pool.unused()) {
    BlockPool::of(Use::kResult).give_back(Clock::time_point::max());
  } else if (due) {
    BlockPool::of(use == Use::kWindow ? Use::kResult : Use::kWindow).give_back(Clock::now() - kPatience);
  }
}

}  // namespace muntin
