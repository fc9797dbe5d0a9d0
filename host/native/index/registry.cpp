#include "index/registry.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/engine.hpp"

namespace muntin {

// From the files that compile them.
template <class Key> Made<Key> make_sorted_runs(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_sorted_array(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_bisort(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_rap_table(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_wib_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_bplus_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_b_chain(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_ib_chain(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_im_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_pim_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_csb_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_burst_trie(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_radix_tree(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_judy(const IndexSpec&, const Making&);
template <class Key> Made<Key> make_slices(const IndexSpec&, const Making&);
Made<int32_t> make_time_keyed(const IndexSpec&, const Making&);

std::unique_ptr<Engine> share_bplus_tree(const Opening&);
std::unique_ptr<Engine> share_b_chain(const Opening&);
std::unique_ptr<Engine> share_ib_chain(const Opening&);
std::unique_ptr<Engine> share_im_tree(const Opening&);
std::unique_ptr<Engine> share_pim_tree(const Opening&);

namespace {

#ifdef MUNTIN_JUDY
constexpr bool kJudy = true;
constexpr MakeIndex<int32_t> kJudy32 = &make_judy<int32_t>;
constexpr MakeIndex<int64_t> kJudy64 = &make_judy<int64_t>;
#else
constexpr bool kJudy = false;
constexpr MakeIndex<int32_t> kJudy32 = nullptr;
constexpr MakeIndex<int64_t> kJudy64 = nullptr;
#endif

// The first one that an engine has is the one that joins take where they name none.
const IndexEntry kIndexes[] = {
    {.name = "auto", .cores_only = true},
    {.name = "nested_loop", .cores_only = true},
    {.name = "sorted_runs", .make_32 = &make_sorted_runs<int32_t>, .make_64 = &make_sorted_runs<int64_t>,
     .make_128 = &make_sorted_runs<Wide>, .ranges = true, .slice = true},
    {.name = "bisort", .make_32 = &make_bisort<int32_t>, .make_64 = &make_bisort<int64_t>, .ranges = true, .slice = true},
    {.name = "sorted_array", .make_32 = &make_sorted_array<int32_t>, .make_64 = &make_sorted_array<int64_t>,
     .make_128 = &make_sorted_array<Wide>, .slice = true},
    {.name = "pim_tree", .make_32 = &make_pim_tree<int32_t>, .make_64 = &make_pim_tree<int64_t>, .shared = &share_pim_tree,
     .slice = true},
    {.name = "im_tree", .make_32 = &make_im_tree<int32_t>, .make_64 = &make_im_tree<int64_t>, .shared = &share_im_tree,
     .slice = true},
    {.name = "bplus_tree", .make_32 = &make_bplus_tree<int32_t>, .make_64 = &make_bplus_tree<int64_t>,
     .shared = &share_bplus_tree, .slice = true, .ordered = true},
    {.name = "b_chain", .make_32 = &make_b_chain<int32_t>, .make_64 = &make_b_chain<int64_t>, .shared = &share_b_chain,
     .slice = true},
    {.name = "ib_chain", .make_32 = &make_ib_chain<int32_t>, .make_64 = &make_ib_chain<int64_t>, .shared = &share_ib_chain,
     .slice = true},
    {.name = "rap_table", .make_32 = &make_rap_table<int32_t>, .make_64 = &make_rap_table<int64_t>, .slice = true},
    {.name = "wib_tree", .make_32 = &make_wib_tree<int32_t>, .make_64 = &make_wib_tree<int64_t>, .slice = true},
    {.name = "spo_join", .conjunction = &open_spo},
    {.name = "csb_tree", .make_32 = &make_csb_tree<int32_t>, .make_64 = &make_csb_tree<int64_t>, .slice = true,
     .ordered = true},
    {.name = "burst_trie", .make_32 = &make_burst_trie<int32_t>, .make_64 = &make_burst_trie<int64_t>, .slice = true,
     .ordered = true},
    {.name = "radix_tree", .make_32 = &make_radix_tree<int32_t>, .make_64 = &make_radix_tree<int64_t>, .slice = true,
     .ordered = true},
    {.name = "slices", .make_32 = &make_slices<int32_t>, .make_64 = &make_slices<int64_t>},
    {.name = "judy", .make_32 = kJudy32, .make_64 = kJudy64, .slice = true, .ordered = true, .built = kJudy},
    {.name = "time_keyed", .make_32 = &make_time_keyed, .search_only = true},
};

}  // namespace

std::vector<std::string> IndexEntry::engines() const {
  std::vector<std::string> engines;
  const bool joins = make_64 != nullptr && !search_only;
  if (joins || conjunction) engines.push_back("steps");
  if (joins || cores_only) engines.push_back("splitjoin");
  if (shared) engines.push_back("shared");
  return engines;
}

std::vector<int> IndexEntry::key_bits() const {
  std::vector<int> bits;
  if (make_32) bits.push_back(32);
  if (make_64 || conjunction) bits.push_back(64);
  if (make_128) bits.push_back(128);
  return bits;
}

std::span<const IndexEntry> index_entries() { return kIndexes; }

const IndexEntry& index_entry(const std::string& name) {
  for (const IndexEntry& entry : kIndexes) {
    if (name == entry.name) return entry;
  }
  throw std::invalid_argument("there is no index " + name);
}

template <class Key>
Made<Key> make_index(const IndexSpec& spec, const Making& making) {
  const IndexEntry& entry = index_entry(spec.name);
  MakeIndex<Key> make;
  if constexpr (sizeof(Key) == 4) {
    make = entry.make_32;
  } else if constexpr (sizeof(Key) == 8) {
    make = entry.make_64;
  } else {
    make = entry.make_128;
  }
  if (make == nullptr) {
    throw std::invalid_argument("the index " + spec.name + " has no keys of " + std::to_string(8 * sizeof(Key)) + " bits" +
                                (entry.built ? "" : ": it is not in this build"));
  }
  return make(spec, making);
}
template Made<int32_t> make_index(const IndexSpec&, const Making&);
template Made<int64_t> make_index(const IndexSpec&, const Making&);
template Made<Wide> make_index(const IndexSpec&, const Making&);

}  // namespace muntin
