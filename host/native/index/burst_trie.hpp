// The burst trie over the bytes of integer keys: nodes of 256 pointers, and below them containers, sorted lists of what
// is left of the keys. A container that is full bursts: it becomes a node with a container for each next byte.
//
// Source: the partitioned temporal window index, sections 2 and 4.1, after Heinz, Zobel and Williams (its reference 10).
// A container where no byte is left holds the rows of one key and does not burst.
#pragma once

#include <cstdlib>
#include <new>
#include <type_traits>

#include "core/window_index.hpp"

namespace muntin {

template <class K>
class BurstTrie {
 public:
  using Key = K;

  explicit BurstTrie(size_t container_rows) : most_(static_cast<uint32_t>(std::min<size_t>(container_rows, 1 << 20))) {}
  BurstTrie(BurstTrie&& other) noexcept : most_(other.most_) { swap(other); }
  BurstTrie& operator=(BurstTrie&& other) noexcept {
    swap(other);
    return *this;
  }
  ~BurstTrie() { drop(root_); }

  // Adds an entry behind those of the same key.
  void insert(Key key, Row row) {
    const Bits bits = bits_of(key);
    void** slot = &root_;
    Node* parent = nullptr;
    for (int depth = 0;;) {
      if (*slot == nullptr) {
        *slot = tag(make_container(depth, 4));
        if (parent != nullptr) ++parent->used;
      }
      if (!is_container(*slot)) {
        parent = static_cast<Node*>(*slot);
        slot = &parent->child[byte(bits, depth++)];
        continue;
      }
      Container* container = untag(*slot);
      if (container->first + container->count == container->capacity) {
        if (depth < kBytes && container->count >= most_) {
          *slot = burst(container, depth);
          continue;
        }
        container = grow(container, depth);
        *slot = tag(container);
      }
      put(*container, depth, bits & rest(depth), row);
      ++size_;
      return;
    }
  }

  // Whether there was such an entry.
  bool erase(Key key, Row row) {
    const Bits bits = bits_of(key);
    void** path[kBytes + 1];
    void** slot = &root_;
    int depth = 0;
    while (*slot != nullptr && !is_container(*slot)) {
      path[depth] = slot;
      slot = &static_cast<Node*>(*slot)->child[byte(bits, depth++)];
    }
    if (*slot == nullptr) return false;
    Container& container = *untag(*slot);
    const Bits suffix = bits & rest(depth);
    uint32_t at = lower(container, depth, suffix);
    while (at < container.count && suffix_at(container, depth, at) == suffix && container.rows()[at] != row) ++at;
    if (at == container.count || suffix_at(container, depth, at) != suffix) return false;
    take(container, depth, at);
    --size_;
    if (container.count > 0) return true;
    free_container(&container, depth);
    *slot = nullptr;
    while (depth-- > 0) {
      auto* node = static_cast<Node*>(*path[depth]);
      if (--node->used > 0) break;
      free_node(node);
      *path[depth] = nullptr;
    }
    return true;
  }

  // Calls `f(key, row)` for the entries with `low <= key <= high` in order, until it returns false.
  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    if (low > high) return true;
    return visit(root_, 0, 0, bits_of(low), bits_of(high), true, true, f);
  }

  // Where an iterator is. It holds as long as the trie is not changed.
  class Cursor {
   public:
    Cursor(const BurstTrie& trie, Key low, Key high) : low_(bits_of(low)), high_(bits_of(high)) {
      if (low <= high) descend(trie.root_, 0, 0, true);
    }
    bool next(Key& key, Row& row) {
      while (true) {
        if (container_ != nullptr && at_ < container_->count) {
          const Bits bits = prefix_ | suffix_at(*container_, depth_, at_);
          if (bits > high_) return end();
          key = key_of(bits);
          row = container_->rows()[at_++];
          return true;
        }
        container_ = nullptr;
        if (levels_ == 0) return false;
        Level& level = path_[levels_ - 1];
        if (++level.byte > 255) {
          --levels_;
          continue;
        }
        const int depth = levels_ - 1;
        const Bits prefix = level.prefix | static_cast<Bits>(static_cast<Bits>(level.byte) << (8 * (kBytes - 1 - depth)));
        if (prefix > high_) return end();
        descend(level.node->child[level.byte], depth + 1, prefix, false);
      }
    }

   private:
    struct Level {
      const typename BurstTrie::Node* node;
      typename BurstTrie::Bits prefix;
      int byte;
    };
    bool end() {
      levels_ = 0;
      container_ = nullptr;
      return false;
    }
    void descend(const void* at, int depth, typename BurstTrie::Bits prefix, bool edge) {
      while (at != nullptr && !is_container(at)) {
        const auto* node = static_cast<const Node*>(at);
        const int byte = edge ? BurstTrie::byte(low_, depth) : 0;
        path_[levels_++] = {node, prefix, byte};
        prefix |= static_cast<Bits>(static_cast<Bits>(byte) << (8 * (kBytes - 1 - depth)));
        at = node->child[byte];
        ++depth;
      }
      container_ = at == nullptr ? nullptr : untag(at);
      depth_ = depth;
      prefix_ = prefix;
      at_ = edge && container_ != nullptr ? lower(*container_, depth, low_ & rest(depth)) : 0;
    }

    Level path_[sizeof(K)];
    int levels_ = 0;
    const typename BurstTrie::Container* container_ = nullptr;
    int depth_ = 0;
    typename BurstTrie::Bits prefix_ = 0, low_, high_;
    uint32_t at_ = 0;
  };

  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }
  Figures figures() const {
    return {{"trie_nodes", static_cast<int64_t>(nodes_)},
            {"trie_containers", static_cast<int64_t>(containers_)},
            {"bursts", static_cast<int64_t>(bursts_)},
            {"container_fill", containers_ == 0 ? 0.0 : static_cast<double>(size_) / static_cast<double>(containers_ * most_)},
            {"depth", static_cast<int64_t>(depth_of(root_))}};
  }

 private:
  using Bits = std::make_unsigned_t<K>;
  static constexpr int kBytes = sizeof(K);
  static constexpr Bits kSign = Bits{1} << (8 * kBytes - 1);

  struct Node {
    void* child[256];
    uint32_t used;
  };
  // Rows lie behind it, and behind them what is left of their keys, in as few bytes as a type has.
  struct Container {
    uint32_t count, capacity, first;  // entries before `first` are gone
    uint32_t unused;
    Row* rows() { return reinterpret_cast<Row*>(this + 1) + first; }
    const Row* rows() const { return reinterpret_cast<const Row*>(this + 1) + first; }
    char* suffixes() { return reinterpret_cast<char*>(reinterpret_cast<Row*>(this + 1) + capacity); }
    const char* suffixes() const { return const_cast<Container*>(this)->suffixes(); }
  };

  static Bits bits_of(Key key) { return static_cast<Bits>(key) ^ kSign; }
  static Key key_of(Bits bits) { return static_cast<Key>(bits ^ kSign); }
  static int byte(Bits bits, int depth) { return static_cast<int>(bits >> (8 * (kBytes - 1 - depth))) & 255; }
  static Bits rest(int depth) { return depth == 0 ? ~Bits{0} : depth == kBytes ? 0 : (Bits{1} << (8 * (kBytes - depth))) - 1; }
  static size_t width(int depth) {
    const int left = kBytes - depth;
    return left <= 2 ? left : left <= 4 ? 4 : 8;
  }
  static bool is_container(const void* at) { return reinterpret_cast<uintptr_t>(at) & 1; }
  static void* tag(Container* at) { return reinterpret_cast<char*>(at) + 1; }
  static Container* untag(void* at) { return reinterpret_cast<Container*>(static_cast<char*>(at) - 1); }
  static const Container* untag(const void* at) {
    return reinterpret_cast<const Container*>(static_cast<const char*>(at) - 1);
  }

  static Bits suffix_at(const Container& container, int depth, size_t at) {
    const size_t bytes = width(depth);
    uint64_t suffix = 0;  // little-endian: the lower bytes come first
    const char* from = container.suffixes() + (container.first + at) * bytes;
    switch (bytes) {
      case 1: suffix = static_cast<uint8_t>(*from); break;
      case 2: { uint16_t value; std::memcpy(&value, from, 2); suffix = value; break; }
      case 4: { uint32_t value; std::memcpy(&value, from, 4); suffix = value; break; }
      case 8: std::memcpy(&suffix, from, 8); break;
      default: break;
    }
    return static_cast<Bits>(suffix);
  }
  static void set_suffix(Container& container, int depth, size_t at, Bits suffix) {
    const size_t bytes = width(depth);
    char* to = container.suffixes() + (container.first + at) * bytes;
    switch (bytes) {
      case 1: *to = static_cast<char>(suffix); break;
      case 2: { const auto value = static_cast<uint16_t>(suffix); std::memcpy(to, &value, 2); break; }
      case 4: { const auto value = static_cast<uint32_t>(suffix); std::memcpy(to, &value, 4); break; }
      case 8: { const auto value = static_cast<uint64_t>(suffix); std::memcpy(to, &value, 8); break; }
      default: break;
    }
  }

  static uint32_t lower(const Container& container, int depth, Bits suffix) {
    uint32_t low = 0, high = container.count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (suffix_at(container, depth, middle) < suffix) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  static void put(Container& container, int depth, Bits suffix, Row row) {
    uint32_t low = 0, high = container.count;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (suffix_at(container, depth, middle) <= suffix) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    move(container, depth, low, low + 1, container.count - low);
    container.rows()[low] = row;
    set_suffix(container, depth, low, suffix);
    ++container.count;
  }

  static void take(Container& container, int depth, uint32_t at) {
    --container.count;
    if (at == 0) {
      ++container.first;  // the oldest of many rows of one key goes in constant time
    } else {
      move(container, depth, at + 1, at, container.count - at);
    }
  }

  static void move(Container& container, int depth, size_t from, size_t to, size_t count) {
    const size_t bytes = width(depth);
    std::memmove(container.rows() + to, container.rows() + from, count * sizeof(Row));
    char* suffixes = container.suffixes() + container.first * bytes;
    if (bytes > 0) std::memmove(suffixes + to * bytes, suffixes + from * bytes, count * bytes);
  }

  static size_t size_of(uint32_t capacity, int depth) {
    return sizeof(Container) + capacity * (sizeof(Row) + width(depth));
  }

  Container* make_container(int depth, uint32_t capacity) {
    auto* made = static_cast<Container*>(std::malloc(size_of(capacity, depth)));
    if (made == nullptr) throw std::bad_alloc();
    *made = {0, capacity, 0, 0};
    bytes_ += size_of(capacity, depth);
    ++containers_;
    return made;
  }
  void free_container(Container* container, int depth) {
    bytes_ -= size_of(container->capacity, depth);
    --containers_;
    std::free(container);
  }
  void free_node(Node* node) {
    bytes_ -= sizeof(Node);
    --nodes_;
    std::free(node);
  }

  // Entries of a container in another one, with room for as many again; those that are gone give room first.
  Container* grow(Container* old, int depth) {
    const uint32_t wanted = old->first > old->count ? old->capacity : 2 * old->capacity;
    const uint32_t capacity = depth < kBytes ? std::max(std::min(wanted, most_), old->count + 1) : wanted;
    Container* made = make_container(depth, capacity);
    copy(*old, depth, 0, *made, depth, old->count);
    free_container(old, depth);
    return made;
  }

  static void copy(const Container& from, int from_depth, uint32_t first, Container& to, int to_depth, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      to.rows()[i] = from.rows()[first + i];
      set_suffix(to, to_depth, i, suffix_at(from, from_depth, first + i) & rest(to_depth));
    }
    to.count = count;
  }

  Node* burst(Container* full, int depth) {
    auto* node = static_cast<Node*>(std::calloc(1, sizeof(Node)));
    if (node == nullptr) throw std::bad_alloc();
    bytes_ += sizeof(Node);
    ++nodes_;
    ++bursts_;
    for (uint32_t first = 0; first < full->count;) {
      const int own = byte(suffix_at(*full, depth, first), depth);
      uint32_t end = first + 1;
      while (end < full->count && byte(suffix_at(*full, depth, end), depth) == own) ++end;
      uint32_t capacity = 4;
      while (capacity < end - first) capacity *= 2;
      Container* part = make_container(depth + 1, capacity);
      copy(*full, depth, first, *part, depth + 1, end - first);
      node->child[own] = tag(part);
      ++node->used;
      first = end;
    }
    free_container(full, depth);
    return node;
  }

  template <class Visit>
  static bool visit(const void* at, int depth, Bits prefix, Bits low, Bits high, bool at_low, bool at_high, const Visit& f) {
    if (at == nullptr) return true;
    if (is_container(at)) {
      const Container& container = *untag(at);
      for (uint32_t i = at_low ? lower(container, depth, low & rest(depth)) : 0; i < container.count; ++i) {
        const Bits bits = prefix | suffix_at(container, depth, i);
        if (at_high && bits > high) return true;
        if (!f(key_of(bits), container.rows()[i])) return false;
      }
      return true;
    }
    const auto* node = static_cast<const Node*>(at);
    const int first = at_low ? byte(low, depth) : 0, last = at_high ? byte(high, depth) : 255;
    for (int next = first; next <= last; ++next) {
      const Bits longer = prefix | static_cast<Bits>(static_cast<Bits>(next) << (8 * (kBytes - 1 - depth)));
      if (!visit(node->child[next], depth + 1, longer, low, high, at_low && next == first, at_high && next == last, f)) {
        return false;
      }
    }
    return true;
  }

  static void drop(void* at) {
    if (at == nullptr) return;
    if (is_container(at)) {
      std::free(untag(at));
      return;
    }
    for (void* child : static_cast<Node*>(at)->child) drop(child);
    std::free(at);
  }

  static int depth_of(const void* at) {
    if (at == nullptr || is_container(at)) return at != nullptr;
    int depth = 0;
    for (const void* child : static_cast<const Node*>(at)->child) depth = std::max(depth, depth_of(child));
    return depth + 1;
  }

  void swap(BurstTrie& other) {
    std::swap(root_, other.root_);
    std::swap(most_, other.most_);
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    std::swap(nodes_, other.nodes_);
    std::swap(containers_, other.containers_);
    std::swap(bursts_, other.bursts_);
  }

  void* root_ = nullptr;
  uint32_t most_;  // entries of a container that can burst
  size_t size_ = 0, bytes_ = 0, nodes_ = 0, containers_ = 0, bursts_ = 0;
};

}  // namespace muntin
