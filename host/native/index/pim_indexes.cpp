// PIM-Tree, IM-Tree, a B+-Tree and chained indexes.
#include "index/pim_indexes.hpp"

#include "index/ordered_window.hpp"

namespace muntin {

template <class Key>
Made<Key> make_bplus_tree(const IndexSpec&, const Making& making) {
  if (making.slice || making.searched) {
    using Entries = BPlusEntries<Key>;
    return std::make_unique<OrderedWindow<Entries>>([] { return Entries(); }, !making.slice, making.time_width);
  }
  return std::make_unique<BPlusIndex<Key>>();
}
template Made<int32_t> make_bplus_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_bplus_tree(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_b_chain(const IndexSpec& spec, const Making& making) {
  return make_chain<Key>(spec.options, making, false);
}
template Made<int32_t> make_b_chain(const IndexSpec&, const Making&);
template Made<int64_t> make_b_chain(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_ib_chain(const IndexSpec& spec, const Making& making) {
  return make_chain<Key>(spec.options, making, true);
}
template Made<int32_t> make_ib_chain(const IndexSpec&, const Making&);
template Made<int64_t> make_ib_chain(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_im_tree(const IndexSpec& spec, const Making& making) {
  return make_pim<Key>(spec.options, making, false);
}
template Made<int32_t> make_im_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_im_tree(const IndexSpec&, const Making&);

template <class Key>
Made<Key> make_pim_tree(const IndexSpec& spec, const Making& making) {
  return make_pim<Key>(spec.options, making, true);
}
template Made<int32_t> make_pim_tree(const IndexSpec&, const Making&);
template Made<int64_t> make_pim_tree(const IndexSpec&, const Making&);

}  // namespace muntin
