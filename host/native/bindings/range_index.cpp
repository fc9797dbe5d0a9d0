// An index over one stream's time window with range search, as a Python class. Its one user is host/join/range_index.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "bindings/bindings.hpp"
#include "index/range_search.hpp"
#include "index/registry.hpp"

namespace nb = nanobind;

namespace muntin {
namespace {

template <class T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

Numbers numbers(std::vector<int64_t>&& values) {
  auto* held = new std::vector<int64_t>(std::move(values));
  const nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
  return Numbers(held->data(), {held->size()}, owner);
}

// Both widths of keys behind one class.
class RangeBase {
 public:
  virtual ~RangeBase() = default;
  virtual void fold(int64_t low, int64_t high, RangeTotals& totals, const std::string& way) const = 0;
  virtual bool visit(int64_t low, int64_t high, const std::function<bool(int64_t, int64_t)>& f) const = 0;
  virtual std::unique_ptr<RangeCursor<int64_t>> cursor(int64_t low, int64_t high, const std::string& way) const = 0;
};

template <class Key>
class Range final : public RangeBase {
 public:
  Range(const IndexSpec& spec, const Making& making) : index(make_index<Key>(spec, making)), search(index->range_search()) {
    if (search == nullptr) throw std::invalid_argument("the index " + spec.name + " is not searched by ranges of keys");
  }
  void fold(int64_t low, int64_t high, RangeTotals& totals, const std::string& way) const override {
    const auto [first, last] = std::pair(static_cast<Key>(low), static_cast<Key>(high));
    if (way == "mapper") {
      search->fold(first, last, totals);
      return;
    }
    const auto cursor = open(first, last, way);
    Key key;
    int64_t row;
    while (cursor->next(key, row)) totals.add(row);
  }
  bool visit(int64_t low, int64_t high, const std::function<bool(int64_t, int64_t)>& f) const override {
    return search->visit(static_cast<Key>(low), static_cast<Key>(high), [&](Key key, int64_t row) { return f(key, row); });
  }
  std::unique_ptr<RangeCursor<int64_t>> cursor(int64_t low, int64_t high, const std::string& way) const override {
    auto inner = open(static_cast<Key>(low), static_cast<Key>(high), way);
    if constexpr (sizeof(Key) == 8) {
      return inner;
    } else {
      return std::make_unique<Widened>(std::move(inner));
    }
  }

  const std::unique_ptr<WindowIndex<Key>> index;
  RangeSearch<Key>* const search;  // of the index

 private:
  class Widened final : public RangeCursor<int64_t> {
   public:
    explicit Widened(std::unique_ptr<RangeCursor<Key>> inner) : inner_(std::move(inner)) {}
    bool next(int64_t& key, int64_t& row) override {
      Key narrow;
      if (!inner_->next(narrow, row)) return false;
      key = narrow;
      return true;
    }

   private:
    std::unique_ptr<RangeCursor<Key>> inner_;
  };
  std::unique_ptr<RangeCursor<Key>> open(Key low, Key high, const std::string& way) const {
    if (way == "thread") return std::make_unique<ThreadCursor<Key>>(*search, low, high);
    if (way == "iterator") return search->cursor(low, high, Scan::kPlace);
    if (way == "root") return search->cursor(low, high, Scan::kRoot);
    throw std::invalid_argument("a range is read by mapper, iterator, root or thread");
  }
};

class PyRangeIndex {
 public:
  PyRangeIndex(int key_bits, const std::string& name, const Options::Map& parameters, int64_t span, int value) : kind_(value) {
    const IndexSpec spec = IndexSpec::parse(name, parameters);
    const Making making{.kernels = *choose_kernels(nullptr), .time_width = span, .searched = true};
    if (key_bits == 32) {
      narrow_ = std::make_unique<Range<int32_t>>(spec, making);
    } else {
      wide_ = std::make_unique<Range<int64_t>>(spec, making);
    }
    spec.check_read();
    sliced_ = spec.name == "slices";
  }

  template <class Key>
  void insert(const Array<Key>& keys, const Array<int64_t>& times, const std::optional<Array<int64_t>>& values) {
    Range<Key>& range = ranges<Key>();
    const size_t count = keys.size();
    if (times.size() != count || (values && values->size() != count) || values.has_value() != (kind_ > RangeTotals::kRows)) {
      throw nb::value_error("each row has a key, a time and, where the index holds values, a value");
    }
    const Turn turn(busy_);
    const nb::gil_scoped_release release;
    times_.put(nullptr, arrived_, times.data(), count);
    if (values) values_.put(nullptr, arrived_, values->data(), count);
    range.search->put(keys.data(), times.data(), count, arrived_);
    arrived_ += static_cast<int64_t>(count);
    settle(*range.index, count);
  }

  void expire(int64_t limit) {
    const Turn turn(busy_);
    const nb::gil_scoped_release release;
    if (narrow_) {
      drop(*narrow_->index, limit);
    } else {
      drop(*wide_->index, limit);
    }
    filtered_ = true;
    limit_ = std::max(limit_, limit);
  }

  template <class Key>
  Numbers find(const Array<Key>& keys, const std::optional<Array<int64_t>>& at) {
    if (at && at->size() != keys.size()) throw nb::value_error("each key has a time, or none has");
    std::vector<int64_t> rows(keys.size(), -1);
    {
      const Turn turn(busy_);
      const nb::gil_scoped_release release;
      ranges<Key>().search->find(keys.data(), keys.size(), rows.data(), at ? at->data() : nullptr, times_);
      for (int64_t& row : rows) {
        if (row >= 0 && sliced_ && filtered_ && times_.of(row) <= limit_) row = -1;
      }
    }
    return numbers(std::move(rows));
  }

  // Count; sum as two halves of 128 bits, least, greatest; the same in float64.
  nb::tuple fold(int64_t low, int64_t high, bool counting, std::optional<int64_t> after, const std::string& way) {
    RangeTotals totals{counting ? RangeTotals::kCount : static_cast<RangeTotals::Kind>(kind_)};
    totals.values = &values_;
    if (const auto limit = seen_after(after)) {
      totals.times = &times_;
      totals.after = *limit;
    }
    {
      const Turn turn(busy_);
      const nb::gil_scoped_release release;
      base().fold(low, high, totals, way);
    }
    return nb::make_tuple(totals.count, static_cast<int64_t>(totals.sum >> 64), static_cast<uint64_t>(totals.sum), totals.least,
                          totals.most, totals.real_sum, totals.real_least, totals.real_most);
  }

  bool visit(int64_t low, int64_t high, std::optional<int64_t> after, const nb::callable& f) {
    const Turn turn(busy_);
    const auto limit = seen_after(after);
    return base().visit(low, high, [&](int64_t key, int64_t row) {
      if (limit && times_.of(row) <= *limit) return true;
      return nb::cast<bool>(f(key, value(row)));
    });
  }

  size_t rows() const { return narrow_ ? narrow_->index->rows() : wide_->index->rows(); }
  size_t bytes() const { return narrow_ ? narrow_->index->bytes() : wide_->index->bytes(); }
  size_t row_bytes() const { return times_.bytes() + values_.bytes(); }
  Figures figures() {
    const Turn turn(busy_);
    return narrow_ ? narrow_->index->figures() : wide_->index->figures();
  }

  // Rows of later times than this are seen, where some that are stored may not be.
  std::optional<int64_t> seen_after(std::optional<int64_t> after) const {
    if (sliced_ && filtered_) after = std::max(after.value_or(limit_), limit_);
    return after;
  }

  // One call, or one iterator, at a time.
  struct Turn {
    explicit Turn(std::atomic<bool>& busy) : busy(busy) {
      if (busy.exchange(true)) throw std::runtime_error("this index is in the middle of a call, or of an iteration");
    }
    ~Turn() { busy.store(false); }
    std::atomic<bool>& busy;
  };

  RangeBase& base() const { return narrow_ ? static_cast<RangeBase&>(*narrow_) : *wide_; }
  int64_t value(int64_t row) const { return kind_ == RangeTotals::kRows ? row : values_.of(row); }
  int64_t time(int64_t row) const { return times_.of(row); }

  std::atomic<bool> busy_{false};

 private:
  template <class Key>
  Range<Key>& ranges() {
    Range<Key>* range;
    if constexpr (sizeof(Key) == 4) {
      range = narrow_.get();
    } else {
      range = wide_.get();
    }
    if (range == nullptr) throw nb::type_error("keys must have the width of the index's");
    return *range;
  }
  template <class Key>
  void drop(WindowIndex<Key>& index, int64_t limit) {
    if (sliced_) {
      index.expire_times(limit, times_);  // whole slices
    } else {
      index.purge(limit, times_);
    }
    const int64_t oldest = index.oldest(arrived_);
    times_.trim(oldest);
    values_.trim(oldest);
  }
  template <class Key>
  static void settle(WindowIndex<Key>& index, size_t count) {
    for (size_t pieces; (pieces = index.plan(std::max<size_t>(1 << 15, 16 * count))) > 0;) {
      for (size_t piece = 0; piece < pieces; ++piece) index.work(piece);
      index.settle();
    }
  }

  const int kind_;
  bool sliced_, filtered_ = false;
  int64_t limit_ = std::numeric_limits<int64_t>::min(), arrived_ = 0;
  Times times_, values_;
  std::unique_ptr<Range<int32_t>> narrow_;
  std::unique_ptr<Range<int64_t>> wide_;
};

// Reads a range in pieces. The index takes no other call until it has ended or is closed.
class PyCursor {
 public:
  PyCursor(PyRangeIndex& index, int64_t low, int64_t high, std::optional<int64_t> after, const std::string& way)
      : index_(index), turn_(std::in_place, index.busy_), after_(index.seen_after(after)) {
    cursor_ = index.base().cursor(low, high, way);
  }
  // Keys and values of the next rows, at most so many; none at the end.
  nb::tuple take(size_t most) {
    std::vector<int64_t> keys, values;
    if (cursor_ != nullptr) {
      const nb::gil_scoped_release release;
      int64_t key, row;
      while (keys.size() < most) {
        if (!cursor_->next(key, row)) {
          cursor_.reset();
          turn_.reset();
          break;
        }
        if (after_ && index_.time(row) <= *after_) continue;
        keys.push_back(key);
        values.push_back(index_.value(row));
      }
    }
    return nb::make_tuple(numbers(std::move(keys)), numbers(std::move(values)));
  }
  void close() {
    const nb::gil_scoped_release release;  // its thread may have to end
    cursor_.reset();
    turn_.reset();
  }

 private:
  PyRangeIndex& index_;
  std::optional<PyRangeIndex::Turn> turn_;
  const std::optional<int64_t> after_;
  std::unique_ptr<RangeCursor<int64_t>> cursor_;
};

}  // namespace

void bind_range_index(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<PyRangeIndex>(m, "RangeIndex", "An index over one stream's time window, with range search. One call at a time.")
      .def(nb::init<int, const std::string&, const Options::Map&, int64_t, int>(), nb::kw_only(),
           "key_bits"_a, "index"_a, "parameters"_a, "span"_a, "value"_a)
      .def("insert", &PyRangeIndex::insert<int32_t>, "keys"_a.noconvert(), "times"_a.noconvert(), "values"_a.noconvert() = nb::none())
      .def("insert", &PyRangeIndex::insert<int64_t>, "keys"_a.noconvert(), "times"_a.noconvert(), "values"_a.noconvert() = nb::none())
      .def("expire", &PyRangeIndex::expire, "limit"_a)
      .def("find", &PyRangeIndex::find<int32_t>, "keys"_a.noconvert(), "at"_a.noconvert() = nb::none())
      .def("find", &PyRangeIndex::find<int64_t>, "keys"_a.noconvert(), "at"_a.noconvert() = nb::none())
      .def("fold", &PyRangeIndex::fold, "low"_a, "high"_a, "counting"_a, "after"_a.none(), "way"_a)
      .def("visit", &PyRangeIndex::visit, "low"_a, "high"_a, "after"_a.none(), "f"_a)
      .def("figures", &PyRangeIndex::figures)
      .def_prop_ro("rows", &PyRangeIndex::rows)
      .def_prop_ro("bytes", &PyRangeIndex::bytes)
      .def_prop_ro("row_bytes", &PyRangeIndex::row_bytes);
  nb::class_<PyCursor>(m, "RangeCursor", "Reads a range of a RangeIndex in pieces.")
      .def(nb::init<PyRangeIndex&, int64_t, int64_t, std::optional<int64_t>, const std::string&>(), nb::keep_alive<1, 2>(),
           "index"_a, "low"_a, "high"_a, "after"_a.none(), "way"_a)
      .def("take", &PyCursor::take, "most"_a)
      .def("close", &PyCursor::close);
}

}  // namespace muntin
