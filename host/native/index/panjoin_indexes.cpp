// PanJoin's structures: RaP-Table, WiB+-Tree and BI-Sort, in a chain of subwindows.
#include "index/bi_sort.hpp"
#include "engine/engine.hpp"
#include "index/rap_table.hpp"
#include "index/subwindow_chain.hpp"
#include "index/temporal_indexes.hpp"
#include "index/wib_tree.hpp"

namespace muntin {
namespace {

// Parameters of each structure.
template <class Key>
typename RapTable<Key>::Options options_of(const Making& making, const RapTable<Key>*) {
  const double sigma = making.opening.parameter(making.prefix + "sigma", 1.25);
  if (!(sigma > 1 && sigma <= 16)) throw std::invalid_argument("sigma is more than 1, and at most 16");
  return {making.number("partitions", 0, 0), sigma};
}

template <class Key>
typename WibTree<Key>::Options options_of(const Making& making, const WibTree<Key>*) {
  return {std::min<size_t>(making.number("leaf_rows", 2, 128), 1 << 20)};
}

template <class Key>
typename BiSortArray<Key>::Options options_of(const Making& making, const BiSortArray<Key>*) {
  const size_t buffer_rows = std::min<size_t>(making.number("buffer_rows", 1, 1024), size_t{1} << 30);
  return {&making.opening.kernels, buffer_rows, making.number("partitions", 0, 0)};
}

template <class Structure>
typename SubwindowChain<Structure>::Options chain_options(const Making& making) {
  return {options_of(making, static_cast<const Structure*>(nullptr)), making.number("subwindow_rows", 0, 0),
          making.number("late_rows", 0, 64)};
}

template <class Structure>
std::unique_ptr<EngineBase> open_chain(const Opening& opening) {
  using Chain = SubwindowChain<Structure>;
  const int64_t width = time_width(opening.settings);
  const auto options = chain_options<Structure>(Making{opening, "", false, width, 0});
  return make_engine<Chain>(opening, [&](int side) {
    return std::make_unique<Chain>(opening.kernels, options, opening.window_rows(side), width);
  });
}

template <class Structure>
std::unique_ptr<AnyIndex<typename Structure::Key>> make_chain(const Making& making) {
  return std::make_unique<HeldIndex<SubwindowChain<Structure>>>(making.opening.kernels, chain_options<Structure>(making),
                                                             making.window_rows, making.time_width);
}

}  // namespace

template <class Key>
Makers<Key> panjoin_makers() {
  return {
      {"bisort", &make_chain<BiSortArray<Key>>},
      {"rap_table", &make_chain<RapTable<Key>>},
      {"wib_tree", &make_chain<WibTree<Key>>},
  };
}
template Makers<int32_t> panjoin_makers();
template Makers<int64_t> panjoin_makers();

const std::vector<IndexKind> kPanJoinIndexes = {
    {"rap_table", &open_chain<RapTable<int32_t>>, &open_chain<RapTable<int64_t>>},
    {"wib_tree", &open_chain<WibTree<int32_t>>, &open_chain<WibTree<int64_t>>},
    {"bisort", &open_chain<BiSortArray<int32_t>>, &open_chain<BiSortArray<int64_t>>},
};

}  // namespace muntin
