// The trees that PIM-Tree and what it is compared with are made of: a B+-Tree, an immutable tree in breadth-first
// layout, and a set of B+-Trees over disjoint ranges of keys, each with a lock.
//
// Source: PIM-Tree, sections 3.1 to 3.3 and appendix A. An item is a key and the low 32 bits of its row's arrival
// number, as in the paper 4 bytes each where keys are narrow; no two items of an index are equal.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/window_index.hpp"

namespace muntin {

// Narrow keys lie in one word with their rows; wide ones beside them.
struct WideItem {
  int64_t key;
  Row row;
  friend bool operator<(const WideItem& a, const WideItem& b) {
    return (a.key < b.key) | ((a.key == b.key) & (a.row < b.row));
  }
};
template <class Key>
using Item = std::conditional_t<sizeof(Key) == 4, Word, WideItem>;

inline Word make_item(int32_t key, Row row) { return static_cast<Word>(static_cast<uint64_t>(static_cast<uint32_t>(key)) << 32 | row); }
inline WideItem make_item(int64_t key, Row row) { return {key, row}; }
inline int32_t key_of(Word item) { return static_cast<int32_t>(item >> 32); }
inline int64_t key_of(const WideItem& item) { return item.key; }
inline Row row_of(Word item) { return static_cast<Row>(item); }
inline Row row_of(const WideItem& item) { return item.row; }

// A lock for short sections: a thread that waits gives way soon, as there may be more threads than cores.
class SpinLock {
 public:
  void lock() {
    for (int tries = 0; held_.exchange(true, std::memory_order_acquire);) {
      while (held_.load(std::memory_order_relaxed)) {
        if (++tries % 64 == 0) std::this_thread::yield();
      }
    }
  }
  bool try_lock() { return !held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// Nodes of one size, from several threads at once.
class NodePool {
 public:
  static constexpr size_t kNodeBytes = 512;

  void* take() {
    const std::lock_guard lock(lock_);
    if (free_ != nullptr) {
      void* node = free_;
      free_ = *static_cast<void**>(node);
      ++used_;
      return node;
    }
    if (left_ == 0) {
      const size_t nodes = std::min<size_t>(chunks_.empty() ? 32 : 2 * chunk_nodes_, 4096);
      chunks_.emplace_back(nodes * kNodeBytes);
      chunk_nodes_ = left_ = nodes;
    }
    ++used_;
    return static_cast<char*>(chunks_.back().data()) + --left_ * kNodeBytes;
  }
  void give(void* node) {
    const std::lock_guard lock(lock_);
    *static_cast<void**>(node) = free_;
    free_ = node;
    --used_;
  }
  void clear() {
    chunks_.clear();
    free_ = nullptr;
    left_ = used_ = 0;
  }
  size_t bytes() const {
    const std::lock_guard lock(lock_);
    size_t bytes = 0;
    for (const Block& chunk : chunks_) bytes += chunk.bytes();
    return bytes;
  }
  size_t used() const { return used_; }

 private:
  mutable SpinLock lock_;
  std::vector<Block> chunks_;
  size_t chunk_nodes_ = 0, left_ = 0, used_ = 0;
  void* free_ = nullptr;
};

// A B+-Tree with linked leaves. Its nodes lie in a pool that it shares with others; to forget a tree is to clear that.
template <class Key>
class BPlusTree {
 public:
  using Item = muntin::Item<Key>;
  struct Node {
    uint32_t count = 0;  // items of a leaf, children of an inner node
  };
  struct Leaf : Node {
    Leaf* next = nullptr;
    static constexpr size_t kMax = (NodePool::kNodeBytes - 16) / sizeof(Item);
    Item items[kMax];
  };
  struct Inner : Node {
    static constexpr size_t kMax = (NodePool::kNodeBytes - 16 + sizeof(Item)) / (sizeof(Item) + sizeof(void*));
    Item separators[kMax - 1];  // child i has the items x with separators[i - 1] <= x < separators[i]
    Node* children[kMax];
  };
  static_assert(sizeof(Leaf) <= NodePool::kNodeBytes && sizeof(Inner) <= NodePool::kNodeBytes);
  static constexpr size_t kDeepest = 16;

  size_t depth() const { return root_ == nullptr ? 0 : height_ + 1; }
  const Node* root() const { return root_; }

  void insert(const Item& item, NodePool& pool) {
    if (root_ == nullptr) root_ = new (pool.take()) Leaf();
    Inner* path[kDeepest];
    size_t slots[kDeepest];
    Leaf* leaf = descend(item, path, slots);
    if (leaf->count == Leaf::kMax) {
      auto* right = new (pool.take()) Leaf();
      // Ascending keys fill leaves to the brim.
      const bool rising = leaf->next == nullptr && leaf->items[Leaf::kMax - 1] < item;
      const size_t kept = rising ? Leaf::kMax - 1 : Leaf::kMax / 2;
      right->count = Leaf::kMax - kept;
      std::copy_n(leaf->items + kept, right->count, right->items);
      right->next = leaf->next;
      leaf->next = right;
      leaf->count = kept;
      grow(right->items[0], right, path, slots, pool);
      if (!(item < right->items[0])) leaf = right;
    }
    const size_t at = not_past(leaf->items, leaf->count, item);
    std::move_backward(leaf->items + at, leaf->items + leaf->count, leaf->items + leaf->count + 1);
    leaf->items[at] = item;
    ++leaf->count;
  }

  // Removes an item; false if it is not there.
  bool erase(const Item& item, NodePool& pool) {
    if (root_ == nullptr) return false;
    Inner* path[kDeepest];
    size_t slots[kDeepest];
    Leaf* leaf = descend(item, path, slots);
    const size_t past = not_past(leaf->items, leaf->count, item);
    if (past == 0 || leaf->items[past - 1] < item) return false;
    std::move(leaf->items + past, leaf->items + leaf->count, leaf->items + past - 1);
    --leaf->count;
    bool thin = leaf->count < Leaf::kMax / 4;
    for (size_t level = 0; level < height_ && thin; ++level) {  // `path[0]` is the parent of the leaf
      Inner* parent = path[level];
      level == 0 ? even<Leaf>(parent, slots[level], pool) : even<Inner>(parent, slots[level], pool);
      thin = parent->count < Inner::kMax / 4;
    }
    while (height_ > 0 && root_->count == 1) {
      Node* only = static_cast<Inner*>(root_)->children[0];
      pool.give(root_);
      root_ = only;
      --height_;
    }
    if (height_ == 0 && root_->count == 0) {
      pool.give(root_);
      root_ = nullptr;
    }
    return true;
  }

  // Where the first item of at least `low` is: at `at` of a leaf, or behind its last one; without a leaf of an empty tree.
  struct Place {
    const Leaf* leaf;
    size_t at;
  };
  Place place(const Item& low) const {
    if (root_ == nullptr) return {nullptr, 0};
    const Node* node = root_;
    for (size_t level = height_; level > 0; --level) {
      const auto* inner = static_cast<const Inner*>(node);
      node = inner->children[not_past(inner->separators, inner->count - 1, low)];
    }
    const auto* leaf = static_cast<const Leaf*>(node);
    size_t at = not_past(leaf->items, leaf->count, low);
    if (at > 0 && !(leaf->items[at - 1] < low)) --at;  // `low` itself
    return {leaf, at};
  }

  // Gives `see` the items from `low` on in ascending order, until it returns false; false where it did.
  template <class See>
  bool from(const Item& low, const See& see) const {
    auto [leaf, at] = place(low);
    for (; leaf != nullptr; leaf = leaf->next, at = 0) {
      if (leaf->next != nullptr) __builtin_prefetch(leaf->next);
      for (; at < leaf->count; ++at) {
        if (!see(leaf->items[at])) return false;
      }
    }
    return true;
  }

  // Gives `see` all leaves in order: their items, and how many.
  template <class See>
  void leaves(const See& see) const {
    if (root_ == nullptr) return;
    const Node* node = root_;
    for (size_t level = height_; level > 0; --level) node = static_cast<const Inner*>(node)->children[0];
    for (auto* leaf = static_cast<const Leaf*>(node); leaf != nullptr; leaf = leaf->next) see(leaf->items, leaf->count);
  }

  void forget() {
    root_ = nullptr;
    height_ = 0;
  }

 private:
  // How many of ascending items are not past this one.
  static size_t not_past(const Item* items, size_t count, const Item& item) {
    size_t first = 0;
    while (count > 0) {
      const size_t half = (count + 1) / 2;
      first += !(item < items[first + half - 1]) * half;
      count -= half;
    }
    return first;
  }

  Leaf* descend(const Item& item, Inner** path, size_t* slots) {
    Node* node = root_;
    for (size_t level = height_; level > 0; --level) {
      auto* inner = static_cast<Inner*>(node);
      path[level - 1] = inner;
      slots[level - 1] = not_past(inner->separators, inner->count - 1, item);
      node = inner->children[slots[level - 1]];
    }
    return static_cast<Leaf*>(node);
  }

  // Puts a node that was split off beside its elder.
  void grow(Item least, Node* node, Inner** path, size_t* slots, NodePool& pool) {
    for (size_t level = 0; level < height_; ++level) {
      Inner* inner = path[level];
      const size_t at = slots[level] + 1;  // of the new child
      if (inner->count < Inner::kMax) {
        put(inner, at, least, node);
        return;
      }
      auto* right = new (pool.take()) Inner();
      const size_t kept = Inner::kMax / 2 + (at == Inner::kMax ? Inner::kMax / 2 - 1 : 0);
      right->count = inner->count - kept;
      std::copy_n(inner->children + kept, right->count, right->children);
      std::copy_n(inner->separators + kept, right->count - 1, right->separators);
      const Item middle = inner->separators[kept - 1];
      inner->count = kept;
      if (at <= kept) {
        put(inner, at, least, node);
      } else {
        put(right, at - kept, least, node);
      }
      least = middle;
      node = right;
    }
    auto* root = new (pool.take()) Inner();
    root->children[0] = root_;
    root->children[1] = node;
    root->separators[0] = least;
    root->count = 2;
    root_ = root;
    ++height_;
  }

  static void put(Inner* inner, size_t at, const Item& least, Node* child) {
    std::move_backward(inner->children + at, inner->children + inner->count, inner->children + inner->count + 1);
    std::move_backward(inner->separators + at - 1, inner->separators + inner->count - 1, inner->separators + inner->count);
    inner->children[at] = child;
    inner->separators[at - 1] = least;
    ++inner->count;
  }

  // Makes one node of a thin child and its neighbour, or shares out evenly what they have.
  template <class Kind>
  void even(Inner* parent, size_t slot, NodePool& pool) {
    if (parent->count < 2) return;
    const size_t at = slot + 1 < parent->count ? slot : slot - 1;
    auto* left = static_cast<Kind*>(parent->children[at]);
    auto* right = static_cast<Kind*>(parent->children[at + 1]);
    Item& between = parent->separators[at];
    const size_t all = left->count + right->count;
    if constexpr (std::is_same_v<Kind, Leaf>) {
      Item items[2 * Leaf::kMax];
      std::copy_n(right->items, right->count, std::copy_n(left->items, left->count, items));
      left->count = all <= Leaf::kMax ? all : all / 2;
      right->count = all - left->count;
      std::copy_n(items, left->count, left->items);
      std::copy_n(items + left->count, right->count, right->items);
      if (right->count > 0) {
        between = right->items[0];
      } else {
        left->next = right->next;
      }
    } else {
      if (left->count == 0 || right->count == 0) __builtin_unreachable();  // the compiler would warn of lengths below 0
      Item separators[2 * Inner::kMax];
      Node* children[2 * Inner::kMax];
      std::copy_n(right->children, right->count, std::copy_n(left->children, left->count, children));
      Item* end = std::copy_n(left->separators, left->count - 1, separators);
      *end++ = between;
      std::copy_n(right->separators, right->count - 1, end);
      left->count = all <= Inner::kMax ? all : all / 2;
      right->count = all - left->count;
      std::copy_n(children, left->count, left->children);
      std::copy_n(separators, left->count - 1, left->separators);
      std::copy_n(children + left->count, right->count, right->children);
      if (right->count > 0) {
        std::copy_n(separators + left->count, right->count - 1, right->separators);
        between = separators[left->count - 1];
      }
    }
    if (right->count > 0) return;
    std::move(parent->children + at + 2, parent->children + parent->count, parent->children + at + 1);
    std::move(parent->separators + at + 1, parent->separators + parent->count - 1, parent->separators + at);
    --parent->count;
    pool.give(right);
  }

  Node* root_ = nullptr;
  size_t height_ = 0;  // inner levels
};

// A B+-Tree as ordered entries, in a pool of its own.
template <class K>
class BPlusEntries {
 public:
  using Key = K;

  void insert(Key key, Row row) {
    tree_.insert(make_item(key, row), *pool_);
    ++size_;
  }
  bool erase(Key key, Row row) {
    const bool some = tree_.erase(make_item(key, row), *pool_);
    size_ -= some;
    return some;
  }

  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    bool on = true;
    if (low > high) return on;
    tree_.from(make_item(low, 0), [&](const auto& item) {
      if (key_of(item) > high) return false;
      return on = f(key_of(item), row_of(item));
    });
    return on;
  }

  // Where an iterator is. It holds as long as the tree is not changed.
  class Cursor {
   public:
    Cursor(const BPlusEntries& entries, Key low, Key high) : place_(entries.tree_.place(make_item(low, 0))), high_(high) {
      if (low > high) place_.leaf = nullptr;
    }
    bool next(Key& key, Row& row) {
      while (place_.leaf != nullptr && place_.at == place_.leaf->count) {
        place_ = {place_.leaf->next, 0};
        if (place_.leaf != nullptr) __builtin_prefetch(place_.leaf->next);
      }
      if (place_.leaf == nullptr) return false;
      const auto& item = place_.leaf->items[place_.at++];
      key = key_of(item);
      row = row_of(item);
      if (key <= high_) return true;
      place_.leaf = nullptr;
      return false;
    }

   private:
    typename BPlusTree<Key>::Place place_;
    Key high_;
  };

  size_t size() const { return size_; }
  size_t bytes() const { return pool_->bytes(); }
  Figures figures() const {
    return {{"depth", static_cast<int64_t>(tree_.depth())},
            {"fan_out", static_cast<int64_t>(BPlusTree<Key>::Inner::kMax)},
            {"leaf_items", static_cast<int64_t>(BPlusTree<Key>::Leaf::kMax)},
            {"nodes", static_cast<int64_t>(pool_->used())}};
  }

 private:
  std::unique_ptr<NodePool> pool_ = std::make_unique<NodePool>();
  BPlusTree<Key> tree_;
  size_t size_ = 0;
};

// Sorted items under levels of keys in one array, level by level from the root. The nodes of a level have as many keys
// as fit a cache line, each the greatest of a child's; child `i` of a level's node `n` is node `n * kFanOut + i` of the
// next level, and on the last level a leaf of `kLeafItems` items.
template <class Key>
class ImmutableTree {
 public:
  using Item = muntin::Item<Key>;
  static constexpr size_t kFanOut = 64 / sizeof(Key);
  static constexpr size_t kLeafItems = 128 / sizeof(Item);

  ImmutableTree() = default;
  // Takes `count` sorted items at the start of a block.
  ImmutableTree(Block&& block, size_t count) : items_block_(std::move(block)), count_(count) {
    if (count == 0) return;
    std::vector<size_t> sizes;  // nodes of each level, the last level first
    for (size_t children = (count + kLeafItems - 1) / kLeafItems; children > 1 || sizes.empty();) {
      children = (children + kFanOut - 1) / kFanOut;
      sizes.push_back(children);
    }
    size_t keys = 0;
    for (const size_t nodes : sizes) keys += nodes * kFanOut;
    keys_block_ = Block(keys * sizeof(Key));
    auto* at = static_cast<Key*>(keys_block_.data());
    for (auto nodes = sizes.rbegin(); nodes != sizes.rend(); ++nodes) {
      levels_.push_back({at, *nodes});
      at += *nodes * kFanOut;
    }
    const Item* items = this->items();
    for (size_t level = levels_.size(); level-- > 0;) {
      Key* own = levels_[level].keys;
      const bool last = level + 1 == levels_.size();
      const size_t children = last ? (count + kLeafItems - 1) / kLeafItems : levels_[level + 1].nodes;
      for (size_t child = 0; child < children; ++child) {
        own[child] = last ? key_of(items[std::min((child + 1) * kLeafItems, count) - 1])
                          : levels_[level + 1].keys[std::min((child + 1) * kFanOut, valid_) - 1];
      }
      std::fill(own + children, own + levels_[level].nodes * kFanOut, std::numeric_limits<Key>::max());
      valid_ = children;
    }
    leaves_ = (count + kLeafItems - 1) / kLeafItems;
  }

  size_t size() const { return count_; }
  size_t bytes() const { return items_block_.bytes() + keys_block_.bytes(); }
  const Item* items() const { return static_cast<const Item*>(items_block_.data()); }
  size_t depth() const { return levels_.size(); }  // levels of inner nodes; the root is at depth 0
  size_t nodes(size_t depth) const { return levels_[depth].nodes; }
  // Greatest key under a node at a depth of at least 1.
  Key greatest(size_t depth, size_t node) const { return levels_[depth - 1].keys[node]; }

  // The node at a depth whose range of keys a key lies in; the last one's has no end.
  size_t node_of(Key key, size_t depth) const {
    size_t node = 0;
    for (size_t level = 0; level < depth; ++level) node = child(level, node, key);
    return node;
  }

  // For some keys at once: the nodes at a depth that they lead to, and the leaves. What each level needs of memory is
  // asked for before any of it is read.
  template <size_t kMax>
  void descend(const Key* keys, size_t count, size_t depth, uint32_t (&nodes)[kMax], uint32_t (&leaves)[kMax]) const {
    uint32_t at[kMax] = {};
    for (size_t i = 0; i < count; ++i) nodes[i] = 0;
    for (size_t level = 0; level < levels_.size(); ++level) {
      if (level == depth) std::copy_n(at, count, nodes);
      const bool last = level + 1 == levels_.size();
      for (size_t i = 0; i < count; ++i) {
        at[i] = static_cast<uint32_t>(child(level, at[i], keys[i]));
        if (last) {
          __builtin_prefetch(items() + at[i] * kLeafItems);
          __builtin_prefetch(reinterpret_cast<const char*>(items() + at[i] * kLeafItems) + 64);
        } else {
          __builtin_prefetch(levels_[level + 1].keys + at[i] * kFanOut);
        }
      }
    }
    std::copy_n(at, count, leaves);
  }
  size_t leaf_of(Key key) const { return count_ == 0 ? 0 : node_of(key, levels_.size()); }

  // Gives `see` the items of a key of at least `low` in ascending order, until it returns false.
  template <class See>
  void from(size_t leaf, Key low, const See& see) const {
    const Item* item = items() + leaf * kLeafItems;
    const Item* const end = items() + count_;
    while (item != end && key_of(*item) < low) ++item;
    for (; item != end; ++item) {
      if (!see(*item)) return;
    }
  }

 private:
  struct Level {
    Key* keys;
    size_t nodes;
  };

  size_t child(size_t level, size_t node, Key key) const {
    const Key* keys = levels_[level].keys + node * kFanOut;
    size_t less = 0;
    if constexpr (sizeof(Key) == 4) {
      int32_t count = 0;
      for (size_t i = 0; i < kFanOut; ++i) count += keys[i] < key;
      less = static_cast<size_t>(count);
    } else {
      for (size_t i = 0; i < kFanOut; ++i) less += keys[i] < key;
    }
    const size_t last = (level + 1 == levels_.size() ? leaves_ : levels_[level + 1].nodes) - 1;
    return std::min(node * kFanOut + less, last);
  }

  Block items_block_, keys_block_;
  size_t count_ = 0, leaves_ = 0, valid_ = 0;
  std::vector<Level> levels_;
};

}  // namespace muntin
