// Sorted runs, and one sorted array.
#include "engine.hpp"
#include "sorted_array.hpp"
#include "sorted_runs.hpp"

namespace mullion {
namespace {

template <class Key>
std::unique_ptr<EngineBase> open_runs(const Opening& opening) {
  const RunPolicy policy{opening.parameter("flat", 0) != 0, opening.number("growth", 2, 8),
                         opening.number("base_rows", 1, 1024), opening.number("buffer_rows", 1, 1024),
                         opening.parameter("adaptive", 1) != 0};
  const Settings& settings = opening.settings;
  const Wide width = std::clamp<Wide>(settings.time_high - settings.time_low, 0, std::numeric_limits<int64_t>::max());
  return make_engine<SortedRuns<Key>>(opening, [&](int side) {
    return std::make_unique<SortedRuns<Key>>(opening.kernels, policy, opening.window_rows(side), static_cast<int64_t>(width),
                                             opening.parameter("recording", 0) != 0);
  });
}

template <class Key>
std::unique_ptr<EngineBase> open_array(const Opening& opening) {
  return make_engine<SortedArray<Key>>(opening, [&](int) { return std::make_unique<SortedArray<Key>>(opening.kernels); });
}

}  // namespace

const std::vector<IndexKind> kSortedIndexes = {
    {"sorted_runs", &open_runs<int32_t>, &open_runs<int64_t>, &open_runs<Wide>},
    {"sorted_array", &open_array<int32_t>, &open_array<int64_t>, &open_array<Wide>},
};

}  // namespace mullion
