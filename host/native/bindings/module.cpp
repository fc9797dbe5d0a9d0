// The core as a Python module. What each argument means stands in host/engine/native_engine.py, its one user.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>

#include "bindings/bindings.hpp"
#include "engine/engine.hpp"
#include "index/registry.hpp"

namespace nb = nanobind;

namespace muntin {

bool poll_signals() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point last{};
  const auto now = Clock::now();
  if (now - last < std::chrono::milliseconds(20)) return false;
  last = now;
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

using Long = std::pair<int64_t, uint64_t>;  // an integer of 128 bits: its upper and its lower half

// Beyond 2**100 no bound on keys or times differs from another, and sums of them do not overflow.
Wide wide(const Long& value) {
  constexpr Wide far = Wide{1} << 100;
  return std::clamp((static_cast<Wide>(value.first) << 64) | value.second, -far, far);
}

thread_local const std::atomic<bool>* stopped = nullptr;  // of the engine that this thread's call runs in

// True if a signal's handler raised, or if another thread ends the call.
bool poll() { return (stopped != nullptr && stopped->load(std::memory_order_relaxed)) || poll_signals(); }

// Keys of one width. Those of 128 bits are rows of two words, the lower half first.
using WideKeys = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
template <class Keys>
constexpr size_t kKeyBytes = std::is_same_v<Keys, WideKeys> ? sizeof(Wide) : sizeof(typename Keys::Scalar);
template <class Keys>
using Bounds = std::vector<std::pair<Keys, Keys>>;

// Keys of further conditions, with bounds where they come with the rows.
template <class Keys>
using Others = std::vector<std::pair<Keys, std::optional<Bounds<Keys>>>>;

// Rows of one side for a step, with the arrays they lie in.
struct PyInput {
  Input input{};
  std::vector<nb::object> held;

  template <class T>
  auto hold(const T& array, size_t count, const char* what) {
    if (array.shape(0) != count) throw nb::value_error((std::string(what) + " must have one value a row").c_str());
    if (kKeyBytes<T> == sizeof(Wide) && reinterpret_cast<uintptr_t>(array.data()) % alignof(Wide) != 0) {
      throw nb::value_error((std::string(what) + " of 128 bits must be aligned to 16 bytes").c_str());
    }
    held.push_back(nb::cast(array));
    return array.data();
  }

  template <class Keys>
  PyInput(const Keys& keys, const std::optional<Array<int64_t>>& rows, int64_t first_row,
          const std::optional<Array<int64_t>>& other_position, int64_t same_other_position,
          const std::optional<Array<int64_t>>& times,
          const std::optional<Bounds<Keys>>& bounds, const Others<Keys>& others,
          const std::optional<Array<uint32_t>>& order)
      : key_bytes(kKeyBytes<Keys>) {
    const size_t count = keys.shape(0);
    if (count >= std::numeric_limits<uint32_t>::max()) throw nb::value_error("too many rows for one step");
    input.keys = hold(keys, count, "keys");
    if constexpr (kKeyBytes<Keys> == sizeof(Wide)) {
      constexpr Wide most = Wide{1} << 98;  // sums of keys and bounds do not overflow
      const auto* all = static_cast<const Wide*>(input.keys);
      if (!std::all_of(all, all + count, [](Wide key) { return -most <= key && key <= most; })) {
        throw nb::value_error("keys of 128 bits must lie within 2**98 of 0");
      }
    }
    input.count = count;
    input.rows = rows ? hold(*rows, count, "rows") : nullptr;
    bool ascending = first_row >= 0 && first_row <= std::numeric_limits<int64_t>::max() - static_cast<int64_t>(count);
    for (size_t i = 1; input.rows && i < count; ++i) ascending &= input.rows[i - 1] < input.rows[i];
    if (!ascending) throw nb::value_error("rows must be ascending arrival numbers");
    if (same_other_position < 0) throw nb::value_error("other_position must be arrival numbers from 0 on");
    if (input.rows && count > 0 && static_cast<uint64_t>(input.rows[count - 1]) - input.rows[0] > std::numeric_limits<Row>::max()) {
      throw nb::value_error("rows of one step must lie within 2**32 arrival numbers");
    }
    input.first_row = first_row;
    input.other_position = other_position ? hold(*other_position, count, "other_position") : nullptr;
    input.same_other_position = same_other_position;
    input.times = times ? hold(*times, count, "times") : nullptr;
    input.order = order ? hold(*order, count, "order") : nullptr;
    input.bounded = bounds.has_value();
    if (bounds) {
      for (const auto& [lower, upper] : *bounds) {
        input.bounds.emplace_back(hold(lower, count, "bounds"), hold(upper, count, "bounds"));
      }
    }
    for (const auto& [other, ends] : others) {
      OtherKeys& held_keys = input.others.emplace_back(OtherKeys{hold(other, count, "keys"), {}, ends.has_value()});
      if (!ends) continue;
      for (const auto& [lower, upper] : *ends) {
        held_keys.bounds.emplace_back(hold(lower, count, "bounds"), hold(upper, count, "bounds"));
      }
    }
  }

  size_t key_bytes;
};

using Numbers = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

Numbers numbers(int64_t* data, size_t count, nb::handle owner) { return Numbers(data, {count}, owner); }

nb::capsule own(Block&& block) {
  auto* held = new Block(std::move(block));
  return nb::capsule(held, [](void* p) noexcept { delete static_cast<Block*>(p); });
}

class PyEngine {
 public:
  PyEngine(size_t key_bytes, std::unique_ptr<Engine> engine, bool timed)
      : key_bytes_(key_bytes), timed_(timed), engine(std::move(engine)) {}

  // For each side (probing, stored); with `whole` left and right rows of all pairs in one piece, those that left rows
  // found first; with `ranges` (true: empty ones too) four numbers for each range of each side; without `probing` none:
  // rows are stored alone; with `counting` the numbers of pairs of each row of each side. With `storing` those rows of
  // each side are stored, and met, and `left` and `right` but probe. Of a step with more than `most` pairs, None and the numbers
  // of pairs of each row of each side; nothing has changed then.
  nb::tuple step(const PyInput& left, const PyInput& right, bool counting, bool whole, bool probing, int threads,
                 const std::optional<bool>& ranges, const PyInput* stored_left, const PyInput* stored_right,
                 uint64_t most) {
    const Want want = !probing   ? Want::kNothing
                      : ranges   ? (*ranges ? Want::kAllRanges : Want::kRanges)
                      : counting ? Want::kCounts
                                 : Want::kPairs;
    const Turn turn(busy_);
    const bool apart = stored_left != nullptr;
    if (apart != (stored_right != nullptr)) throw nb::value_error("stored rows are given for both sides, or for none");
    for (const PyInput* input : {&left, &right, apart ? stored_left : &left, apart ? stored_right : &right}) {
      if (input->key_bytes != key_bytes_) throw nb::type_error("keys must have the width of the engine's");
      if (input->input.count > 0 && (input->input.times != nullptr) != timed_) {
        throw nb::type_error("times come with rows of time windows, and no others");
      }
    }
    const StepRequest request{.probes = {&left.input, &right.input},
                              .stores = {apart ? &stored_left->input : &left.input, apart ? &stored_right->input : &right.input},
                              .want = want, .threads = threads, .poll = poll, .max_pairs = most};
    Result result;
    bool interrupted = false;
    {
      const nb::gil_scoped_release release;
      const auto* const outer = std::exchange(stopped, &stop_);  // a signal's handler may call another engine
      try {
        result = engine->step(request);
      } catch (const Interrupted&) {
        interrupted = true;
      } catch (...) {
        stopped = outer;
        throw;
      }
      stopped = outer;
    }
    if (interrupted && stop_.load() && !PyErr_Occurred()) throw std::runtime_error("this call was broken off");
    if (interrupted) throw nb::python_error();
    if (counting || ranges || result.refused) {
      nb::object sides[2];
      for (int side = 0; side < 2; ++side) {
        auto* held = new CallVector<int64_t>(std::move((ranges ? result.ranges : result.counts)[side]));
        const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<CallVector<int64_t>*>(p); });
        sides[side] = nb::cast(numbers(held->data(), held->size(), owner));
      }
      return result.refused ? nb::make_tuple(nb::none(), sides[0], sides[1]) : nb::make_tuple(sides[0], sides[1]);
    }
    auto* left_rows = static_cast<int64_t*>(result.left.data());
    auto* right_rows = static_cast<int64_t*>(result.right.data());
    const nb::capsule left_owner = own(std::move(result.left)), right_owner = own(std::move(result.right));
    const auto [by_left, by_right] = pairs = {result.pairs[0], result.pairs[1]};
    if (whole) {
      return nb::make_tuple(numbers(left_rows, by_left + by_right, left_owner),
                            numbers(right_rows, by_left + by_right, right_owner));
    }
    return nb::make_tuple(nb::make_tuple(numbers(left_rows, by_left, left_owner),
                                         numbers(right_rows, by_left, right_owner)),
                          nb::make_tuple(numbers(right_rows + by_left, by_right, right_owner),
                                         numbers(left_rows + by_left, by_right, left_owner)));
  }

 private:
  size_t key_bytes_;
  bool timed_;

 public:
  // A call under way. A second one, from another thread or a signal's handler, would break the first.
  struct Turn {
    explicit Turn(std::atomic<bool>& busy) : busy(busy) {
      if (busy.exchange(true)) throw std::runtime_error("this engine is in the middle of a call");
    }
    ~Turn() { busy.store(false); }
    std::atomic<bool>& busy;
  };

  // Ends a call under way, from another thread; the engine takes no other one.
  void stop() { stop_.store(true); }

  // The engine, for a call on one side.
  Engine& of(int side) const {
    if (side != 0 && side != 1) throw nb::index_error("a side is 0 or 1");
    return *engine;
  }

  std::unique_ptr<Engine> engine;
  std::pair<size_t, size_t> pairs;  // of the last step that gave any, as `Result::pairs`
  std::atomic<bool> busy_{false}, stop_{false};
};

const KernelTable& kernels(const std::optional<std::string>& isa) {
  const KernelTable* table = choose_kernels(isa ? isa->c_str() : nullptr);
  if (table == nullptr) throw nb::value_error(("this processor, or this build, has no instruction set " + *isa).c_str());
  return *table;
}

using Bands = std::vector<std::pair<Long, Long>>;

Condition condition(const Bands& bands) {
  Condition condition;
  for (const auto& [low, high] : bands) condition.bands.push_back({wide(low), wide(high)});
  return condition;
}

// The engine of this name over an index.
std::unique_ptr<Engine> open(const std::string& engine, const Opening& opening) {
  const IndexEntry& entry = index_entry(opening.index.name);
  const std::vector<std::string> engines = entry.engines();
  if (engine != "steps" && engine != "shared" && engine != "splitjoin") throw nb::value_error(("there is no engine " + engine).c_str());
  if (std::find(engines.begin(), engines.end(), engine) == engines.end()) {
    throw nb::value_error(("there is no index " + opening.index.name + " for the engine " + engine).c_str());
  }
  if (opening.key_bytes == 16 && (engine != "steps" || entry.make_128 == nullptr)) {
    throw nb::value_error(("the index " + opening.index.name + " has no keys of 128 bits for the engine " + engine).c_str());
  }
  if (engine == "shared") return entry.shared(opening);
  if (engine == "splitjoin") return open_split_join(opening);
  return entry.conjunction ? entry.conjunction(opening) : open_batched(opening);
}

std::unique_ptr<PyEngine> open_engine(int key_bits, const std::string& index, std::pair<int64_t, int64_t> window,
                                      std::optional<std::pair<Long, Long>> within, const Bands& bands, bool self_join,
                                      const std::vector<Bands>& others, const Options::Map& parameters,
                                      const std::optional<std::string>& isa, const std::string& engine,
                                      const Options::Map& options, bool recording) {
  Window both{{window.first, window.second}, 0, 0, self_join};
  if (within) {
    both.low = wide(within->first);
    both.high = wide(within->second);
    if (window.first != 0 || window.second != 0) throw nb::value_error("a window has rows or a time, not both");
  } else if (window.first < 1 || window.second < 1) {
    throw nb::value_error("a count window has at least one row");
  }
  if (key_bits != 32 && key_bits != 64 && key_bits != 128) throw nb::value_error("keys have 32, 64 or 128 bits");
  Opening opening{.kernels = kernels(isa), .key_bytes = static_cast<size_t>(key_bits / 8), .window = both,
                  .condition = condition(bands), .others = {}, .index = IndexSpec::parse(index, parameters),
                  .options = Options(options), .recording = recording};
  for (const Bands& other : others) opening.others.push_back(condition(other));
  std::unique_ptr<Engine> opened = open(engine, opening);
  opening.index.check_read();
  opening.options.check_read("the engine " + engine);
  return std::make_unique<PyEngine>(opening.key_bytes, std::move(opened), within.has_value());
}

}  // namespace
}  // namespace muntin

NB_MODULE(_core, m) {
  using namespace muntin;
  using namespace nb::literals;
  m.doc() = "The native core: sorted runs, probed and merged.";

  nb::class_<PyInput> type(m, "Input", "Rows of one side for a step, in order of arrival.");
  const auto takes = [&type]<class Keys>(std::type_identity<Keys>) {
    type.def(nb::init<const Keys&, const std::optional<Array<int64_t>>&, int64_t, const std::optional<Array<int64_t>>&,
                      int64_t, const std::optional<Array<int64_t>>&, const std::optional<Bounds<Keys>>&, const Others<Keys>&,
                      const std::optional<Array<uint32_t>>&>(),
             "keys"_a.noconvert(), "rows"_a.noconvert() = nb::none(), "first_row"_a = 0, "other_position"_a.noconvert() = nb::none(),
             "same_other_position"_a = 0, "times"_a.noconvert() = nb::none(), "bounds"_a.noconvert() = nb::none(),
             "others"_a.noconvert() = Others<Keys>(), "order"_a.noconvert() = nb::none());
  };
  takes(std::type_identity<Array<int32_t>>());
  takes(std::type_identity<Array<int64_t>>());
  takes(std::type_identity<WideKeys>());

  m.def("indexes", [] {
    nb::list entries;
    for (const IndexEntry& entry : index_entries()) {
      nb::dict fields;
      fields["name"] = entry.name;
      fields["engines"] = nb::tuple(nb::cast(entry.engines()));
      fields["key_bits"] = nb::tuple(nb::cast(entry.key_bits()));
      fields["ranges"] = entry.ranges;
      fields["slice"] = entry.slice;
      fields["ordered"] = entry.ordered;
      fields["built"] = entry.built;
      entries.append(fields);
    }
    return entries;
  }, nb::sig("def indexes() -> list[dict[str, typing.Any]]"), "All indexes: what `muntin.host.native.CoreIndex` is made of.");

  nb::exception<TooManyPairs>(m, "TooManyPairs", PyExc_MemoryError);
  nb::class_<PyEngine>(m, "Engine", "Both windows of one join. One call at a time.")
      .def(nb::new_(&open_engine), nb::kw_only(), "key_bits"_a, "index"_a, "window"_a = std::pair<int64_t, int64_t>(0, 0),
           "within"_a = nb::none(), "bands"_a = Bands(), "self_join"_a = false, "others"_a = std::vector<Bands>(),
           "parameters"_a = Options::Map(), "isa"_a = nb::none(), "engine"_a = "steps", "options"_a = Options::Map(),
           "recording"_a = false)
      .def("step", &PyEngine::step, "left"_a, "right"_a, nb::kw_only(), "counting"_a = false, "whole"_a = false,
           "probing"_a = true, "threads"_a = 1 << 20, "ranges"_a = nb::none(), "stored_left"_a = nb::none(),
           "stored_right"_a = nb::none(), "most"_a = kAnyPairs)
      .def("stop", &PyEngine::stop)
      .def("expire_times", [](PyEngine& self, int side, int64_t limit) { const PyEngine::Turn turn(self.busy_); self.of(side).expire_times(side, limit); }, "side"_a, "limit"_a)
      .def("purge", [](PyEngine& self, int side, int64_t limit) { const PyEngine::Turn turn(self.busy_); self.of(side).purge(side, limit); }, "side"_a, "limit"_a)
      .def("arrived", [](PyEngine& self, int side, int64_t rows) { const PyEngine::Turn turn(self.busy_); self.of(side).arrived(side, rows); }, "side"_a, "rows"_a)
      .def("take_events", [](PyEngine& self, int side) { const PyEngine::Turn turn(self.busy_); return self.of(side).take_events(side); }, "side"_a)
      .def("rows", [](const PyEngine& self, int side) { return self.of(side).rows(side); }, "side"_a)
      .def("runs", [](const PyEngine& self, int side) { return self.of(side).runs(side); }, "side"_a)
      .def("oldest", [](const PyEngine& self, int side, int64_t none) { return self.of(side).oldest(side, none); }, "side"_a, "none"_a)
      .def("figures", [](PyEngine& self, int side) {
        if (self.busy_.load()) return Figures();  // a signal's handler asks, in the middle of a call
        const PyEngine::Turn turn(self.busy_);
        return self.of(side).figures(side);
      }, "side"_a)
      .def("report", [](PyEngine& self, bool reset) {
        if (self.busy_.load()) return Figures();
        const PyEngine::Turn turn(self.busy_);
        return self.engine->report(reset);
      }, "reset"_a = false)
      .def("failures", [](PyEngine& self) {
        std::vector<std::tuple<size_t, std::string, size_t, size_t>> failures;
        for (const Failure& f : self.engine->failures()) failures.emplace_back(f.core, f.why, f.lost[0], f.lost[1]);
        return failures;
      })
      .def("hold_merges", [](PyEngine& self, int point) { self.engine->hold_merges(point); }, "point"_a,
           "For tests: merges in the background wait where they begin (1), or once they are done (2), until this is 0.")
      .def("inject_fault", [](PyEngine& self, size_t core, int64_t rows) {
        const PyEngine::Turn turn(self.busy_);
        self.engine->inject_fault(core, rows);
      }, "core"_a, "rows"_a)
      .def_prop_ro("applied", [](const PyEngine& self) { return self.engine->applied; })
      .def_prop_ro("pairs", [](const PyEngine& self) { return self.pairs; },
                   "Pairs of the last step that gave any: those that left rows found, and those that right rows found.")
      .def_prop_ro("bytes", [](const PyEngine& self) { return self.engine->bytes(); })
      .def_prop_ro("probed_runs", [](const PyEngine& self) { return self.engine->probed_runs; })
      .def_prop_ro("seconds", [](const PyEngine& self) {
        const double* s = self.engine->seconds;
        return std::make_tuple(s[0], s[1], s[2], s[3]);
      });

  bind_range_index(m);
  bind_as_of(m);
  bind_aggregate_window(m);
  bind_gather(m);
  bind_numpy_memory(m);
  m.def("set_threads", [](int count) {
    if (count < 1) throw nb::value_error("there is at least one thread");
    const nb::gil_scoped_release release;
    set_threads(count);
  }, "threads"_a, "Sizes the process's pool of threads, the caller's own included.");
  m.def("threads", &threads, "Threads of the pool, the caller's own included.");
  m.def("isa", [](const std::optional<std::string>& isa) { return std::string(kernels(isa).name); }, "isa"_a = nb::none(),
        "The instruction set that is used, the best of this processor by default.");
  m.def("memory", [] { const MemoryUse use = memory_use(); return std::make_pair(use.used, use.kept); },
        "Bytes of large blocks in use, and of free ones that are kept.");
  m.def("give_back", [](double idle) {
    if (!(idle >= 0 && idle <= 1e9)) throw nb::value_error("idle is a number of seconds from 0 on");
    const nb::gil_scoped_release release;
    give_back_idle(idle);
  }, "idle"_a, "Gives back the pages of large blocks that have been free for so many seconds.");
}
