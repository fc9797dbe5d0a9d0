// BI-Sort: a subwindow's rows in a sorted main array with an index array, and the newest in an unsorted insertion buffer.
//
// Source: PanJoin, section III-D; III-E for batches, III-F for bounds, III-G.3 for threads.
#pragma once

#include "index/llat.hpp"

namespace muntin {

template <class K>
class BiSortArray {
 public:
  using Key = K;

  struct Options {
    const KernelTable* kernels;
    size_t buffer_rows;
    size_t partitions;  // entries of the index array; 0: one for each 64 rows
  };
  struct Learned {};  // nothing: all rows are sorted
  Learned learned() const { return {}; }

  BiSortArray(const Options& options, size_t capacity, const Learned*)
      : options_(options),
        step_(options.partitions ? std::max<size_t>((capacity + options.partitions - 1) / options.partitions, 1) : 64) {}

  // A batch of at least the buffer's size goes into the main array, another one into the buffer.
  void insert(const RowSpan<Key>& rows) {
    flush();
    if (rows.count >= options_.buffer_rows) {
      begin(rows);
      return;
    }
    for (size_t from = 0; from < rows.count;) {
      const size_t to = std::min(rows.count, from + options_.buffer_rows - words_.size());
      words_.insert(words_.end(), rows.words + from, rows.words + to);
      if constexpr (Run<Key>::kRows) rows_.insert(rows_.end(), rows.rows + from, rows.rows + to);
      from = to;
      if (words_.size() == options_.buffer_rows) {
        flush();
        sort_buffer();
        begin({sorted_.words(), sorted_.rows(), sorted_.length()});
      }
    }
  }

  // Ends the last merge: no more rows come.
  void close() {
    flush();
    if (words_.empty()) return;
    sort_buffer();
    begin({sorted_.words(), sorted_.rows(), sorted_.length()});
    flush();
  }

  // Pieces of a merge, each between two diagonals.
  size_t plan() {
    const size_t length = merging_ ? out_.length() : 0;
    return length < kFewRows ? (flush(), 0) : (length + kPieceRows - 1) / kPieceRows;
  }
  void work(size_t piece) { merge(piece * kPieceRows, std::min((piece + 1) * kPieceRows, out_.length())); }
  void stored() {
    if (merging_) end();
  }
  void flush() {
    if (!merging_) return;
    merge(0, out_.length());
    end();
  }

  // For ascending probes, the ranges of the main array between their bounds; each entry is looked at once, as bounds and
  // entries are walked along together, but for the partitions that the index array lets it leave out.
  size_t search(const Probes& probes, Found* out) const {
    const Word* const words = main_.words();
    const size_t length = main_.length();
    size_t low = 0, high = 0, low_at = 0, high_at = 0, some = 0;
    for (size_t i = 0; i < probes.count && length > 0; ++i) {
      const Key lower = Run<Key>::key(probes.lower[i]), upper = Run<Key>::key(probes.upper[i]);
      low_at = rebound(low_at, [lower](Key key) { return key < lower; });
      low = std::max(low, low_at > 0 ? (low_at - 1) * step_ : 0);
      while (low < length && words[low] < probes.lower[i]) ++low;
      high_at = rebound(high_at, [upper](Key key) { return key <= upper; });
      high = std::max({high, low, high_at > 0 ? (high_at - 1) * step_ : 0});
      while (high < length && words[high] <= probes.upper[i]) ++high;
      if (high > low) {
        out[some++] = {probes.places[i], static_cast<uint32_t>(low), static_cast<uint32_t>(high - low)};
      }
    }
    return some;
  }
  RowSpan<Key> main() const { return {main_.words(), main_.rows(), main_.length()}; }
  RowSpan<Key> buffer() const { return {words_.data(), Run<Key>::kRows ? rows_.data() : nullptr, words_.size()}; }

  template <class Take>
  void each(const Take& take) const {
    if (main_.length() > 0) take(main());
    if (!words_.empty()) take(buffer());
  }

  size_t rows() const { return main_.length() + (merging_ ? in_.count : 0) + words_.size(); }
  size_t bytes() const {
    return main_.bytes() + out_.bytes() + sorted_.bytes() + index_.capacity() * sizeof(Key) +
           words_.capacity() * sizeof(Word) + rows_.capacity() * sizeof(Row);
  }
  double error() const { return 0; }
  void tell(Figures& figures) const {
    figures["main"] = static_cast<int64_t>(main_.length());
    figures["buffer"] = static_cast<int64_t>(words_.size());
    figures["partitions"] = static_cast<int64_t>(index_.size());
    figures["merges"] = static_cast<int64_t>(merges_);
  }

 private:
  static constexpr size_t kFewRows = 1 << 15;  // that are merged at once

  // How many entries of the index array, of those that ascend, satisfy a test; from a place before which all do.
  template <class Test>
  size_t rebound(size_t from, const Test& test) const {
    size_t step = 1, low = from;
    while (low + step <= index_.size() && test(index_[low + step - 1])) {
      low += step;
      step *= 2;
    }
    size_t high = std::min(low + step - 1, index_.size());
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (test(index_[middle])) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  void sort_buffer() {
    std::vector<std::pair<Word, Row>> both(words_.size());
    for (size_t i = 0; i < both.size(); ++i) both[i] = {words_[i], Run<Key>::kRows ? rows_[i] : 0};
    std::sort(both.begin(), both.end());
    sorted_ = Run<Key>(both.size(), {});
    for (size_t i = 0; i < both.size(); ++i) {
      sorted_.words()[i] = both[i].first;
      if constexpr (Run<Key>::kRows) sorted_.rows()[i] = both[i].second;
    }
    words_.clear();
    rows_.clear();
  }

  void begin(const RowSpan<Key>& rows) {
    in_ = rows;
    out_ = Run<Key>(main_.length() + rows.count, {});
    merging_ = true;
  }
  size_t split(size_t diagonal) const {
    size_t low = diagonal > in_.count ? diagonal - in_.count : 0, high = std::min(diagonal, main_.length());
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (main_.words()[middle] <= in_.words[diagonal - 1 - middle]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
  void merge(size_t from, size_t to) {
    const size_t a = split(from), a_end = split(to), b = from - a, b_end = to - a_end;
    constexpr bool rows = Run<Key>::kRows;
    options_.kernels->merge({main_.words() + a, in_.words + b, rows ? main_.rows() + a : nullptr,
                             rows ? in_.rows + b : nullptr, a_end - a, b_end - b, out_.words() + from,
                             rows ? out_.rows() + from : nullptr});
  }
  void end() {
    main_ = std::move(out_);
    out_ = Run<Key>();
    sorted_ = Run<Key>();
    merging_ = false;
    ++merges_;
    index_.clear();
    for (size_t at = 0; at < main_.length(); at += step_) index_.push_back(Run<Key>::key(main_.words()[at]));
  }

  const Options options_;
  const size_t step_;  // rows of a partition
  Run<Key> main_, out_, sorted_;
  std::vector<Key> index_;
  std::vector<Word> words_;  // of the insertion buffer, unsorted
  std::vector<Row> rows_;
  RowSpan<Key> in_{};
  bool merging_ = false;
  size_t merges_ = 0;
};

}  // namespace muntin
