// The full CSB+-Tree: nodes of one cache line, and all children of a node side by side in one group, so that a node has
// one pointer for all of them and the rest of its line for keys.
//
// Source: Rao and Ross, "Making B+-trees cache conscious in main memory" (reference 12 of the partitioned temporal window
// index, whose section 4.1 takes the full variant). A group always has room for all children: a split moves nodes within
// it. A leaf or a group that has become empty goes at once, others are not merged.
#pragma once

#include "core/window_index.hpp"

namespace muntin {

template <class K>
class CsbTree {
 public:
  using Key = K;
  static constexpr size_t kKeys = 56 / sizeof(K);                // of a node: 14, or 7 of 64 bits
  static constexpr size_t kChildren = kKeys + 1;
  static constexpr size_t kEntries = 60 / (sizeof(K) + sizeof(Row));  // of a leaf: 7, or 5

  CsbTree() = default;
  CsbTree(CsbTree&& other) noexcept { swap(other); }
  CsbTree& operator=(CsbTree&& other) noexcept {
    swap(other);
    return *this;
  }

  // Adds an entry behind those of the same key.
  void insert(Key key, Row row) {
    if (root_ == nullptr) {
      root_ = make();
      root_->count = 1;
      root_->nodes[0].leaf.count = 0;
      leaves_ = 1;
    }
    Step path[kMaxDepth + 1];
    path[depth_] = {root_, 0};
    for (size_t level = depth_; level > 0; --level) path[level - 1] = below(path[level], key);
    if (path[0].node().leaf.count == kEntries) make_room(path, key);
    Leaf& leaf = path[0].node().leaf;
    size_t at = leaf.count;
    for (; at > 0 && key < leaf.keys[at - 1]; --at) {
      leaf.keys[at] = leaf.keys[at - 1];
      leaf.rows[at] = leaf.rows[at - 1];
    }
    leaf.keys[at] = key;
    leaf.rows[at] = row;
    ++leaf.count;
    ++size_;
  }

  // Whether there was such an entry.
  bool erase(Key key, Row row) {
    if (root_ == nullptr || !erase_below({root_, 0}, depth_, key, row)) return false;
    --size_;
    while (depth_ > 0 && root_->nodes[0].inner.children != nullptr && root_->nodes[0].inner.children->count == 1) {
      Group* old = root_;
      root_ = old->nodes[0].inner.children;
      give(old);
      --depth_;
    }
    if (size_ == 0) {
      give(root_);
      root_ = nullptr;
      depth_ = leaves_ = 0;
    }
    return true;
  }

  // Where an iterator is. It holds as long as the tree is not changed.
  class Cursor {
   public:
    Cursor(const CsbTree& tree, Key low, Key high) : high_(high) {
      if (tree.root_ == nullptr) return;
      std::tie(group_, at_) = tree.first_leaf(low);
      const Leaf& leaf = group_->nodes[at_].leaf;
      while (entry_ < leaf.count && leaf.keys[entry_] < low) ++entry_;
    }
    bool next(Key& key, Row& row) {
      while (group_ != nullptr) {
        const Leaf& leaf = group_->nodes[at_].leaf;
        if (entry_ < leaf.count) {
          key = leaf.keys[entry_];
          row = leaf.rows[entry_++];
          if (key <= high_) return true;
          group_ = nullptr;
          return false;
        }
        entry_ = 0;
        if (++at_ == group_->count) {
          group_ = group_->next;
          at_ = 0;
        }
      }
      return false;
    }

   private:
    const typename CsbTree::Group* group_ = nullptr;
    uint32_t at_ = 0, entry_ = 0;
    Key high_;
  };

  // Calls `f(key, row)` for the entries with `low <= key <= high` in order, until it returns false.
  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    if (root_ == nullptr || low > high) return true;
    auto [group, first] = first_leaf(low);
    const Leaf* leaf = &group->nodes[first].leaf;
    size_t entry = 0;
    while (entry < leaf->count && leaf->keys[entry] < low) ++entry;
    for (size_t at = first;;) {
      for (; entry < leaf->count; ++entry) {
        if (leaf->keys[entry] > high) return true;
        if (!f(leaf->keys[entry], leaf->rows[entry])) return false;
      }
      if (++at == group->count) {
        group = group->next;
        if (group == nullptr) return true;
        at = 0;
      }
      leaf = &group->nodes[at].leaf;
      entry = 0;
    }
  }

  size_t size() const { return size_; }
  size_t bytes() const {
    size_t bytes = 0;
    for (const Block& block : blocks_) bytes += block.bytes();
    return bytes;
  }
  Figures figures() const {
    const double entries = static_cast<double>(leaves_ * kEntries);
    return {{"depth", static_cast<int64_t>(root_ == nullptr ? 0 : depth_ + 1)},
            {"node_groups", static_cast<int64_t>(groups_)},
            {"leaves", static_cast<int64_t>(leaves_)},
            {"leaf_fill", leaves_ == 0 ? 0.0 : static_cast<double>(size_) / entries}};
  }

 private:
  static constexpr size_t kMaxDepth = 32;
  static constexpr Key kTop = std::numeric_limits<Key>::max();

  struct Group;
  struct Inner {
    Group* children;
    Key keys[kKeys];  // all of child i <= keys[i] <= all of child i + 1; the greatest key behind the last
  };
  struct Leaf {
    Key keys[kEntries];
    Row rows[kEntries];
    uint32_t count;
  };
  union alignas(64) Node {
    Inner inner;
    Leaf leaf;
  };
  struct Group {
    alignas(64) Group* next;  // of leaves, or of free groups
    Group* before;
    uint32_t count;
    Node nodes[kChildren];
  };
  static_assert(sizeof(Node) == 64);

  struct Step {
    Group* group;
    uint32_t at;
    Node& node() const { return group->nodes[at]; }
  };

  void swap(CsbTree& other) {
    std::swap(root_, other.root_);
    std::swap(depth_, other.depth_);
    std::swap(size_, other.size_);
    std::swap(leaves_, other.leaves_);
    std::swap(groups_, other.groups_);
    std::swap(free_, other.free_);
    std::swap(blocks_, other.blocks_);
  }

  // Children before the first that may hold the key.
  static uint32_t lower(const Inner& node, Key key) {
    uint32_t count = 0;
    for (const Key other : node.keys) count += other < key;
    return count;
  }
  // Children before the last that may.
  static uint32_t upper(const Inner& node, Key key) {
    uint32_t count = 0;
    for (const Key other : node.keys) count += other <= key;
    return key == kTop ? std::min(count, node.children->count - 1) : count;
  }
  static Step below(const Step& step, Key key) {
    const Inner& node = step.node().inner;
    return {node.children, upper(node, key)};
  }

  std::pair<const Group*, uint32_t> first_leaf(Key low) const {
    const Group* group = root_;
    uint32_t at = 0;
    for (size_t level = depth_; level > 0; --level) {
      const Inner& node = group->nodes[at].inner;
      at = lower(node, low);
      group = node.children;
    }
    return {group, at};
  }

  // Splits the full leaf at the end of a path, and the full nodes above it.
  void make_room(Step* path, Key key) {
    size_t level = 1;
    while (level <= depth_ && path[level].node().inner.children->count == kChildren) ++level;
    if (level > depth_) {
      Group* root = make();
      root->count = 1;
      root->nodes[0].inner.children = root_;
      std::fill_n(root->nodes[0].inner.keys, kKeys, kTop);
      root_ = root;
      path[++depth_] = {root, 0};
    }
    for (; level > 0; --level) {
      Inner& parent = path[level].node().inner;
      Step& child = path[level - 1];
      split(parent, child.at, level - 1);
      if (!(key < parent.keys[child.at])) ++child.at;
      if (level > 1) path[level - 2] = below(child, key);
    }
  }

  // Makes two nodes of one whose parent has room for it.
  void split(Inner& parent, size_t at, size_t level) {
    Group& group = *parent.children;
    std::memmove(static_cast<void*>(group.nodes + at + 1), group.nodes + at, (group.count - at) * sizeof(Node));
    std::memmove(parent.keys + at + 1, parent.keys + at, (kKeys - at - 1) * sizeof(Key));
    ++group.count;
    if (level == 0) {
      Leaf &left = group.nodes[at].leaf, &right = group.nodes[at + 1].leaf;
      constexpr size_t half = (kEntries + 1) / 2;
      left.count = half;
      right.count = kEntries - half;
      std::memmove(right.keys, right.keys + half, right.count * sizeof(Key));
      std::memmove(right.rows, right.rows + half, right.count * sizeof(Row));
      parent.keys[at] = right.keys[0];
      ++leaves_;
      return;
    }
    Inner &left = group.nodes[at].inner, &right = group.nodes[at + 1].inner;
    constexpr size_t half = (kChildren + 1) / 2;
    Group &old = *left.children, &made = *make();
    made.count = kChildren - half;
    old.count = half;
    std::memcpy(static_cast<void*>(made.nodes), old.nodes + half, made.count * sizeof(Node));
    right.children = &made;
    parent.keys[at] = left.keys[half - 1];
    std::memmove(right.keys, right.keys + half, (kKeys - half) * sizeof(Key));
    std::fill(right.keys + kKeys - half, right.keys + kKeys, kTop);
    std::fill(left.keys + half - 1, left.keys + kKeys, kTop);
    if (level == 1) {
      made.next = old.next;
      made.before = &old;
      if (made.next != nullptr) made.next->before = &made;
      old.next = &made;
    }
  }

  bool erase_below(const Step& step, size_t level, Key key, Row row) {
    if (level == 0) {
      Leaf& leaf = step.node().leaf;
      for (size_t at = 0; at < leaf.count; ++at) {
        if (leaf.keys[at] != key || leaf.rows[at] != row) continue;
        --leaf.count;
        std::memmove(leaf.keys + at, leaf.keys + at + 1, (leaf.count - at) * sizeof(Key));
        std::memmove(leaf.rows + at, leaf.rows + at + 1, (leaf.count - at) * sizeof(Row));
        return true;
      }
      return false;
    }
    Inner& node = step.node().inner;
    const uint32_t first = lower(node, key);
    for (uint32_t at = first; at < node.children->count && (at == first || node.keys[at - 1] <= key); ++at) {
      if (!erase_below({node.children, at}, level - 1, key, row)) continue;
      const Node& child = node.children->nodes[at];
      if (level == 1 ? child.leaf.count == 0 : child.inner.children == nullptr) remove(node, at, level - 1);
      return true;
    }
    return false;
  }

  // Takes an empty child out of its group.
  void remove(Inner& node, size_t at, size_t level) {
    Group& group = *node.children;
    --group.count;
    if (level == 0) --leaves_;
    if (group.count == 0) {
      if (level == 0 && group.before != nullptr) group.before->next = group.next;
      if (level == 0 && group.next != nullptr) group.next->before = group.before;
      give(&group);
      node.children = nullptr;
      return;
    }
    std::memmove(static_cast<void*>(group.nodes + at), group.nodes + at + 1, (group.count - at) * sizeof(Node));
    const size_t key = at < group.count ? at : at - 1;
    std::memmove(node.keys + key, node.keys + key + 1, (kKeys - key - 1) * sizeof(Key));
    node.keys[kKeys - 1] = kTop;
  }

  Group* make() {
    if (free_ == nullptr) {
      const size_t count = std::clamp<size_t>(groups_, 1, 1024);
      Block& block = blocks_.emplace_back(count * sizeof(Group));
      auto* made = static_cast<Group*>(block.data());
      for (size_t at = count; at-- > 0;) {
        made[at].next = free_;
        free_ = made + at;
      }
    }
    Group* group = std::exchange(free_, free_->next);
    group->next = group->before = nullptr;
    ++groups_;
    return group;
  }
  void give(Group* group) {
    group->next = free_;
    free_ = group;
    --groups_;
  }

  Group* root_ = nullptr;  // of one node
  size_t depth_ = 0, size_ = 0, leaves_ = 0, groups_ = 0;
  Group* free_ = nullptr;
  std::vector<Block> blocks_;
};

}  // namespace muntin
