// The indexes of this build by name: the one table of what there is and what each can do. Python asks it too.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/options.hpp"
#include "core/window_index.hpp"

namespace muntin {

class Engine;
struct Opening;

// For what an index is made, beside its own options.
struct Making {
  const KernelTable& kernels;
  size_t window_rows = 0;  // that may lie in its window; 0 for a time window
  int64_t time_width = 0;  // of a time window
  bool recording = false;  // what happens to its runs is kept, see NumberedRuns
  bool slice = false;      // of a window, which goes whole
  bool searched = false;   // by ranges of keys, for no join
};

template <class Key>
using Made = std::unique_ptr<WindowIndex<Key>>;
template <class Key>
using MakeIndex = Made<Key> (*)(const IndexSpec& spec, const Making& making);
using OpenEngine = std::unique_ptr<Engine> (*)(const Opening& opening);

struct IndexEntry {
  const char* name;
  // By the width of keys; null: it has none of that width, or is not in this build.
  MakeIndex<int32_t> make_32 = nullptr;
  MakeIndex<int64_t> make_64 = nullptr;
  MakeIndex<Wide> make_128 = nullptr;
  OpenEngine shared = nullptr;       // the engine of threads that share it
  OpenEngine conjunction = nullptr;  // an engine for this index alone, which indexes every condition
  bool ranges = false;        // results may be ranges of its runs
  bool slice = false;         // a slice may be one
  bool ordered = false;       // it is searched by ranges of keys, row by row
  bool search_only = false;   // no join takes it
  bool cores_only = false;    // join cores alone have it
  bool built = true;          // in this build

  // The engines that have it, by the names of users, and its widths of keys in bits.
  std::vector<std::string> engines() const;
  std::vector<int> key_bits() const;
};

std::span<const IndexEntry> index_entries();

// Throws where there is none of that name.
const IndexEntry& index_entry(const std::string& name);

// Throws where there is no such index, where it has no keys of this width, and where an option is out of its range.
template <class Key>
Made<Key> make_index(const IndexSpec& spec, const Making& making);

}  // namespace muntin
