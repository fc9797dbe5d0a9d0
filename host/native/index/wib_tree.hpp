// WiB+-Tree: a subwindow's rows in wide unsorted leaves below a B+-Tree of separators.
//
// Source: PanJoin, section III-C; III-E for the path that a sorted batch takes through the tree. A leaf is sorted when it
// is split, and only then. Rows with one key lie in one leaf, so separators differ, and a leaf of one key may have more
// rows than its width: it takes further entries of the LLAT.
//
// How many entries that takes, which the paper leaves out: with a width of W rows, at most 6 N / W + 1 for N rows. A full
// leaf with several keys is cut at an end of the rows with its middle key. If those are at most W / 2, the better end
// leaves at least W / 4 rows on either side. If they are more, the leaf is cut at both ends, where it has rows beyond
// them: this may leave one row there, but it happens once for each end of a key. So leaves that were born with less than
// W / 4 rows are at most two for each key that has more than W / 2, the leaves of these keys are one each, and all others
// have W / 4 rows of other keys: at most 6 leaves for W rows. Rows of one key beyond the width take an entry more for each
// further W rows, which is less.
#pragma once

#include <algorithm>

#include "index/llat.hpp"

namespace muntin {

template <class K>
class WibTree {
 public:
  using Key = K;
  static constexpr size_t kLevels = 16;  // of nodes, which have at least 32 children but for the root: more than there can be

  struct Options {
    size_t leaf_rows;  // width of a leaf
  };

  struct Learned {};  // nothing: the tree follows its rows
  Learned learned() const { return {}; }

  WibTree(const Options& options, size_t capacity, const Learned*)
      : width_(options.leaf_rows), llat_(width_, segment(width_, capacity), bound(capacity, width_), 1) {
    leaves_.push_back({});
  }

  static size_t bound(size_t rows, size_t width) { return std::min<size_t>(6 * rows / width + 1, uint32_t{1} << 31); }

  void insert(const RowSpan<Key>& rows) {
    rows_ += rows.count;
    Cursor cursor(*this);
    for (size_t from = 0; from < rows.count;) {
      const uint32_t at = cursor.find(rows.key(from));
      const size_t end = leaves_[at].open ? rows.count : rows.seek(from, leaves_[at].high);
      while (from < end) {
        Leaf& leaf = leaves_[at];
        size_t to = std::min(end, from + (width_ > leaf.count ? width_ - leaf.count : 0));
        if (to == from && leaf.min == leaf.max && leaf.min == rows.key(from)) {
          while (to < end && rows.key(to) == leaf.min) ++to;  // more rows than the width, of one key
        }
        if (to == from) {
          split(at, rows.key(from));
          visits_ += cursor.visits();
          cursor = Cursor(*this);
          break;
        }
        leaf.min = leaf.count ? std::min(leaf.min, rows.key(from)) : rows.key(from);
        leaf.max = leaf.count ? std::max(leaf.max, rows.key(to - 1)) : rows.key(to - 1);
        leaf.count += static_cast<uint32_t>(to - from);
        llat_.append(leaf.last, rows.part(from, to));
        from = to;
      }
    }
    visits_ += cursor.visits();
  }

  size_t plan() { return 0; }  // one thread inserts, as in the paper
  void work(size_t) {}
  void stored() {}
  void flush() {}

  // Finds the leaves of ascending keys: from the path of the one before up, as far as needed, and down again.
  class Cursor {
   public:
    explicit Cursor(const WibTree& tree) : tree_(&tree) { path_[0] = {tree.root_, true, 0}; }

    uint32_t find(Key key) {
      while (level_ > 0 && !path_[level_].holds(key)) --level_;
      for (; level_ < tree_->depth_; ++level_) {
        const Step& step = path_[level_];
        const Node& node = tree_->nodes_[step.at];
        const Key* const end = node.separators + node.children - 1;
        const size_t child = std::upper_bound(node.separators, end, key) - node.separators;
        const bool last = node.separators + child == end;
        path_[level_ + 1] = {node.child[child], last && step.open, last ? step.high : node.separators[child]};
        ++visits_;
      }
      return path_[level_].at;
    }

    uint32_t node(size_t level) const { return path_[level].at; }
    size_t visits() const { return visits_; }

   private:
    struct Step {
      uint32_t at;  // a node, or the leaf
      bool open;    // its keys have no upper end
      Key high;     // or are less than this
      bool holds(Key key) const { return open || key < high; }
    };
    const WibTree* tree_;
    size_t level_ = 0, visits_ = 0;
    Step path_[kLevels + 1];
  };

  void prefetch(uint32_t leaf) const { llat_.prefetch(leaves_[leaf].first); }
  uint32_t next(uint32_t leaf) const { return leaves_[leaf].next; }
  bool ends(uint32_t leaf, Key key) const { return leaves_[leaf].open || key < leaves_[leaf].high; }
  template <class Take>
  void each(uint32_t leaf, const Take& take) const {
    llat_.each(leaves_[leaf].first, take);
  }
  template <class Take>
  void each(const Take& take) const {
    for (size_t at = 0; at < leaves_.size(); ++at) each(static_cast<uint32_t>(at), take);
  }

  size_t rows() const { return rows_; }
  size_t bytes() const {
    return llat_.bytes() + leaves_.capacity() * sizeof(Leaf) + nodes_.capacity() * sizeof(Node);
  }
  double error() const {
    const double even = static_cast<double>(rows_) / static_cast<double>(leaves_.size());
    double sum = 0;
    for (const Leaf& leaf : leaves_) sum += leaf.count > even ? leaf.count - even : even - leaf.count;
    return rows_ == 0 ? 0 : sum / static_cast<double>(rows_);
  }

  void tell(Figures& figures) const {
    figures["leaves"] = static_cast<int64_t>(leaves_.size());
    figures["depth"] = static_cast<int64_t>(depth_);
    figures["nodes"] = static_cast<int64_t>(nodes_.size());
    figures["splits"] = static_cast<int64_t>(splits_);
    figures["visits"] = static_cast<int64_t>(visits_);
    figures["entries"] = static_cast<int64_t>(llat_.used());
    figures["entry_bound"] = static_cast<int64_t>(bound(rows_, width_));
    if (leaves_.size() > kToldLeaves) return;
    std::vector<int64_t> widths, separators;
    for (uint32_t at = 0;; at = leaves_[at].next) {
      widths.push_back(leaves_[at].count);
      if (leaves_[at].open) break;
      separators.push_back(leaves_[at].high);
    }
    figures["widths"] = widths;
    figures["separators"] = separators;
  }

 private:
  static constexpr size_t kFanOut = 64;  // children of a node
  static constexpr size_t kToldLeaves = 4096;

  struct Node {
    uint32_t children;
    Key separators[kFanOut];  // child i has keys less than separator i, and not less than the one before
    uint32_t child[kFanOut + 1];
  };
  struct Leaf {
    uint32_t first = 0, last = 0;  // entries
    uint32_t count = 0;
    uint32_t next = 0;             // leaf, where this one is not open
    bool open = true;              // keys have no upper end
    Key high = 0;                  // or are less than this
    Key min = 0, max = 0;          // of its rows
  };

  static size_t segment(size_t width, size_t capacity) {
    constexpr size_t rows = 8192;
    return std::bit_floor(std::max<size_t>(std::min(rows, capacity) / width, 1));
  }

  // Makes room for `key` in a full leaf: its leaf then has room, or rows of this key alone.
  void split(uint32_t at, Key key) {
    ++splits_;
    const Key least = leaves_[at].min;
    if (least == leaves_[at].max) {  // of one key, which is not this one
      cut(at, least, key > least ? static_cast<Key>(least + 1) : least, 0, 0);
      if (key < least) {  // its rows go to the leaf on the right, entries and all
        Leaf &left = leaves_[at], &right = leaves_[left.next];
        std::swap(left.first, right.first);
        std::swap(left.last, right.last);
        std::swap(left.count, right.count);
        right.min = right.max = least;
      }
      return;
    }
    sorted_.clear();
    llat_.each(leaves_[at].first, [this](const RowSpan<Key>& rows) {
      for (size_t i = 0; i < rows.count; ++i) sorted_.push_back({rows.words[i], rows.rows ? rows.rows[i] : 0});
    });
    std::sort(sorted_.begin(), sorted_.end());
    const size_t count = sorted_.size();
    const Key middle = key_at(count / 2);
    size_t from = count / 2, to = count / 2 + 1;  // of the rows with the middle key
    while (from > 0 && key_at(from - 1) == middle) --from;
    while (to < count && key_at(to) == middle) ++to;
    const bool both = to - from > width_ / 2;
    size_t kept = count;
    if (to < count && (both || count - to > from)) {
      cut(at, least, static_cast<Key>(middle + 1), to, count);
      kept = to;
    }
    if (from > 0 && (both || count - to <= from)) {
      cut(at, least, middle, from, kept);
      kept = from;
    }
    llat_.clear(leaves_[at].first);
    leaves_[at].count = 0;
    fill(at, 0, kept);
  }

  Key key_at(size_t at) const { return Run<Key>::key(sorted_[at].first); }

  void fill(uint32_t at, size_t from, size_t to) {
    Leaf& leaf = leaves_[at];
    for (size_t i = from; i < to; ++i) llat_.append(leaf.last, {&sorted_[i].first, &sorted_[i].second, 1});
    leaf.count = static_cast<uint32_t>(to - from);
    if (from == to) return;
    leaf.min = key_at(from);
    leaf.max = key_at(to - 1);
  }

  // Cuts a leaf, in whose range `within` lies, at `separator`; the new one on the right gets sorted rows.
  void cut(uint32_t at, Key within, Key separator, size_t from, size_t to) {
    Cursor path(*this);
    path.find(within);
    const auto right = static_cast<uint32_t>(leaves_.size());
    const uint32_t entry = llat_.take();
    leaves_.push_back({entry, entry, 0, leaves_[at].next, leaves_[at].open, leaves_[at].high, 0, 0});
    leaves_[at].next = right;
    leaves_[at].open = false;
    leaves_[at].high = separator;
    fill(right, from, to);
    // The new leaf, then each new node, goes into the node above.
    uint32_t left = at, added = right;
    for (size_t level = depth_; level-- > 0;) {
      const uint32_t above = path.node(level);
      put(nodes_[above], separator, added);
      if (nodes_[above].children <= kFanOut) return;
      nodes_.emplace_back();
      Node &full = nodes_[above], &half = nodes_.back();
      const uint32_t stays = full.children / 2;
      half.children = full.children - stays;
      std::copy(full.child + stays, full.child + full.children, half.child);
      std::copy(full.separators + stays, full.separators + full.children - 1, half.separators);
      separator = full.separators[stays - 1];
      full.children = stays;
      left = above;
      added = static_cast<uint32_t>(nodes_.size() - 1);
    }
    nodes_.emplace_back();
    Node& root = nodes_.back();
    root.children = 2;
    root.child[0] = left;
    root.child[1] = added;
    root.separators[0] = separator;
    root_ = static_cast<uint32_t>(nodes_.size() - 1);
    ++depth_;
  }

  static void put(Node& node, Key separator, uint32_t child) {
    Key* const end = node.separators + node.children - 1;
    Key* const at = std::lower_bound(node.separators, end, separator);
    std::copy_backward(at, end, end + 1);
    *at = separator;
    uint32_t* const place = node.child + (at - node.separators) + 1;
    std::copy_backward(place, node.child + node.children, node.child + node.children + 1);
    *place = child;
    ++node.children;
  }

  const size_t width_;
  Llat<Key> llat_;
  std::vector<Leaf> leaves_;
  std::vector<Node> nodes_;
  uint32_t root_ = 0;  // a leaf where there is no node
  size_t depth_ = 0;   // levels of nodes
  size_t rows_ = 0, splits_ = 0, visits_ = 0;
  std::vector<std::pair<Word, Row>> sorted_;  // rows of the leaf that is split
};

}  // namespace muntin
