// The partitioned temporal window index and what its paper compares in it: B-trees, CSB+-Tree, burst trie and Judy, and the
// adaptive radix tree.
#include "index/temporal_indexes.hpp"

#include "index/burst_trie.hpp"
#include "index/csb_tree.hpp"
#include "index/ordered_window.hpp"
#include "index/radix_tree.hpp"
#include "index/time_keyed.hpp"
#include "index/trees.hpp"
#ifdef MUNTIN_JUDY
#include "index/judy_array.hpp"
#endif

namespace muntin {
namespace {

template <class Tree>
std::unique_ptr<AnyIndex<typename Tree::Key>> make_tree(const Making& making) {
  typename OrderedWindow<Tree>::Make make;
  if constexpr (std::is_constructible_v<Tree, size_t>) {
    make = [rows = making.number("container_rows", 1, 64)] { return Tree(rows); };
  } else {
    make = [] { return Tree(); };
  }
  return std::make_unique<HeldIndex<OrderedWindow<Tree>>>(make, !making.slice, making.time_width);
}

// What a slice may be of this file's indexes.
template <class Key>
Makers<Key> temporal_makers() {
  return {
      {"csb_tree", &make_tree<CsbTree<Key>>},
      {"burst_trie", &make_tree<BurstTrie<Key>>},
      {"radix_tree", &make_tree<RadixTree<Key>>},
      {"bplus_tree", &make_tree<BPlusEntries<Key>>},
#ifdef MUNTIN_JUDY
      {"judy", &make_tree<JudyArray<Key>>},
#endif
  };
}

template <class Key>
MakeIndex<Key> make_of(const std::string& name) {
  for (const auto& makers : {temporal_makers<Key>(), sorted_makers<Key>(), panjoin_makers<Key>(), pim_makers<Key>()}) {
    for (const auto& [own, make] : makers) {
      if (name == own) return make;
    }
  }
  throw std::invalid_argument("slices are of no index " + name);
}

// `length`: of the window, in the unit of slices: rows, or time.
template <class Key>
std::unique_ptr<AnyIndex<Key>> make_slices(const Opening& opening, bool timed, Wide length) {
  constexpr size_t kSlices = 5;  // of a window, as in the paper, unless a stride is given
  constexpr Wide most = Wide{1} << 62;
  length = std::clamp<Wide>(length, 1, most);
  const auto otherwise = static_cast<size_t>((length + kSlices - 1) / kSlices);
  const auto stride = static_cast<int64_t>(opening.number("stride", 1, otherwise));
  const auto slots = static_cast<size_t>(std::min<Wide>(length / stride + 2, 1 << 12));
  // Numbers of a slice's rows lie within 2**32.
  const int64_t own = timed ? stride : std::min<int64_t>(stride, int64_t{1} << 31);
  const MakeIndex<Key> make = make_of<Key>(opening.of);
  const Making making{opening, "of.", true, timed ? stride : 0, timed ? 0 : static_cast<size_t>(own)};
  return std::make_unique<Slices<Key>>([make, making] { return make(making); }, timed, own, slots);
}

// An index behind one interface, for the engine.
template <class K>
class BoxedIndex {
 public:
  using Key = K;
  explicit BoxedIndex(std::unique_ptr<AnyIndex<Key>> index) : index_(std::move(index)) {}
  void insert(Run<Key>&& run, const Times& times = {}) { index_->insert(std::move(run), times); }
  void probe(const Probes& probes, const Scope& scope, Matches& matches) const { index_->probe(probes, scope, matches); }
  void expire_rows(int64_t before) { index_->expire_rows(before); }
  void expire_times(int64_t limit, const Times& times) { index_->expire_times(limit, times); }
  void purge(int64_t limit, const Times& times) { index_->purge(limit, times); }
  size_t plan(size_t budget) { return index_->plan(budget); }
  void work(size_t piece) { index_->work(piece); }
  void settle() { index_->settle(); }
  bool behind() const { return index_->behind(); }
  size_t rows() const { return index_->rows(); }
  size_t bytes() const { return index_->bytes(); }
  size_t runs() const { return index_->runs(); }
  int64_t oldest(int64_t none) const { return index_->oldest(none); }
  Figures figures() const { return index_->figures(); }

 private:
  std::unique_ptr<AnyIndex<Key>> index_;
};

template <class Key, class Make>
std::unique_ptr<EngineBase> open_boxed(const Opening& opening, const Make& make) {
  return make_engine<BoxedIndex<Key>>(opening, [&](int side) { return std::make_unique<BoxedIndex<Key>>(make(side)); });
}

template <class Tree>
std::unique_ptr<EngineBase> open_tree(const Opening& opening) {
  const Making making{opening, "", false, time_width(opening.settings), 0};
  return open_boxed<typename Tree::Key>(opening, [&](int) { return make_tree<Tree>(making); });
}

template <class Key>
std::unique_ptr<EngineBase> open_slices(const Opening& opening) {
  return open_boxed<Key>(opening, [&](int side) {
    const size_t rows = opening.window_rows(side);
    const Wide length = rows > 0 ? static_cast<Wide>(rows) : opening.settings.time_high - opening.settings.time_low;
    return make_slices<Key>(opening, rows == 0, length);
  });
}

}  // namespace

void free_later(std::unique_ptr<Freed> index, std::shared_ptr<std::atomic<int64_t>> waiting) {
  run_in_background([index = std::shared_ptr<Freed>(std::move(index)), waiting = std::move(waiting)]() mutable {
    index.reset();
    waiting->fetch_sub(1);
  });
}

template <class Key>
std::unique_ptr<AnyIndex<Key>> open_range_index(const std::string& name, const Opening& opening) {
  if (name == "slices") return make_slices<Key>(opening, true, time_width(opening.settings));
  if constexpr (sizeof(Key) == 4) {
    if (name == "time_keyed") {
      const Making within{opening, "of.", true, 0, 0};
      if (opening.of == "csb_tree") return std::make_unique<TimeKeyed<CsbTree<int64_t>>>(CsbTree<int64_t>());
      if (opening.of == "burst_trie") {
        return std::make_unique<TimeKeyed<BurstTrie<int64_t>>>(BurstTrie<int64_t>(within.number("container_rows", 1, 64)));
      }
      if (opening.of == "radix_tree") return std::make_unique<TimeKeyed<RadixTree<int64_t>>>(RadixTree<int64_t>());
      if (opening.of == "bplus_tree") return std::make_unique<TimeKeyed<BPlusEntries<int64_t>>>(BPlusEntries<int64_t>());
#ifdef MUNTIN_JUDY
      if (opening.of == "judy") return std::make_unique<TimeKeyed<JudyArray<int64_t>>>(JudyArray<int64_t>());
#endif
      throw std::invalid_argument("no ordered index " + opening.of + " for keys of time and key");
    }
  }
  return make_of<Key>(name)(Making{opening, "", false, time_width(opening.settings), 0});
}
template std::unique_ptr<AnyIndex<int32_t>> open_range_index(const std::string& name, const Opening& opening);
template std::unique_ptr<AnyIndex<int64_t>> open_range_index(const std::string& name, const Opening& opening);

const std::vector<IndexKind> kTemporalIndexes = {
    {"csb_tree", &open_tree<CsbTree<int32_t>>, &open_tree<CsbTree<int64_t>>},
    {"burst_trie", &open_tree<BurstTrie<int32_t>>, &open_tree<BurstTrie<int64_t>>},
    {"radix_tree", &open_tree<RadixTree<int32_t>>, &open_tree<RadixTree<int64_t>>},
#ifdef MUNTIN_JUDY
    {"judy", &open_tree<JudyArray<int32_t>>, &open_tree<JudyArray<int64_t>>},
#endif
    {"slices", &open_slices<int32_t>, &open_slices<int64_t>},
};

}  // namespace muntin
