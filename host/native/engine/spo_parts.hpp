// The parts of SPO-Join: the mutable part of a window, B+-Trees by condition, and the immutable runs made of it.
//
// Source: SPO-Join, sections 3.2 to 3.4. The trees map keys to identifiers: places in the part, in order of arrival.
#pragma once

#include <bit>
#include <deque>
#include <numeric>
#include <span>
#include <tuple>

#include "engine/engine.hpp"

namespace muntin {

// A B+-Tree of one condition's keys with linked leaves. It forgets all of its items at once.
class KeyTree {
 public:
  static constexpr uint32_t kItems = 64, kFanout = 64;
  struct Leaf {
    uint32_t count = 0;
    Leaf* next = nullptr;
    int64_t keys[kItems];
    uint32_t ids[kItems];
  };

  void insert(int64_t key, uint32_t id);
  // Gives `see` the identifiers of keys from `low` to `high`.
  template <class See>
  void range(int64_t low, int64_t high, const See& see) const {
    if (root_ == nullptr) return;
    const void* node = root_;
    for (size_t level = height_; level > 0; --level) {
      const auto* inner = static_cast<const Inner*>(node);
      node = inner->children[std::lower_bound(inner->separators, inner->separators + inner->count - 1, low) - inner->separators];
    }
    const auto* leaf = static_cast<const Leaf*>(node);
    size_t at = std::lower_bound(leaf->keys, leaf->keys + leaf->count, low) - leaf->keys;
    for (; leaf != nullptr; leaf = leaf->next, at = 0) {
      for (; at < leaf->count; ++at) {
        if (leaf->keys[at] > high) return;
        see(leaf->ids[at]);
      }
    }
  }
  const Leaf* first() const { return leaves_.empty() ? nullptr : &leaves_.front(); }  // the first made stays the least
  size_t bytes() const { return leaves_.size() * sizeof(Leaf) + inners_.size() * sizeof(Inner); }

 private:
  struct Inner {
    uint32_t count = 0;                // children
    int64_t separators[kFanout - 1];   // child i has keys of at least separators[i - 1], and of at most separators[i]
    void* children[kFanout];
  };

  void* root_ = nullptr;
  size_t height_ = 0;
  std::deque<Leaf> leaves_;
  std::deque<Inner> inners_;
};

// The directory of a Cache-Sensitive Search Tree over a sorted array: implicit nodes of 16 keys, without pointers.
// Source: Rao and Ross, as SPO-Join compares itself with it (section 5.4).
class CssDirectory {
 public:
  void build(const int64_t* keys, size_t length);
  template <bool kUpper>  // the first place with a key above `key`, or else of at least `key`
  size_t search(const int64_t* keys, size_t length, int64_t key) const {
    const auto before = [key](int64_t x) { return kUpper ? x <= key : x < key; };
    size_t node = 0;
    for (size_t level = levels_.size(); level-- > 0;) {
      const auto& entries = levels_[level];
      const size_t end = std::min(node + kNode, entries.size());
      size_t at = node;
      while (at < end && before(entries[at])) ++at;
      node = (at == node ? node : at - 1) * kNode;
    }
    const size_t end = std::min(node + kNode, length);
    while (node < end && before(keys[node])) ++node;
    return node;
  }
  size_t bytes() const {
    size_t entries = 0;
    for (const auto& level : levels_) entries += level.size();
    return entries * sizeof(int64_t);
  }

 private:
  static constexpr size_t kNode = 16;
  std::vector<CallVector<int64_t>> levels_;  // level 0: the first key of each node of the array
};

// The mutable part of a side's window.
struct MutablePart {
  explicit MutablePart(size_t conditions) : trees(conditions) {}

  Extent extent{};
  CallVector<int64_t> rows;  // arrival numbers by identifier, ascending
  std::vector<KeyTree> trees;

  void add(int64_t row, int64_t time) {
    const Extent one{row, row, time, time};
    rows.empty() ? extent = one : (extent.join(one), extent);
    rows.push_back(row);
  }
  size_t bytes() const {
    size_t bytes = rows.capacity() * sizeof(int64_t);
    for (const KeyTree& tree : trees) bytes += tree.bytes();
    return bytes;
  }
};

enum class Immutable { kPoJoin, kPoJoinBits, kCssBits, kCssHash };

// An immutable run. A row's bit is its place in the order of the condition that is scanned (PO-Join), or its identifier
// (CSS-Tree).
struct ImmutableRun {
  // Built in linear time from the sorted leaves: algorithm 2 for each condition but the scanned one. `order` are the
  // conditions, the scanned one first.
  ImmutableRun(const MutablePart& part, Immutable kind, std::vector<int> order);

  Extent extent;
  size_t length;
  std::vector<int> order;
  // By condition: sorted keys; the bit of each; and by bit the place among the sorted keys. Null where places are bits,
  // and ranks for CSS-Trees.
  std::vector<int64_t*> keys;
  std::vector<uint32_t*> permutation, rank;
  uint32_t* offset;  // by bit: arrival number less the first of the run
  std::vector<CssDirectory> directories;
  Block block;

  int64_t row(size_t bit) const { return extent.first_row + offset[bit]; }
  size_t bytes() const {
    size_t bytes = block.bytes();
    for (const CssDirectory& directory : directories) bytes += directory.bytes();
    return bytes;
  }
};

}  // namespace muntin
