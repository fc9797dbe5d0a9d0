// PanJoin's structures: RaP-Table, WiB+-Tree and BI-Sort, in a chain of subwindows.
#include "index/bi_sort.hpp"
#include "index/rap_table.hpp"
#include "index/registry.hpp"
#include "index/sorted_runs.hpp"
#include "index/subwindow_chain.hpp"
#include "index/wib_tree.hpp"

namespace muntin {
namespace {

template <class Structure>
Made<typename Structure::Key> make_chain(const typename Structure::Options& structure, const Options& options,
                                         const Making& making) {
  const typename SubwindowChain<Structure>::Options chain{structure, options.whole("subwindow_rows", 0, 0),
                                                          options.whole("late_rows", 0, 64)};
  return std::make_unique<SubwindowChain<Structure>>(making.kernels, chain, making.window_rows, making.time_width);
}

}  // namespace

template <class Key>
Made<Key> make_rap_table(const IndexSpec& spec, const Making& making) {
  const Options& options = spec.options;
  return make_chain<RapTable<Key>>({options.whole("partitions", 0, 0), options.real("sigma", 1, 16, 1.25)}, options, making);
}
template Made<int32_t> make_rap_table(const IndexSpec&, const Making&);
template Made<int64_t> make_rap_table(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_wib_tree(const IndexSpec& spec, const Making& making) {
  const size_t leaf_rows = std::min<size_t>(spec.options.whole("leaf_rows", 2, 128), 1 << 20);
  return make_chain<WibTree<Key>>({leaf_rows}, spec.options, making);
}
template Made<int32_t> make_wib_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_wib_tree(const IndexSpec&, const Making&);

// Where its runs are to be followed, the main array and the buffer of each subwindow are runs of one policy.
template <class Key>
Made<Key> make_bisort(const IndexSpec& spec, const Making& making) {
  const Options& options = spec.options;
  const size_t buffer_rows = options.whole("buffer_rows", 1, 1024);
  if (making.recording) {
    const RunPolicy policy{.flat = true, .buffer_rows = buffer_rows,
                           .subwindow_rows = options.whole("subwindow_rows", 0, 0)};
    return std::make_unique<SortedRuns<Key>>(making.kernels, policy, making.window_rows, making.time_width, true);
  }
  return make_chain<BiSortArray<Key>>(
      {&making.kernels, std::min<size_t>(buffer_rows, size_t{1} << 30), options.whole("partitions", 0, 0)}, options, making);
}
template Made<int32_t> make_bisort(const IndexSpec&, const Making&);
template Made<int64_t> make_bisort(const IndexSpec&, const Making&);

}  // namespace muntin
