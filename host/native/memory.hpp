// Memory for runs and results: large blocks in huge pages, kept for the next taker for a while.
#pragma once

#include <cstddef>
#include <utility>

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

// A block of memory, aligned to a cache line; contents undefined. It goes back to the pool when it is dropped.
class Block {
 public:
  Block() = default;
  explicit Block(size_t bytes, Use use = Use::kWindow);  // throws std::bad_alloc
  Block(Block&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)), use_(other.use_) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(use_, other.use_);
    return *this;
  }
  ~Block();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
  Use use_ = Use::kWindow;
};

}  // namespace muntin
