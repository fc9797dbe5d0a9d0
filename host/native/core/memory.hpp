// Memory for runs and results: large blocks in huge pages, kept for the next taker for a while.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

namespace muntin {

// Bytes in use by blocks, and bytes of free blocks that are kept.
struct MemoryUse {
  size_t used;
  size_t kept;
};
MemoryUse memory_use();

// Gives back pages of blocks that have been free for so long. Blocks that are dropped do so too, for a minute, once in one.
void give_back_idle(double seconds);

// What a block is for. Results are large and come and go: blocks for windows are not cut from theirs.
enum class Use { kWindow, kResult };

// Memory from the pool, aligned to a cache line, and back to it, with the size that was asked for. Throws std::bad_alloc.
void* take_memory(size_t bytes, Use use);
void give_memory(void* data, size_t bytes, Use use);

// Less is left to the C library, which keeps so little without asking the system.
inline constexpr size_t kPooled = size_t{32} << 10;

// A block of memory, aligned to a cache line; contents undefined. It goes back to the pool when it is dropped.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes, Use use = Use::kWindow) : data_(take_memory(bytes, use)), bytes_(bytes), use_(use) {}
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), use_(other.use_) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    return *this;
  }
  ~Block() {
    if (data_ != nullptr) give_memory(data_, bytes_, use_);
  }

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Use use_ = Use::kWindow;
};

// Arrays that come and go with calls: their pages stay in the pool from one call to the next.
template <class T>
struct CallAllocator {
  using value_type = T;
  CallAllocator() = default;
  template <class U>
  CallAllocator(const CallAllocator<U>&) {}
  T* allocate(size_t count) {
    const size_t bytes = count * sizeof(T);
    return static_cast<T*>(bytes < kPooled ? ::operator new(bytes) : take_memory(bytes, Use::kResult));
  }
  void deallocate(T* data, size_t count) {
    const size_t bytes = count * sizeof(T);
    bytes < kPooled ? ::operator delete(data) : give_memory(data, bytes, Use::kResult);
  }
  template <class U>
  bool operator==(const CallAllocator<U>&) const {
    return true;
  }
};
template <class T>
using CallVector = std::vector<T, CallAllocator<T>>;

}  // namespace muntin
