// The adaptive radix tree over the bytes of integer keys: an inner node has room for 4, 16, 48 or 256 children, as many
// as it needs, and branches on the first byte in which the keys below it differ.
//
// Source: Leis, Kemper and Neumann, "The Adaptive Radix Tree", 2013; the mapper: the partitioned temporal window index,
// section 3.2. A node holds all bytes before its own, so that a key never has to be carried down. A row whose key has at
// most three bytes left lies in its parent's pointer, as Judy's immediates do; others, and the rows of a key that comes more
// than once, lie in a leaf with the whole key.
#pragma once

#include <bit>
#include <cstdlib>
#include <new>
#include <type_traits>

#include "core/window_index.hpp"

namespace muntin {

template <class K>
class RadixTree {
  using Bits = std::make_unsigned_t<K>;
  using Slot = uintptr_t;  // 0: empty. Else a node; with bit 0 a row and the last three bytes of its key; with bit 1 a leaf.
  struct Node;

 public:
  using Key = K;

  RadixTree() = default;
  RadixTree(RadixTree&& other) noexcept { swap(other); }
  RadixTree& operator=(RadixTree&& other) noexcept {
    swap(other);
    return *this;
  }
  ~RadixTree() { drop(root_); }

  // Adds an entry behind those of the same key.
  void insert(Key key, Row row) {
    const Bits bits = bits_of(key);
    Slot* slot = &root_;
    for (int depth = 0;;) {
      const Slot at = *slot;
      if (at == 0) {
        *slot = single(bits, row, depth);
        break;
      }
      if (!is_node(at)) {
        const Bits other = bits_in(at, bits);
        *slot = other == bits ? with_row(at, bits, row)
                              : fork(bits, row, other, first_difference(other ^ bits), at);
        break;
      }
      Node* node = node_of(at);
      const Bits apart = (node->path ^ bits) & mask(node->depth);
      if (apart != 0) {
        *slot = fork(bits, row, node->path, first_difference(apart), at);
        break;
      }
      Slot* child = find(node, byte(bits, node->depth));
      if (child == nullptr) {
        *slot = reinterpret_cast<Slot>(with_child(node, byte(bits, node->depth), single(bits, row, node->depth + 1)));
        break;
      }
      depth = node->depth + 1;
      slot = child;
    }
    ++size_;
  }

  // Whether there was such an entry.
  bool erase(Key key, Row row) {
    const Bits bits = bits_of(key);
    Slot *slot = &root_, *above = nullptr;
    int depth = 0, depth_above = 0;
    while (*slot != 0 && is_node(*slot)) {
      Node* node = node_of(*slot);
      Slot* child = ((node->path ^ bits) & mask(node->depth)) != 0 ? nullptr : find(node, byte(bits, node->depth));
      if (child == nullptr) return false;
      above = slot;
      depth_above = depth;
      slot = child;
      depth = node->depth + 1;
    }
    if (*slot == 0 || bits_in(*slot, bits) != bits) return false;
    if (is_row(*slot)) {
      if (row_in(*slot) != row) return false;
    } else {
      Leaf* leaf = leaf_of(*slot);
      Row *const first = leaf->rows(), *const end = first + leaf->count, *const found = std::find(first, end, row);
      if (found == end) return false;
      if (found == first) {
        ++leaf->first;  // the oldest of many rows of one key goes in constant time
      } else {
        std::move(found + 1, end, found);
      }
      if (--leaf->count > 0) {
        *slot = placed(*slot, depth);
        --size_;
        return true;
      }
      free_leaf(leaf);
    }
    --size_;
    if (above == nullptr) {
      *slot = 0;
    } else {
      *above = without_child(node_of(*above), byte(bits, node_of(*above)->depth), depth_above);
    }
    return true;
  }

  // Calls `f(key, row)` for the entries with `low <= key <= high` in order, until it returns false: the mapper, in one
  // traversal of the nodes that cover the range.
  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    return low > high || visit(root_, 0, bits_of(low), bits_of(high), f);
  }

  // Where an iterator is, a scan with a place in each node on its way. It holds as long as the tree is not changed.
  class Cursor {
   public:
    Cursor(const RadixTree& tree, Key low, Key high) : high_(bits_of(high)) {
      if (low <= high) seek(tree.root_, 0, bits_of(low));
    }
    bool next(Key& key, Row& row) {
      while (at_ == 0 || place_ == rows_in(at_)) {
        if (levels_ == 0) return false;
        Level& level = path_[levels_ - 1];
        const Slot child = from(level.node, level.place);
        if (child == 0) {
          --levels_;
          continue;
        }
        descend(child, level.node->path | shifted(level.place, level.node->depth));
      }
      if (bits_ > high_) {
        at_ = 0;
        levels_ = 0;
        return false;
      }
      key = key_of(bits_);
      row = row_in(at_, place_++);
      return true;
    }

   private:
    struct Level {
      const Node* node;
      int place;  // the byte of the child that it is in
    };
    // To the least entry below, whose key has `prefix`.
    void descend(Slot at, Bits prefix) {
      while (is_node(at)) {
        const Node* node = node_of(at);
        int place = -1;
        at = from(node, place);
        path_[levels_++] = {node, place};
        prefix = node->path | shifted(place, node->depth);
      }
      at_ = at;
      place_ = 0;
      bits_ = bits_in(at, prefix);
    }
    // To the least entry of at least `low`.
    void seek(Slot at, Bits prefix, Bits low) {
      while (at != 0 && is_node(at)) {
        const Node* node = node_of(at);
        if (node->path >= low) return descend(at, prefix);
        if ((node->path | ~mask(node->depth)) < low) return;  // the next of a node above
        const int own = byte(low, node->depth);
        path_[levels_++] = {node, own};
        const Slot* child = find(const_cast<Node*>(node), own);
        if (child == nullptr) return;
        prefix = node->path | shifted(own, node->depth);
        at = *child;
      }
      if (at == 0 || bits_in(at, prefix) < low) return;
      at_ = at;
      bits_ = bits_in(at, prefix);
    }

    Level path_[sizeof(K)];
    int levels_ = 0;
    Slot at_ = 0;
    size_t place_ = 0;  // of its rows
    Bits bits_ = 0, high_;
  };

  // An iterator without a place in the nodes: it starts at the root for each key, as Judy's does.
  class RootCursor {
   public:
    RootCursor(const RadixTree& tree, Key low, Key high) : tree_(tree), high_(bits_of(high)) {
      if (low <= high) at_ = tree.least(tree.root_, 0, bits_of(low), bits_);
    }
    bool next(Key& key, Row& row) {
      if (at_ == 0 || bits_ > high_) return false;
      key = key_of(bits_);
      row = row_in(at_, place_++);
      if (place_ == rows_in(at_)) {
        place_ = 0;
        at_ = bits_ == static_cast<Bits>(~Bits{0}) ? 0 : tree_.least(tree_.root_, 0, static_cast<Bits>(bits_ + 1), bits_);
      }
      return true;
    }

   private:
    const RadixTree& tree_;
    Slot at_ = 0;
    size_t place_ = 0;
    Bits bits_ = 0, high_;
  };

  size_t size() const { return size_; }
  size_t bytes() const { return bytes_; }
  Figures figures() const {
    return {{"nodes_4", static_cast<int64_t>(nodes_[0])},
            {"nodes_16", static_cast<int64_t>(nodes_[1])},
            {"nodes_48", static_cast<int64_t>(nodes_[2])},
            {"nodes_256", static_cast<int64_t>(nodes_[3])},
            {"leaves", static_cast<int64_t>(leaves_)},
            {"depth", static_cast<int64_t>(depth_of(root_))}};
  }

 private:
  static_assert(sizeof(Slot) == 8 && sizeof(Row) == 4);
  static constexpr int kBytes = sizeof(K);
  static constexpr int kPlaced = kBytes - 3;  // from this depth on rows lie in slots
  static constexpr Bits kSign = Bits{1} << (8 * kBytes - 1);
  static constexpr Bits kLast = 0xFFFFFF;

  enum Kind : uint8_t { k4, k16, k48, k256 };
  struct Node {
    Bits path;       // of the keys below, the bytes before its own
    uint16_t count;  // of children
    uint8_t depth;   // of the byte that it branches on
    Kind kind;
  };
  template <int kMax, Kind kKind>
  struct Sorted : Node {  // unused keys are 255
    static constexpr int kRoom = kMax;
    static constexpr Kind kOwn = kKind;
    uint8_t keys[kMax];
    Slot child[kMax];
  };
  using Node4 = Sorted<4, k4>;
  using Node16 = Sorted<16, k16>;
  struct Node48 : Node {
    static constexpr int kRoom = 48;
    static constexpr Kind kOwn = k48;
    uint64_t some[4];   // bytes that have a child
    uint8_t place[256];  // of a byte's child
    Slot child[48];
  };
  struct Node256 : Node {
    static constexpr int kRoom = 256;
    static constexpr Kind kOwn = k256;
    Slot child[256];
  };
  // A node of a smaller kind does with so many children; below its room, so that one row does not change it back and forth.
  static constexpr int kShrinks[4] = {0, 3, 12, 40};

  struct Leaf {
    Bits bits;
    uint32_t count, capacity, first;  // rows before `first` are gone
    Row* rows() { return reinterpret_cast<Row*>(this + 1) + first; }
    const Row* rows() const { return reinterpret_cast<const Row*>(this + 1) + first; }
  };

  static Bits bits_of(Key key) { return static_cast<Bits>(static_cast<Bits>(key) ^ kSign); }
  static Key key_of(Bits bits) { return static_cast<Key>(bits ^ kSign); }
  static int byte(Bits bits, int depth) { return static_cast<int>(bits >> (8 * (kBytes - 1 - depth))) & 255; }
  static Bits shifted(int byte, int depth) { return static_cast<Bits>(byte) << (8 * (kBytes - 1 - depth)); }
  // The first bytes of a key.
  static Bits mask(int bytes) { return bytes == 0 ? 0 : ~Bits{0} << (8 * (kBytes - bytes)); }
  static int first_difference(Bits apart) { return std::countl_zero(apart) / 8; }

  static bool is_node(Slot at) { return (at & 3) == 0; }
  static bool is_row(Slot at) { return at & 1; }
  static Node* node_of(Slot at) { return reinterpret_cast<Node*>(at); }
  static Leaf* leaf_of(Slot at) { return reinterpret_cast<Leaf*>(at - 2); }
  static Slot row_slot(Bits bits, Row row) {
    return static_cast<Slot>(row) << 32 | static_cast<Slot>(bits & kLast) << 8 | 1;
  }
  // Of a slot that is no node: the key, whose bytes above the last three are those of `prefix` where it lies in the slot;
  // and its rows.
  static Bits bits_in(Slot at, Bits prefix) {
    return is_row(at) ? (prefix & ~kLast) | (static_cast<Bits>(at >> 8) & kLast) : leaf_of(at)->bits;
  }
  static size_t rows_in(Slot at) { return is_row(at) ? 1 : leaf_of(at)->count; }
  static Row row_in(Slot at, size_t place = 0) { return is_row(at) ? static_cast<Row>(at >> 32) : leaf_of(at)->rows()[place]; }

  template <class Made>
  Made* make(const Node& as) {
    auto* made = static_cast<Made*>(std::calloc(1, sizeof(Made)));
    if (made == nullptr) throw std::bad_alloc();
    static_cast<Node&>(*made) = as;
    made->count = 0;
    made->kind = Made::kOwn;
    if constexpr (Made::kRoom <= 16) std::fill(made->keys, made->keys + Made::kRoom, uint8_t{255});
    bytes_ += sizeof(Made);
    ++nodes_[Made::kOwn];
    return made;
  }
  void free_node(Node* node) {
    constexpr size_t sizes[4] = {sizeof(Node4), sizeof(Node16), sizeof(Node48), sizeof(Node256)};
    bytes_ -= sizes[node->kind];
    --nodes_[node->kind];
    std::free(node);
  }
  Leaf* make_leaf(Bits bits, uint32_t capacity) {
    auto* leaf = static_cast<Leaf*>(std::malloc(sizeof(Leaf) + capacity * sizeof(Row)));
    if (leaf == nullptr) throw std::bad_alloc();
    *leaf = {bits, 0, capacity, 0};
    bytes_ += sizeof(Leaf) + capacity * sizeof(Row);
    ++leaves_;
    return leaf;
  }
  void free_leaf(Leaf* leaf) {
    bytes_ -= sizeof(Leaf) + leaf->capacity * sizeof(Row);
    --leaves_;
    std::free(leaf);
  }

  // What one row of a key is at a depth.
  Slot single(Bits bits, Row row, int depth) {
    if (depth >= kPlaced) return row_slot(bits, row);
    Leaf* leaf = make_leaf(bits, 1);
    leaf->rows()[leaf->count++] = row;
    return reinterpret_cast<Slot>(leaf) + 2;
  }
  // A leaf of one row, where its depth has changed.
  Slot placed(Slot at, int depth) {
    if (is_node(at) || is_row(at) || depth < kPlaced || leaf_of(at)->count > 1) return at;
    const Slot slot = row_slot(leaf_of(at)->bits, row_in(at));
    free_leaf(leaf_of(at));
    return slot;
  }

  Slot with_row(Slot at, Bits bits, Row row) {
    Leaf* leaf = is_row(at) ? nullptr : leaf_of(at);
    if (leaf == nullptr || leaf->first + leaf->count == leaf->capacity) {
      const uint32_t count = leaf == nullptr ? 1 : leaf->count;
      // Rows that are gone give room first.
      Leaf* grown = make_leaf(bits, leaf != nullptr && leaf->first > count ? leaf->capacity : 2 * std::max(count, 2u));
      for (uint32_t i = 0; i < count; ++i) grown->rows()[i] = row_in(at, i);
      grown->count = count;
      if (leaf != nullptr) free_leaf(leaf);
      leaf = grown;
    }
    leaf->rows()[leaf->count++] = row;
    return reinterpret_cast<Slot>(leaf) + 2;
  }

  // A node above what was in a slot and a new row, whose keys differ in the byte at a depth.
  Slot fork(Bits bits, Row row, Bits other, int depth, Slot at) {
    Node* node = make<Node4>({static_cast<Bits>(bits & mask(depth)), 0, static_cast<uint8_t>(depth), k4});
    const Slot moved = placed(at, depth + 1);
    put(static_cast<Node4*>(node), byte(other, depth), moved);
    put(static_cast<Node4*>(node), byte(bits, depth), single(bits, row, depth + 1));
    return reinterpret_cast<Slot>(node);
  }

  template <int kMax>
  static int less(const uint8_t (&keys)[kMax], int byte) {
    uint8_t count = 0;
    for (int i = 0; i < kMax; ++i) count += keys[i] < byte;
    return count;
  }

  static Slot* find(Node* node, int byte) {
    switch (node->kind) {
      case k4: return find_sorted(static_cast<Node4*>(node), byte);
      case k16: return find_sorted(static_cast<Node16*>(node), byte);
      case k48: {
        auto* own = static_cast<Node48*>(node);
        return own->some[byte / 64] >> (byte % 64) & 1 ? &own->child[own->place[byte]] : nullptr;
      }
      default: {
        auto* own = static_cast<Node256*>(node);
        return own->child[byte] != 0 ? &own->child[byte] : nullptr;
      }
    }
  }
  template <class Own>
  static Slot* find_sorted(Own* own, int byte) {
    const int at = less(own->keys, byte);
    return at < own->count && own->keys[at] == byte ? &own->child[at] : nullptr;
  }

  template <class Own>
  static void put(Own* own, int byte, Slot child) {
    if constexpr (Own::kRoom <= 16) {
      const int at = std::min<int>(less(own->keys, byte), own->count);
      std::move_backward(own->keys + at, own->keys + own->count, own->keys + own->count + 1);
      std::move_backward(own->child + at, own->child + own->count, own->child + own->count + 1);
      own->keys[at] = static_cast<uint8_t>(byte);
      own->child[at] = child;
    } else if constexpr (Own::kRoom == 48) {
      const int at = static_cast<int>(std::find(own->child, own->child + 48, Slot{0}) - own->child);
      own->place[byte] = static_cast<uint8_t>(at);
      own->some[byte / 64] |= uint64_t{1} << (byte % 64);
      own->child[at] = child;
    } else {
      own->child[byte] = child;
    }
    ++own->count;
  }
  template <class Own>
  static void take(Own* own, int byte) {
    if constexpr (Own::kRoom <= 16) {
      const int at = less(own->keys, byte);
      std::move(own->keys + at + 1, own->keys + own->count, own->keys + at);
      std::move(own->child + at + 1, own->child + own->count, own->child + at);
      own->keys[own->count - 1] = 255;
    } else if constexpr (Own::kRoom == 48) {
      own->child[own->place[byte]] = 0;
      own->some[byte / 64] &= ~(uint64_t{1} << (byte % 64));
    } else {
      own->child[byte] = 0;
    }
    --own->count;
  }

  // The same children in a node of another kind.
  template <class To>
  To* changed(Node* from) {
    To* to = make<To>(*from);
    each(from, 0, 255, [to](int byte, Slot child) { return put(to, byte, child), true; });
    free_node(from);
    return to;
  }

  Node* with_child(Node* node, int byte, Slot child) {
    constexpr int room[4] = {4, 16, 48, 256};
    if (node->count == room[node->kind]) {
      switch (node->kind) {
        case k4: node = changed<Node16>(node); break;
        case k16: node = changed<Node48>(node); break;
        default: node = changed<Node256>(node); break;
      }
    }
    switch (node->kind) {
      case k4: put(static_cast<Node4*>(node), byte, child); break;
      case k16: put(static_cast<Node16*>(node), byte, child); break;
      case k48: put(static_cast<Node48*>(node), byte, child); break;
      case k256: put(static_cast<Node256*>(node), byte, child); break;
    }
    return node;
  }

  // What takes a node's place once a child is gone; an only child does, at the node's depth.
  Slot without_child(Node* node, int byte, int depth) {
    switch (node->kind) {
      case k4: take(static_cast<Node4*>(node), byte); break;
      case k16: take(static_cast<Node16*>(node), byte); break;
      case k48: take(static_cast<Node48*>(node), byte); break;
      case k256: take(static_cast<Node256*>(node), byte); break;
    }
    if (node->count == 1) {
      Slot only = 0;
      Bits bits = 0;
      each(node, 0, 255, [&](int own, Slot child) {
        only = child;
        bits = node->path | shifted(own, node->depth);
        return true;
      });
      free_node(node);
      return is_row(only) && depth < kPlaced ? single(bits_in(only, bits), row_in(only), depth) : only;
    }
    if (node->count > kShrinks[node->kind]) return reinterpret_cast<Slot>(node);
    switch (node->kind) {
      case k16: node = changed<Node4>(node); break;
      case k48: node = changed<Node16>(node); break;
      case k256: node = changed<Node48>(node); break;
      default: break;
    }
    return reinterpret_cast<Slot>(node);
  }

  // Calls `f(byte, child)` for the children of bytes from one to another, in order, until it returns false.
  template <class Each>
  static bool each(const Node* node, int from, int to, const Each& f) {
    switch (node->kind) {
      case k4: return each_sorted(static_cast<const Node4*>(node), from, to, f);
      case k16: return each_sorted(static_cast<const Node16*>(node), from, to, f);
      case k48: {
        const auto* own = static_cast<const Node48*>(node);
        for (int word = from / 64; word <= to / 64; ++word) {
          uint64_t some = own->some[word];
          if (word == from / 64) some &= ~uint64_t{0} << (from % 64);
          if (word == to / 64) some &= ~uint64_t{0} >> (63 - to % 64);
          for (; some != 0; some &= some - 1) {
            const int byte = 64 * word + std::countr_zero(some);
            if (!f(byte, own->child[own->place[byte]])) return false;
          }
        }
        return true;
      }
      default: {
        const auto* own = static_cast<const Node256*>(node);
        for (int byte = from; byte <= to; ++byte) {
          if (own->child[byte] != 0 && !f(byte, own->child[byte])) return false;
        }
        return true;
      }
    }
  }
  template <class Own, class Each>
  static bool each_sorted(const Own* own, int from, int to, const Each& f) {
    for (int at = from == 0 ? 0 : less(own->keys, from); at < own->count && own->keys[at] <= to; ++at) {
      if (!f(own->keys[at], own->child[at])) return false;
    }
    return true;
  }
  // The first child of a later byte than this, which is set to its byte; 0 if there is none.
  static Slot from(const Node* node, int& byte) {
    Slot found = 0;
    if (byte < 255) {
      each(node, byte + 1, 255, [&](int own, Slot child) {
        byte = own;
        found = child;
        return false;
      });
    }
    return found;
  }

  template <class Visit>
  static bool emit(Slot at, Bits bits, const Visit& f) {
    if (is_row(at)) return f(key_of(bits), row_in(at));
    const Leaf* leaf = leaf_of(at);
    for (uint32_t i = 0; i < leaf->count; ++i) {
      if (!f(key_of(bits), leaf->rows()[i])) return false;
    }
    return true;
  }
  template <class Visit>
  static bool visit(Slot at, Bits prefix, Bits low, Bits high, const Visit& f) {
    if (at == 0) return true;
    if (!is_node(at)) {
      const Bits bits = bits_in(at, prefix);
      return bits < low || bits > high || emit(at, bits, f);
    }
    const Node* node = node_of(at);
    const Bits first = node->path, last = node->path | ~mask(node->depth);
    if (last < low || first > high) return true;
    if (first >= low && last <= high) return visit_all(node, f);
    return each(node, first >= low ? 0 : byte(low, node->depth), last <= high ? 255 : byte(high, node->depth),
                [&](int own, Slot child) { return visit(child, node->path | shifted(own, node->depth), low, high, f); });
  }
  template <class Visit>
  static bool visit_all(const Node* node, const Visit& f) {
    return each(node, 0, 255, [&](int own, Slot child) {
      if (is_node(child)) return visit_all(node_of(child), f);
      return emit(child, bits_in(child, node->path | shifted(own, node->depth)), f);
    });
  }

  // The slot of the least key of at least `low`, and that key; 0 if there is none.
  Slot least(Slot at, Bits prefix, Bits low, Bits& bits) const {
    if (at == 0) return 0;
    if (!is_node(at)) {
      const Bits own = bits_in(at, prefix);
      if (own < low) return 0;
      bits = own;
      return at;
    }
    const Node* node = node_of(at);
    if ((node->path | ~mask(node->depth)) < low) return 0;
    int place = node->path >= low ? -1 : byte(low, node->depth);
    if (place >= 0) {
      if (const Slot* own = find(const_cast<Node*>(node), place); own != nullptr) {
        const Slot found = least(*own, node->path | shifted(place, node->depth), low, bits);
        if (found != 0) return found;
      }
    }
    const Slot child = from(node, place);
    return child == 0 ? 0 : least(child, node->path | shifted(place, node->depth), low, bits);
  }

  static void drop(Slot at) {
    if (at == 0 || is_row(at)) return;
    if (!is_node(at)) {
      std::free(leaf_of(at));
      return;
    }
    each(node_of(at), 0, 255, [](int, Slot child) { return drop(child), true; });
    std::free(node_of(at));
  }
  static int depth_of(Slot at) {
    if (at == 0 || !is_node(at)) return at != 0;
    int depth = 0;
    each(node_of(at), 0, 255, [&](int, Slot child) { return depth = std::max(depth, depth_of(child)), true; });
    return depth + 1;
  }

  void swap(RadixTree& other) {
    std::swap(root_, other.root_);
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    std::swap(leaves_, other.leaves_);
    std::swap(nodes_, other.nodes_);
  }

  Slot root_ = 0;
  size_t size_ = 0, bytes_ = 0, leaves_ = 0;
  size_t nodes_[4] = {};
};

}  // namespace muntin
