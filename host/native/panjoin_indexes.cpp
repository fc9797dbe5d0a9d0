// PanJoin's structures: RaP-Table, WiB+-Tree and BI-Sort, in a chain of subwindows.
#include "bi_sort.hpp"
#include "engine.hpp"
#include "rap_table.hpp"
#include "subwindow_chain.hpp"
#include "wib_tree.hpp"

namespace mullion {
namespace {

template <class Structure>
std::unique_ptr<EngineBase> open_chain(const Opening& opening, const typename Structure::Options& structure) {
  using Chain = SubwindowChain<Structure>;
  const typename Chain::Options options{structure, opening.number("subwindow_rows", 0, 0), opening.number("late_rows", 0, 64)};
  const Settings& settings = opening.settings;
  const Wide width = std::clamp<Wide>(settings.time_high - settings.time_low, 0, std::numeric_limits<int64_t>::max());
  return make_engine<Chain>(opening, [&](int side) {
    return std::make_unique<Chain>(opening.kernels, options, opening.window_rows(side), static_cast<int64_t>(width));
  });
}

template <class Key>
std::unique_ptr<EngineBase> open_rap(const Opening& opening) {
  const double sigma = opening.parameter("sigma", 1.25);
  if (!(sigma > 1 && sigma <= 16)) throw std::invalid_argument("sigma is more than 1, and at most 16");
  return open_chain<RapTable<Key>>(opening, {opening.number("partitions", 0, 0), sigma});
}

template <class Key>
std::unique_ptr<EngineBase> open_wib(const Opening& opening) {
  return open_chain<WibTree<Key>>(opening, {std::min<size_t>(opening.number("leaf_rows", 2, 128), 1 << 20)});
}

template <class Key>
std::unique_ptr<EngineBase> open_bi_sort(const Opening& opening) {
  const size_t buffer_rows = std::min<size_t>(opening.number("buffer_rows", 1, 1024), size_t{1} << 30);
  return open_chain<BiSortArray<Key>>(opening, {&opening.kernels, buffer_rows, opening.number("partitions", 0, 0)});
}

}  // namespace

const std::vector<IndexKind> kPanJoinIndexes = {
    {"rap_table", &open_rap<int32_t>, &open_rap<int64_t>},
    {"wib_tree", &open_wib<int32_t>, &open_wib<int64_t>},
    {"bisort", &open_bi_sort<int32_t>, &open_bi_sort<int64_t>},
};

}  // namespace mullion
