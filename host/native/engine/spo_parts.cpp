#include "engine/spo_parts.hpp"

namespace muntin {

void KeyTree::insert(int64_t key, uint32_t id) {
  if (root_ == nullptr) root_ = &leaves_.emplace_back();
  Inner* path[16];
  uint32_t slots[16];
  void* node = root_;
  for (size_t level = height_; level > 0; --level) {
    auto* inner = static_cast<Inner*>(node);
    path[level] = inner;
    slots[level] = std::upper_bound(inner->separators, inner->separators + inner->count - 1, key) - inner->separators;
    node = inner->children[slots[level]];
  }
  auto* leaf = static_cast<Leaf*>(node);
  uint32_t at = std::upper_bound(leaf->keys, leaf->keys + leaf->count, key) - leaf->keys;
  if (leaf->count < kItems) {
    std::copy_backward(leaf->keys + at, leaf->keys + leaf->count, leaf->keys + leaf->count + 1);
    std::copy_backward(leaf->ids + at, leaf->ids + leaf->count, leaf->ids + leaf->count + 1);
    leaf->keys[at] = key;
    leaf->ids[at] = id;
    ++leaf->count;
    return;
  }
  auto* right = &leaves_.emplace_back();
  right->next = leaf->next;
  leaf->next = right;
  const uint32_t kept = at == kItems && right->next == nullptr ? kItems : kItems / 2;  // ascending keys fill leaves
  right->count = kItems - kept;
  std::copy_n(leaf->keys + kept, right->count, right->keys);
  std::copy_n(leaf->ids + kept, right->count, right->ids);
  leaf->count = kept;
  if (at >= kept) {
    leaf = right;
    at -= kept;
  }
  std::copy_backward(leaf->keys + at, leaf->keys + leaf->count, leaf->keys + leaf->count + 1);
  std::copy_backward(leaf->ids + at, leaf->ids + leaf->count, leaf->ids + leaf->count + 1);
  leaf->keys[at] = key;
  leaf->ids[at] = id;
  ++leaf->count;
  int64_t separator = right->keys[0];
  void* added = right;
  for (size_t level = 1; level <= height_; ++level) {
    Inner* parent = path[level];
    uint32_t slot = slots[level];
    const auto put = [&](Inner* into, uint32_t place) {
      std::copy_backward(into->separators + place, into->separators + into->count - 1, into->separators + into->count);
      std::copy_backward(into->children + place + 1, into->children + into->count, into->children + into->count + 1);
      into->separators[place] = separator;
      into->children[place + 1] = added;
      ++into->count;
    };
    if (parent->count < kFanout) return put(parent, slot);
    auto* sibling = &inners_.emplace_back();
    constexpr uint32_t half = kFanout / 2;
    const int64_t middle = parent->separators[half - 1];
    sibling->count = kFanout - half;
    std::copy_n(parent->children + half, sibling->count, sibling->children);
    std::copy_n(parent->separators + half, sibling->count - 1, sibling->separators);
    parent->count = half;
    slot < half ? put(parent, slot) : put(sibling, slot - half);
    separator = middle;
    added = sibling;
  }
  auto* top = &inners_.emplace_back();
  top->count = 2;
  top->separators[0] = separator;
  top->children[0] = root_;
  top->children[1] = added;
  root_ = top;
  ++height_;
}

void CssDirectory::build(const int64_t* keys, size_t length) {
  levels_.clear();
  const int64_t* below = keys;
  for (size_t entries = length; entries > kNode; entries = levels_.back().size()) {
    CallVector<int64_t> level;
    for (size_t i = 0; i < entries; i += kNode) level.push_back(below[i]);
    levels_.push_back(std::move(level));
    below = levels_.back().data();
  }
}

ImmutableRun::ImmutableRun(const MutablePart& part, Immutable kind, std::vector<int> order)
    : extent(part.extent), length(part.rows.size()), order(std::move(order)), keys(part.trees.size()),
      permutation(part.trees.size()), rank(part.trees.size()) {
  const bool css = kind == Immutable::kCssBits || kind == Immutable::kCssHash;
  const size_t conditions = keys.size(), permuted = css ? conditions : conditions - 1;
  // A cache line of room behind each array, for loops over whole vectors.
  const size_t wide = (length + 8) * sizeof(int64_t), narrow = (length + 16) * sizeof(uint32_t);
  block = Block(conditions * wide + ((css ? 1 : 2) * permuted + 1) * narrow);
  char* at = static_cast<char*>(block.data());
  const auto take = [&at](size_t bytes) { return std::exchange(at, at + bytes); };
  for (auto& column : keys) column = reinterpret_cast<int64_t*>(take(wide));
  offset = reinterpret_cast<uint32_t*>(take(narrow));
  CallVector<uint32_t> bit_of(css ? 0 : length);  // of an identifier: `tmp` of algorithm 2
  for (size_t i = 0; i < conditions; ++i) {
    const int condition = this->order[i];
    const bool scanned = !css && i == 0;
    if (!scanned) permutation[condition] = reinterpret_cast<uint32_t*>(take(narrow));
    if (!scanned && !css) rank[condition] = reinterpret_cast<uint32_t*>(take(narrow));
    uint32_t place = 0;
    for (const KeyTree::Leaf* leaf = part.trees[condition].first(); leaf != nullptr; leaf = leaf->next) {
      std::copy_n(leaf->keys, leaf->count, keys[condition] + place);
      for (uint32_t j = 0; j < leaf->count; ++j, ++place) {
        const uint32_t id = leaf->ids[j];
        if (scanned) {
          bit_of[id] = place;
        } else {
          permutation[condition][place] = css ? id : bit_of[id];
          if (!css) rank[condition][bit_of[id]] = place;
        }
      }
    }
    checkpoint();
  }
  for (size_t id = 0; id < length; ++id) {
    offset[css ? id : bit_of[id]] = static_cast<uint32_t>(part.rows[id] - extent.first_row);
  }
  if (css) {
    directories.resize(conditions);
    for (size_t k = 0; k < conditions; ++k) directories[k].build(keys[k], length);
  }
}

}  // namespace muntin
