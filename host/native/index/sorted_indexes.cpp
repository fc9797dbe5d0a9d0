// Sorted runs, and one sorted array.
#include "index/registry.hpp"
#include "index/sorted_array.hpp"
#include "index/sorted_runs.hpp"

namespace muntin {

template <class Key>
Made<Key> make_sorted_runs(const IndexSpec& spec, const Making& making) {
  const Options& options = spec.options;
  const RunPolicy policy{.flat = options.flag("flat", false), .growth = options.whole("growth", 2, 8),
                         .base_rows = options.whole("base_rows", 1, 1024), .buffer_rows = options.whole("buffer_rows", 1, 1024),
                         .adaptive = options.flag("adaptive", true) && !making.slice};
  return std::make_unique<SortedRuns<Key>>(making.kernels, policy, making.window_rows, making.time_width, making.recording);
}
template Made<int32_t> make_sorted_runs(const IndexSpec&, const Making&);
template Made<int64_t> make_sorted_runs(const IndexSpec&, const Making&);
template Made<Wide> make_sorted_runs(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_sorted_array(const IndexSpec&, const Making&) {
  return std::make_unique<SortedArray<Key>>();
}
template Made<int32_t> make_sorted_array(const IndexSpec&, const Making&);
template Made<int64_t> make_sorted_array(const IndexSpec&, const Making&);
template Made<Wide> make_sorted_array(const IndexSpec&, const Making&);

}  // namespace muntin
