// What opens the indexes of the family: for a join, and for a range index of its own.
#pragma once

#include "engine/engine.hpp"
#include "index/slices.hpp"

namespace muntin {

// The length of a time window.
inline int64_t time_width(const Settings& settings) {
  return static_cast<int64_t>(std::clamp<Wide>(settings.time_high - settings.time_low, 0, std::numeric_limits<int64_t>::max()));
}

// How an index is made, as a whole window or as a slice of one, from parameters whose names begin with `prefix`.
struct Making {
  Opening opening;
  std::string prefix;
  bool slice;
  int64_t time_width;
  size_t window_rows;

  size_t number(const char* name, size_t least, size_t otherwise) const {
    return opening.number(prefix + name, least, otherwise);
  }
};

template <class Key>
using MakeIndex = std::unique_ptr<AnyIndex<Key>> (*)(const Making& making);

template <class Key>
using Makers = std::vector<std::pair<const char*, MakeIndex<Key>>>;

// What a slice may be beside the indexes of the paper: each family's, from the file that compiles it.
template <class Key>
Makers<Key> sorted_makers();
template <class Key>
Makers<Key> panjoin_makers();
template <class Key>
Makers<Key> pim_makers();

// An index over a time window that nothing joins. `name`: as users give it, "slices/csb_tree" for nested ones.
template <class Key>
std::unique_ptr<AnyIndex<Key>> open_range_index(const std::string& name, const Opening& opening);

}  // namespace muntin
