// What opens the indexes of the family: for a join, and for a range index of its own.
#pragma once

#include <nanobind/nanobind.h>

#include "engine.hpp"
#include "slices.hpp"

namespace mullion {

// An index over a time window that nothing joins. `name`: as users give it, "slices/csb_tree" for nested ones.
template <class Key>
std::unique_ptr<AnyIndex<Key>> open_range_index(const std::string& name, const Opening& opening);

void bind_range_index(nanobind::module_& m);

}  // namespace mullion
