// The partitioned temporal window index and what its paper compares in it: B-trees, CSB+-Tree, burst trie and Judy, and the
// adaptive radix tree.
#include "index/burst_trie.hpp"
#include "index/csb_tree.hpp"
#include "index/ordered_window.hpp"
#include "index/radix_tree.hpp"
#include "index/registry.hpp"
#include "index/slices.hpp"
#include "index/time_keyed.hpp"
#include "index/trees.hpp"
#ifdef MUNTIN_JUDY
#include "index/judy_array.hpp"
#endif

namespace muntin {
namespace {

template <class Tree, class... Arguments>
Made<typename Tree::Key> make_tree(const Making& making, Arguments... arguments) {
  return std::make_unique<OrderedWindow<Tree>>([=] { return Tree(arguments...); }, !making.slice, making.time_width);
}

size_t container_rows(const Options& options) { return options.whole("container_rows", 1, 64); }

// The index within another one.
const IndexSpec& inner(const IndexSpec& spec) {
  if (spec.of == nullptr) throw std::invalid_argument("the index " + spec.name + " needs another one inside");
  return *spec.of;
}

}  // namespace

template <class Key>
Made<Key> make_csb_tree(const IndexSpec&, const Making& making) {
  return make_tree<CsbTree<Key>>(making);
}
template Made<int32_t> make_csb_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_csb_tree(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_burst_trie(const IndexSpec& spec, const Making& making) {
  return make_tree<BurstTrie<Key>>(making, container_rows(spec.options));
}
template Made<int32_t> make_burst_trie(const IndexSpec&, const Making&);
template Made<int64_t> make_burst_trie(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_radix_tree(const IndexSpec&, const Making& making) {
  return make_tree<RadixTree<Key>>(making);
}
template Made<int32_t> make_radix_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_radix_tree(const IndexSpec&, const Making&);

#ifdef MUNTIN_JUDY
template <class Key>
Made<Key> make_judy(const IndexSpec&, const Making& making) {
  return make_tree<JudyArray<Key>>(making);
}
template Made<int32_t> make_judy(const IndexSpec&, const Making&);
template Made<int64_t> make_judy(const IndexSpec&, const Making&);
#endif

template <class Key>
Made<Key> make_slices(const IndexSpec& spec, const Making& making) {
  constexpr int64_t kSlices = 5;  // of a window, as in the paper, unless a stride is given
  if (!index_entry(inner(spec).name).slice) throw std::invalid_argument("there are no slices of the index " + spec.of->name);
  const bool timed = making.window_rows == 0;
  const int64_t window = timed ? making.time_width : static_cast<int64_t>(making.window_rows);
  const int64_t length = std::clamp<int64_t>(window, 1, int64_t{1} << 62);
  const auto stride = static_cast<int64_t>(spec.options.whole("stride", 1, (length + kSlices - 1) / kSlices));
  const auto slots = static_cast<size_t>(std::min<int64_t>(length / stride + 2, 1 << 12));
  // Numbers of a slice's rows lie within 2**32.
  const int64_t own = timed ? stride : std::min<int64_t>(stride, int64_t{1} << 31);
  const Making slice{.kernels = making.kernels, .window_rows = timed ? 0 : static_cast<size_t>(own),
                     .time_width = timed ? stride : 0, .slice = true};
  return std::make_unique<Slices<Key>>([of = spec.of, slice] { return make_index<Key>(*of, slice); }, timed, own, slots);
}
template Made<int32_t> make_slices(const IndexSpec&, const Making&);
template Made<int64_t> make_slices(const IndexSpec&, const Making&);

Made<int32_t> make_time_keyed(const IndexSpec& spec, const Making&) {
  const std::string& of = inner(spec).name;
  if (of == "csb_tree") return std::make_unique<TimeKeyed<CsbTree<int64_t>>>(CsbTree<int64_t>());
  if (of == "burst_trie") return std::make_unique<TimeKeyed<BurstTrie<int64_t>>>(BurstTrie<int64_t>(container_rows(spec.of->options)));
  if (of == "radix_tree") return std::make_unique<TimeKeyed<RadixTree<int64_t>>>(RadixTree<int64_t>());
  if (of == "bplus_tree") return std::make_unique<TimeKeyed<BPlusEntries<int64_t>>>(BPlusEntries<int64_t>());
#ifdef MUNTIN_JUDY
  if (of == "judy") return std::make_unique<TimeKeyed<JudyArray<int64_t>>>(JudyArray<int64_t>());
#endif
  throw std::invalid_argument("no ordered index " + of + " for keys of time and key");
}

}  // namespace muntin
