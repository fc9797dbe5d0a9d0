// PIM-Tree, IM-Tree, a B+-Tree and chained indexes, for steps of many rows.
#include "pim_indexes.hpp"

namespace mullion {
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

}  // namespace

const std::vector<IndexKind> kPimIndexes = {
    {"bplus_tree", &open_bplus<int32_t>, &open_bplus<int64_t>},
    {"b_chain", &open_chain<int32_t, false>, &open_chain<int64_t, false>},
    {"ib_chain", &open_chain<int32_t, true>, &open_chain<int64_t, true>},
    {"im_tree", &open_pim<int32_t, false>, &open_pim<int64_t, false>},
    {"pim_tree", &open_pim<int32_t, true>, &open_pim<int64_t, true>},
};

}  // namespace mullion
