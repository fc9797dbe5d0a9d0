// Rows of fixed-width columns by number, for host/engine/row_log.py, its one user.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "bindings/bindings.hpp"
#include "core/memory.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;

namespace muntin {
namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Places = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Values = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>>;

constexpr size_t kTask = 1 << 12;  // rows of a task
constexpr uint32_t kMissing = ~uint32_t{0};

struct Source {
  uint32_t block;
  uint32_t row;
};

// A value is copied as one load and one store where its width is that of a register.
template <size_t width>
void copy(const Source* from, size_t rows, const std::vector<const uint8_t*>& blocks, uint8_t* to) {
  for (size_t i = 0; i < rows; ++i, to += width) {
    if (from[i].block == kMissing) {
      std::memset(to, 0, width);
    } else {
      std::memcpy(to, blocks[from[i].block] + static_cast<size_t>(from[i].row) * width, width);
    }
  }
}

void copy(const Source* from, size_t rows, const std::vector<const uint8_t*>& blocks, size_t width, uint8_t* to) {
  switch (width) {
    case 1: return copy<1>(from, rows, blocks, to);
    case 2: return copy<2>(from, rows, blocks, to);
    case 4: return copy<4>(from, rows, blocks, to);
    case 8: return copy<8>(from, rows, blocks, to);
    case 16: return copy<16>(from, rows, blocks, to);
    case 32: return copy<32>(from, rows, blocks, to);
    default: break;
  }
  for (size_t i = 0; i < rows; ++i, to += width) {
    if (from[i].block == kMissing) {
      std::memset(to, 0, width);
    } else {
      std::memcpy(to, blocks[from[i].block] + from[i].row * width, width);
    }
  }
}

// As above, of rows of one block that begins at `begin`: false where values are no aligned words.
template <class T>
bool copy_of_one(const int64_t* places, size_t rows, int64_t begin, const uint8_t* block, uint8_t* to) {
  if (reinterpret_cast<uintptr_t>(block) % sizeof(T) != 0) return false;
  const T* const from = reinterpret_cast<const T*>(block);
  T* const out = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < rows; ++i) out[i] = from[places[i] - begin];
  return true;
}

std::vector<Values> gather(const std::vector<std::vector<Bytes>>& columns, const std::vector<size_t>& widths,
                           const std::vector<int64_t>& ends, const Places& places, int max_threads, int64_t start) {
  // `ends` says after which place each block ends; the first begins at `start`.
  if (widths.size() != columns.size()) throw nb::value_error("every column has a width");
  std::vector<std::vector<const uint8_t*>> data(columns.size());
  for (size_t column = 0; column < columns.size(); ++column) {
    if (columns[column].size() != ends.size()) throw nb::value_error("every block has all columns");
    for (size_t block = 0; block < ends.size(); ++block) {
      const int64_t rows = ends[block] - (block == 0 ? start : ends[block - 1]);
      if (rows < 0 || rows > kMissing || columns[column][block].size() != static_cast<size_t>(rows) * widths[column]) {
        throw nb::value_error("a block has as many values as rows");
      }
      data[column].push_back(columns[column][block].data());
    }
  }
  const size_t count = places.size();
  std::vector<Block> found;
  for (const size_t width : widths) found.emplace_back(std::max<size_t>(count * width, 1), Use::kResult);
  {
    const nb::gil_scoped_release release;
    run_tasks((count + kTask - 1) / kTask, max_threads, nullptr, [&](size_t task) {
      const size_t first = task * kTask, rows = std::min(count - first, kTask);
      const int64_t* const own = places.data() + first;
      int64_t least = own[0], greatest = own[0];
      for (size_t i = 1; i < rows; ++i) {
        least = std::min(least, own[i]);
        greatest = std::max(greatest, own[i]);
      }
      const auto block_of = [&](int64_t place) { return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin()); };
      std::vector<char> done(data.size());
      if (least >= start && least >= 0 && block_of(least) == block_of(greatest) && block_of(least) < ends.size()) {
        const size_t one = block_of(least);
        const int64_t begin = one == 0 ? start : ends[one - 1];
        for (size_t column = 0; column < data.size(); ++column) {
          uint8_t* const to = static_cast<uint8_t*>(found[column].data()) + first * widths[column];
          if (widths[column] == 8) done[column] = copy_of_one<uint64_t>(own, rows, begin, data[column][one], to);
          if (widths[column] == 4) done[column] = copy_of_one<uint32_t>(own, rows, begin, data[column][one], to);
        }
        if (std::all_of(done.begin(), done.end(), [](char each) { return each != 0; })) return;
      }
      Source from[kTask];
      size_t block = 0;
      int64_t begin = start, end = ends.empty() ? start : ends[0];
      for (size_t i = 0; i < rows; ++i) {
        const int64_t place = own[i];
        if (place < begin || place >= end || place < 0) {
          if (place < 0) {
            from[i] = {kMissing, 0};
            continue;
          }
          block = block_of(place);
          if (place < start || block == ends.size()) throw std::out_of_range("a row has a number before the first or past the end");
          begin = block == 0 ? start : ends[block - 1];
          end = ends[block];
        }
        from[i] = {static_cast<uint32_t>(block), static_cast<uint32_t>(place - begin)};
      }
      for (size_t column = 0; column < data.size(); ++column) {
        if (done[column]) continue;
        copy(from, rows, data[column], widths[column], static_cast<uint8_t*>(found[column].data()) + first * widths[column]);
      }
    });
  }
  std::vector<Values> given;
  for (size_t column = 0; column < found.size(); ++column) {
    auto* held = new Block(std::move(found[column]));
    const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Block*>(p); });
    given.emplace_back(static_cast<uint8_t*>(held->data()), std::initializer_list<size_t>{count * widths[column]}, owner);
  }
  return given;
}

}  // namespace

void bind_gather(nb::module_& m) {
  using namespace nb::literals;
  m.def("gather", &gather, "columns"_a, "widths"_a, "ends"_a, "places"_a, "threads"_a = 1 << 20, "start"_a = 0,
        "Values of the rows at some places, each column's as bytes: zeros for places below 0.");
}

}  // namespace muntin
