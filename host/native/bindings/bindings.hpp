// What each file of this folder adds to the module, and what they share.
#pragma once

#include <nanobind/nanobind.h>

namespace muntin {

// Lets a signal's handler run, at most every 20 ms on a thread; true if it raised.
bool poll_signals();

void bind_aggregate_window(nanobind::module_& m);
void bind_as_of(nanobind::module_& m);
void bind_gather(nanobind::module_& m);
void bind_numpy_memory(nanobind::module_& m);
void bind_range_index(nanobind::module_& m);

}  // namespace muntin
