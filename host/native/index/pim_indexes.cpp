// PIM-Tree, IM-Tree, a B+-Tree and chained indexes, for steps of many rows.
#include "index/pim_indexes.hpp"

#include "index/temporal_indexes.hpp"

namespace muntin {
namespace {

template <class Key>
std::unique_ptr<EngineBase> open_bplus(const Opening& opening) {
  return make_engine<BPlusIndex<Key>>(opening, [](int) { return std::make_unique<BPlusIndex<Key>>(); });
}

template <class Key, bool kImmutable>
std::unique_ptr<EngineBase> open_chain(const Opening& opening) {
  return make_engine<ChainIndex<Key>>(opening, [&](int side) { return make_chain<Key>(opening, side, kImmutable); });
}

template <class Key, bool kPartitioned>
std::unique_ptr<EngineBase> open_pim(const Opening& opening) {
  return make_engine<PimIndex<Key>>(opening, [&](int side) { return make_pim<Key>(opening, side, kPartitioned); });
}

template <class Key, bool kImmutable>
std::unique_ptr<AnyIndex<Key>> hold_chain(const Making& making) {
  return std::make_unique<HeldIndex<ChainIndex<Key>>>(making.number("length", 2, 2), making.window_rows, making.time_width,
                                                   kImmutable);
}

template <class Key, bool kPartitioned>
std::unique_ptr<AnyIndex<Key>> hold_pim(const Making& making) {
  const double ratio = making.opening.parameter(making.prefix + "merge_ratio", 0.125);
  if (!(ratio > 0 && ratio <= 1)) throw std::invalid_argument("merge_ratio is more than 0 and at most 1");
  const size_t depth = kPartitioned ? making.number("insertion_depth", 1, 2) : 0;
  return std::make_unique<HeldIndex<PimIndex<Key>>>(depth, ratio, making.window_rows);
}

}  // namespace

template <class Key>
Makers<Key> pim_makers() {
  return {
      {"b_chain", &hold_chain<Key, false>},
      {"ib_chain", &hold_chain<Key, true>},
      {"im_tree", &hold_pim<Key, false>},
      {"pim_tree", &hold_pim<Key, true>},
  };
}
template Makers<int32_t> pim_makers();
template Makers<int64_t> pim_makers();

const std::vector<IndexKind> kPimIndexes = {
    {"bplus_tree", &open_bplus<int32_t>, &open_bplus<int64_t>},
    {"b_chain", &open_chain<int32_t, false>, &open_chain<int64_t, false>},
    {"ib_chain", &open_chain<int32_t, true>, &open_chain<int64_t, true>},
    {"im_tree", &open_pim<int32_t, false>, &open_pim<int64_t, false>},
    {"pim_tree", &open_pim<int32_t, true>, &open_pim<int64_t, true>},
};

}  // namespace muntin
