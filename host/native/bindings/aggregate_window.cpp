// Windows of aggregates as Python classes. Their one user is host/engine/aggregate_engine.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <tuple>

#include "bindings/bindings.hpp"
#include "engine/aggregate_window.hpp"

namespace nb = nanobind;

namespace muntin {
namespace {

template <class T>
using Given = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using GivenWide = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;  // the lower half first
template <class Key>
using GivenKeys = std::conditional_t<std::is_same_v<Key, Wide>, GivenWide, Given<Key>>;
using AnyGiven = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<Fold> folds_of(const std::vector<std::string>& names) {
  std::vector<Fold> folds;
  for (const std::string& name : names) {
    if (name == "sum") folds.push_back(Fold::kSum);
    else if (name == "add") folds.push_back(Fold::kAdd);
    else if (name == "least") folds.push_back(Fold::kLeast);
    else if (name == "least_wide") folds.push_back(Fold::kLeastWide);
    else if (name == "least_row") folds.push_back(Fold::kLeastRow);
    else if (name == "each") folds.push_back(Fold::kEach);
    else if (name == "moments") folds.push_back(Fold::kMoments);
    else if (name == "some") folds.push_back(Fold::kSome);
    else throw nb::value_error(("there is no fold " + name).c_str());
  }
  return folds;
}

// Numbers of a value.
size_t width_of(Fold fold) {
  return fold == Fold::kLeastRow || fold == Fold::kEach ? 3 : fold == Fold::kLeastWide ? 2 : 1;
}

// The values of each fold: float64 of sums of doubles, uint8 of `some`, else int64, of several the lower half first.
std::vector<const void*> checked(const std::vector<Fold>& folds, const std::vector<AnyGiven>& values, size_t count) {
  if (values.size() != folds.size()) throw nb::value_error("every fold has values");
  std::vector<const void*> data;
  for (size_t at = 0; at < folds.size(); ++at) {
    const Fold fold = folds[at];
    const bool number = fold == Fold::kAdd || fold == Fold::kMoments;
    const bool fits = number                ? values[at].dtype() == nb::dtype<double>()
                      : fold == Fold::kSome ? values[at].dtype() == nb::dtype<uint8_t>()
                                            : values[at].dtype() == nb::dtype<int64_t>();
    if (!fits) throw nb::type_error("values have the type of their fold");
    if (values[at].size() != count * width_of(fold)) throw nb::value_error("every row has a value");
    data.push_back(values[at].data());
  }
  return data;
}

template <class T>
nb::object owned(CallVector<T>&& values) {
  using Out = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<T, Moments>, double, int64_t>;
  auto* held = new CallVector<T>(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<CallVector<T>*>(p); });
  const size_t count = held->size() * sizeof(T) / sizeof(Out);
  return nb::cast(nb::ndarray<nb::numpy, Out, nb::ndim<1>>(reinterpret_cast<Out*>(held->data()), {count}, owner));
}

// Rows in the order of their places, those of a place in their own; and of each place where its rows begin, and the end.
std::pair<CallVector<int64_t>, CallVector<Ranked>> by_place(CallVector<std::pair<uint32_t, Ranked>>&& found,
                                                            size_t count) {
  CallVector<int64_t> starts(count + 1);
  for (const auto& [place, row] : found) ++starts[place + 1];
  for (size_t place = 0; place < count; ++place) starts[place + 1] += starts[place];
  CallVector<Ranked> rows(found.size());
  CallVector<int64_t> next(starts.begin(), starts.end());
  for (const auto& [place, row] : found) rows[next[place]++] = row;
  for (size_t place = 0; place < count; ++place) {
    std::sort(rows.begin() + starts[place], rows.begin() + starts[place + 1]);
  }
  return {std::move(starts), std::move(rows)};
}

// What accumulators hold: values of several numbers the lower half first; sums of doubles rounded once; every row as
// `by_place` has them, a pair of arrays.
nb::list results(std::vector<Accumulator>&& accumulators, size_t count) {
  nb::list out;
  for (Accumulator& held : accumulators) {
    switch (held.fold) {
      case Fold::kSum:
      case Fold::kLeastWide:
        out.append(owned(std::move(held.wide)));
        break;
      case Fold::kLeast:
      case Fold::kSome:
        out.append(owned(std::move(held.whole)));
        break;
      case Fold::kAdd:
        for (size_t at = 0; at < held.sum.size(); ++at) {
          if (std::isfinite(held.sum[at])) held.sum[at] += held.error[at];
        }
        out.append(owned(std::move(held.sum)));
        break;
      case Fold::kLeastRow:
        out.append(owned(std::move(held.ranked)));
        break;
      case Fold::kMoments:
        out.append(owned(std::move(held.moments)));
        break;
      case Fold::kEach:
        auto [starts, rows] = by_place(std::move(held.found), count);
        out.append(nb::make_tuple(owned(std::move(starts)), owned(std::move(rows))));
    }
  }
  return out;
}

template <class Key>
class PyAggregateWindow {
 public:
  using Keys = GivenKeys<Key>;
  using Interval = std::tuple<Given<uint32_t>, Keys, Keys>;

  PyAggregateWindow(const std::vector<std::string>& folds, int64_t window, int64_t width, bool several,
                    bool prevailing)
      : timed_(window == 0), window_(folds_of(folds), window, width, several, prevailing && window == 0) {}

  void stage(const Keys& given, const Given<int64_t>& rows, const std::optional<Given<int64_t>>& times,
             const std::vector<AnyGiven>& values, const Given<uint32_t>& order) {
    const size_t count = given.shape(0);
    const Key* keys = keys_of(given);
    if (rows.size() != count || order.size() != count || (times && times->size() != count)) {
      throw nb::value_error("rows, times and order have one value a key");
    }
    if (times.has_value() != timed_ && count > 0) throw nb::value_error("times come with rows of time windows");
    if (count >= std::numeric_limits<uint32_t>::max() / 2) throw nb::value_error("too many rows for one step");
    Key before = -kGreatest<Key> - 1;
    for (size_t at = 0; at < count; ++at) {
      const uint32_t place = order.data()[at];
      if (place >= count || loaded(keys, place) < before) throw nb::value_error("order is not that of the keys");
      before = loaded(keys, place);
    }
    const auto data = checked(window_.folds(), values, count);
    const nb::gil_scoped_release release;
    window_.stage(keys, rows.data(), times ? times->data() : nullptr, data, order.data(), count);
  }

  // Counts, and what `results` gives for each of the folds `which`, without it all; one value a probing row.
  nb::tuple probe(const std::vector<Interval>& intervals, const Given<int64_t>& first, const Given<int64_t>& last,
                  const std::optional<Given<int64_t>>& end, bool staged, int threads,
                  const std::optional<std::vector<uint32_t>>& given, bool prevailing, bool own) {
    const size_t count = first.size();
    if (last.size() != count || (end && end->size() != count)) throw nb::value_error("every probe has its limits");
    std::vector<AggregateProbes<Key>> probes;
    for (const auto& [places, lower, upper] : intervals) {
      if (lower.shape(0) != places.size() || upper.shape(0) != places.size()) throw nb::value_error("bounds come in pairs");
      std::vector<bool> seen(count);
      for (size_t at = 0; at < places.size(); ++at) {
        const uint32_t place = places.data()[at];
        if (place >= count || seen[place]) throw nb::value_error("a place is that of one probe");
        seen[place] = true;
      }
      probes.push_back({places.data(), keys_of(lower), keys_of(upper), places.size()});
    }
    CallVector<int64_t> counts(count);
    std::vector<Accumulator> into;
    std::vector<uint32_t> which(given ? given->size() : window_.folds().size());
    for (uint32_t at = 0; at < which.size(); ++at) {
      which[at] = given ? (*given)[at] : at;
      if (which[at] >= window_.folds().size()) throw nb::value_error("there is no such fold");
      into.emplace_back(window_.folds()[which[at]], count);
    }
    const AggregateScope scope{first.data(), last.data(), end ? end->data() : nullptr, staged, prevailing, own, count};
    bool interrupted = false;
    {
      const nb::gil_scoped_release release;
      try {
        window_.probe(probes, scope, which, threads, poll_signals, counts, into);
      } catch (const Interrupted&) {
        interrupted = true;
      }
    }
    if (interrupted) throw nb::python_error();
    return nb::make_tuple(owned(std::move(counts)), results(std::move(into), count));
  }

  void store() {
    const nb::gil_scoped_release release;
    window_.store();
  }

  bool timed_;
  AggregateWindow<Key> window_;

 private:
  static const Key* keys_of(const Keys& keys) { return reinterpret_cast<const Key*>(keys.data()); }
};

template <class Key>
void bind_window(nb::module_& m, const char* name, const char* doc) {
  using namespace nb::literals;
  using Window = PyAggregateWindow<Key>;
  nb::class_<Window>(m, name, doc)
      .def(nb::init<const std::vector<std::string>&, int64_t, int64_t, bool, bool>(), nb::kw_only(), "folds"_a, "window"_a,
           "width"_a, "several"_a = false, "prevailing"_a = false)
      .def("stage", &Window::stage, "keys"_a.noconvert(), "rows"_a.noconvert(), "times"_a.noconvert().none(),
           "values"_a.noconvert(), "order"_a.noconvert())
      .def("probe", &Window::probe, "intervals"_a.noconvert(), "first"_a.noconvert(), "last"_a.noconvert(), nb::kw_only(),
           "end"_a.noconvert() = nb::none(), "staged"_a = true, "threads"_a = 1 << 20,
           "which"_a = nb::none(), "prevailing"_a = false, "own"_a = true)
      .def("store", &Window::store)
      .def("expire", [](Window& self, int64_t before) { self.window_.expire(before); }, "before"_a)
      .def("purge", [](Window& self, int64_t before) { self.window_.purge(before); }, "before"_a)
      .def("oldest", [](const Window& self, int64_t none) { return self.window_.oldest(none); }, "none"_a)
      .def("held", [](const Window& self) {
             CallVector<int64_t> rows(self.window_.held_rows(), self.window_.held_rows() + self.window_.held());
             return owned(std::move(rows));
           })
      .def_prop_ro("rows", [](const Window& self) { return self.window_.rows(); })
      .def_prop_ro("runs", [](const Window& self) { return self.window_.runs(); })
      .def_prop_ro("bytes", [](const Window& self) { return self.window_.bytes(); });
}

// The same from pairs, added bit by bit.
class PyAggregateTotals {
 public:
  PyAggregateTotals(const std::vector<std::string>& folds, size_t count) : folds_(folds_of(folds)), counts_(count) {
    for (const Fold fold : folds_) into_.emplace_back(fold, count);
  }

  // `places` are those of probing rows, `values` those of the rows that they met.
  void add(const Given<int64_t>& places, const std::vector<AnyGiven>& values) {
    const auto data = checked(folds_, values, places.size());
    for (size_t at = 0; at < places.size(); ++at) {
      if (static_cast<uint64_t>(places.data()[at]) >= counts_.size()) throw nb::value_error("a place is that of a probe");
    }
    for (size_t at = 0; at < places.size(); ++at) ++counts_[places.data()[at]];
    for (size_t track = 0; track < folds_.size(); ++track) {
      Accumulator& into = into_[track];
      for (size_t at = 0; at < places.size(); ++at) {
        const auto place = static_cast<uint32_t>(places.data()[at]);
        switch (into.fold) {
          case Fold::kSum:
            into.wide[place] += static_cast<const int64_t*>(data[track])[at];
            break;
          case Fold::kSome:
            into.whole[place] += static_cast<const uint8_t*>(data[track])[at];
            break;
          case Fold::kAdd:
            fold_one<AddFold>(into, place, static_cast<const double*>(data[track])[at]);
            break;
          case Fold::kLeast:
            fold_one<LeastFold<int64_t>>(into, place, static_cast<const int64_t*>(data[track])[at]);
            break;
          case Fold::kLeastWide:
            fold_one<LeastFold<Wide>>(into, place, loaded(static_cast<const Wide*>(data[track]), at));
            break;
          case Fold::kLeastRow:
            fold_one<LeastFold<Ranked>>(into, place, loaded(static_cast<const Ranked*>(data[track]), at));
            break;
          case Fold::kMoments:
            fold_one<MomentsFold>(into, place, static_cast<const double*>(data[track])[at]);
            break;
          case Fold::kEach: {
            const Ranked row = loaded(static_cast<const Ranked*>(data[track]), at);
            if (row.row != kNothing<int64_t>) into.found.emplace_back(place, row);
          }
        }
      }
    }
  }

  // Counts, and what `results` gives for each fold. Nothing is left.
  nb::tuple take() {
    const size_t count = counts_.size();
    nb::list values = results(std::move(into_), count);
    return nb::make_tuple(owned(std::move(counts_)), values);
  }

 private:
  const std::vector<Fold> folds_;
  CallVector<int64_t> counts_;
  std::vector<Accumulator> into_;
};

}  // namespace

void bind_aggregate_window(nb::module_& m) {
  using namespace nb::literals;
  bind_window<int64_t>(m, "AggregateWindow", "One side's window, for aggregates over ranges. One call at a time.");
  bind_window<Wide>(m, "LongAggregateWindow", "The same with keys of 128 bits, as two words each, the lower half first.");
  nb::class_<PyAggregateTotals>(m, "AggregateTotals", "Aggregates of pairs, by the places of their probing rows.")
      .def(nb::init<const std::vector<std::string>&, size_t>(), "folds"_a, "count"_a)
      .def("add", &PyAggregateTotals::add, "places"_a.noconvert(), "values"_a.noconvert())
      .def("take", &PyAggregateTotals::take);
}

}  // namespace muntin
