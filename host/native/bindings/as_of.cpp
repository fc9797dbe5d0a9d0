// The as-of join's state as a Python class. What each argument means stands in host/engine/as_of_engine.py, its one user.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>

#include <stdexcept>

#include "bindings/bindings.hpp"
#include "engine/as_of_scan.hpp"

namespace nb = nanobind;

namespace muntin {
namespace {

using Array = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

std::span<const int64_t> span(const Array& array) { return {array.data(), array.size()}; }

template <class Held>
Numbers given(Held&& values, size_t size) {
  auto* held = new Held(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Held*>(p); });
  return Numbers(held->data(), {size}, owner);
}

Numbers numbers(CallVector<int64_t>&& values) {
  const size_t size = values.size();
  return given(std::move(values), size);
}

Numbers numbers(AsOfNumbers&& values) {
  const size_t size = values.size;
  return given(std::move(values), size);
}

AsOfRule rule(const std::string& direction, bool exact, bool floats, std::optional<uint64_t> tolerance,
              std::optional<double> float_tolerance) {
  AsOfRule rule;
  rule.direction = direction == "backward" ? Direction::kBackward : direction == "forward" ? Direction::kForward : Direction::kNearest;
  rule.exact = exact;
  rule.floats = floats;
  rule.limited = floats ? float_tolerance.has_value() : tolerance.has_value();
  rule.tolerance = tolerance.value_or(0);
  rule.float_tolerance = float_tolerance.value_or(0);
  return rule;
}

// An as-of join's state, whichever it is.
struct AsOf {
  std::unique_ptr<AsOfState> state;
};

// Words or none, times, and slots or the first of them.
using Rows = std::tuple<std::optional<Array>, Array, std::variant<int64_t, Array>>;

AsOfRows rows(const Rows& given) {
  const auto& [words, times, slots] = given;
  AsOfRows rows;
  rows.times = span(times);
  rows.grouped = words.has_value();
  if (words) {
    if (words->size() != times.size()) throw nb::value_error("every row has a word");
    rows.words = span(*words);
  }
  if (const int64_t* first = std::get_if<int64_t>(&slots)) {
    rows.first = *first;
  } else {
    const Array& listed = std::get<Array>(slots);
    if (listed.size() != times.size()) throw nb::value_error("every row has a slot");
    rows.slots = listed.data();
  }
  return rows;
}

std::pair<Numbers, Numbers> step(AsOf& self, const Rows& left, const Rows& right, std::optional<int64_t> watermark,
                                 std::optional<int64_t> useless, bool all, bool matched, int threads) {
  const AsOfRows new_left = rows(left), new_right = rows(right);
  AsOfNumbers lefts, rights;
  {
    const nb::gil_scoped_release release;
    self.state->step(new_left, new_right, watermark, useless, all, matched, threads, lefts, rights);
  }
  return {numbers(std::move(lefts)), numbers(std::move(rights))};
}

int64_t oldest(AsOf& self, bool right) {
  int64_t least = std::numeric_limits<int64_t>::max();
  self.state->each_slot(right, [&](int64_t& slot) { least = std::min(least, slot); });
  return least;
}

Numbers slots(AsOf& self, bool right, int64_t first, int64_t end) {
  if (end < first) throw nb::value_error("slots end after the first of them");
  CallVector<char> held(static_cast<size_t>(end - first));
  self.state->each_slot(right, [&](int64_t& slot) {
    if (slot < first || slot >= end) throw std::out_of_range("a row has a slot beyond these");
    held[static_cast<size_t>(slot - first)] = 1;
  });
  CallVector<int64_t> found;
  for (size_t at = 0; at < held.size(); ++at) {
    if (held[at]) found.push_back(first + static_cast<int64_t>(at));
  }
  return numbers(std::move(found));
}

void renumber(AsOf& self, bool right, int64_t first, const Array& to) {
  const std::span<const int64_t> values = span(to);
  self.state->each_slot(right, [&](int64_t& slot) {
    if (slot < first || static_cast<size_t>(slot - first) >= values.size()) throw std::out_of_range("a row has no number");
    slot = values[static_cast<size_t>(slot - first)];
  });
}

}  // namespace

void bind_as_of(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<AsOf>(m, "AsOf", "The state of an as-of join. One call at a time.")
      .def("__init__", [](AsOf* self, const std::string& direction, bool exact, bool floats, std::optional<uint64_t> tolerance,
                          std::optional<double> float_tolerance, bool grouped, bool scan) {
        const AsOfRule given = rule(direction, exact, floats, tolerance, float_tolerance);
        if (scan && given.direction != Direction::kBackward) throw nb::value_error("a scan looks back");
        std::unique_ptr<AsOfState> state;
        if (scan) {
          state = std::make_unique<AsOfScan>(given, grouped);
        } else {
          state = std::make_unique<AsOfSearch>(given);
        }
        new (self) AsOf{std::move(state)};
      }, "direction"_a, nb::kw_only(), "exact"_a, "floats"_a, "tolerance"_a = nb::none(), "float_tolerance"_a = nb::none(), "grouped"_a = true,
           "scan"_a = false)
      .def("step", &step, "left"_a, "right"_a, nb::kw_only(), "watermark"_a.none(), "useless"_a.none(), "all"_a = false, "matched"_a = false,
           "threads"_a = 1 << 20)
      .def("oldest", &oldest, "right"_a)
      .def("slots", &slots, "right"_a, "first"_a, "end"_a)
      .def("renumber", &renumber, "right"_a, "first"_a, "numbers"_a)
      .def("words", [](const AsOf& self) { return numbers(self.state->words()); })
      .def("rows", [](const AsOf& self, bool right) { return right ? self.state->right_rows() : self.state->left_rows(); }, "right"_a)
      .def_prop_ro("groups", [](const AsOf& self) { return self.state->groups(); })
      .def_prop_ro("bytes", [](const AsOf& self) { return self.state->bytes(); });
}

}  // namespace muntin
