// Sorted runs, and one sorted array.
#include "engine/engine.hpp"
#include "index/sorted_array.hpp"
#include "index/sorted_runs.hpp"
#include "index/temporal_indexes.hpp"

namespace muntin {
namespace {

template <class Key>
std::unique_ptr<EngineBase> open_runs(const Opening& opening) {
  const RunPolicy policy{opening.parameter("flat", 0) != 0, opening.number("growth", 2, 8),
                         opening.number("base_rows", 1, 1024), opening.number("buffer_rows", 1, 1024),
                         opening.parameter("adaptive", 1) != 0};
  return make_engine<SortedRuns<Key>>(opening, [&](int side) {
    return std::make_unique<SortedRuns<Key>>(opening.kernels, policy, opening.window_rows(side), time_width(opening.settings),
                                             opening.parameter("recording", 0) != 0);
  });
}

template <class Key>
std::unique_ptr<EngineBase> open_array(const Opening& opening) {
  return make_engine<SortedArray<Key>>(opening, [&](int) { return std::make_unique<SortedArray<Key>>(opening.kernels); });
}

template <class Key>
std::unique_ptr<AnyIndex<Key>> make_runs(const Making& making) {
  const RunPolicy policy{false, making.number("growth", 2, 8), making.number("base_rows", 1, 1024), 1024, false};
  return std::make_unique<HeldIndex<SortedRuns<Key>>>(making.opening.kernels, policy, making.window_rows, making.time_width,
                                                  false);
}

template <class Key>
std::unique_ptr<AnyIndex<Key>> make_array(const Making& making) {
  return std::make_unique<HeldIndex<SortedArray<Key>>>(making.opening.kernels);
}

}  // namespace

template <class Key>
Makers<Key> sorted_makers() {
  return {{"sorted_runs", &make_runs<Key>}, {"sorted_array", &make_array<Key>}};
}
template Makers<int32_t> sorted_makers();
template Makers<int64_t> sorted_makers();

const std::vector<IndexKind> kSortedIndexes = {
    {"sorted_runs", &open_runs<int32_t>, &open_runs<int64_t>, &open_runs<Wide>},
    {"sorted_array", &open_array<int32_t>, &open_array<int64_t>, &open_array<Wide>},
};

}  // namespace muntin
