// RaP-Table: a subwindow's rows in partitions by key, whose borders follow the rows of the subwindow before.
//
// Source: PanJoin, section III-B; III-E for the rebounding search. Its formula for new splitters lacks `min_i +`.
#pragma once

#include <cmath>

#include "index/llat.hpp"

namespace muntin {

template <class K>
class RapTable {
 public:
  using Key = K;
  static constexpr Key kLeast = std::numeric_limits<Key>::min(), kMax = std::numeric_limits<Key>::max();

  struct Options {
    size_t partitions;  // 0: one for each `kPartitionRows` rows of a subwindow
    double sigma;       // an entry has so many times the rows of an even partition
  };

  // Of one partition.
  struct Histogram {
    uint32_t count = 0;
    Key min = kMax, max = kLeast;
  };
  // What a subwindow tells the next one.
  struct Learned {
    std::vector<Histogram> histogram;
    size_t rows = 0, adjustments = 0;
  };

  // For at most `capacity` rows. `before`: says where the borders go; null, or of no rows: even over all keys.
  RapTable(const Options& options, size_t capacity, const Learned* before)
      : partitions_(std::clamp<size_t>(options.partitions ? options.partitions : capacity / kPartitionRows, 1, capacity)),
        splitters_(partitions_ - 1),
        last_(partitions_),
        llat_(entry_rows(capacity, partitions_, options.sigma), 2 * partitions_, 2 * partitions_, partitions_) {
    learned_.histogram.resize(partitions_);
    for (size_t at = 0; at < partitions_; ++at) last_[at] = static_cast<uint32_t>(at);
    if (before != nullptr && before->rows > 0) {
      adjust(*before);
    } else {
      for (size_t at = 1; at < partitions_; ++at) splitters_[at - 1] = between(kLeast, kMax, at, partitions_);
    }
  }

  const Learned& learned() const { return learned_; }

  // Sorts rows into partitions and brings the histograms up to date. Many rows are copied later, by `work`.
  void insert(const RowSpan<Key>& rows) {
    flush();
    learned_.rows += rows.count;
    pending_ = rows;
    groups_.clear();
    size_t partition = 0;
    for (size_t from = 0; from < rows.count;) {
      partition = rebound(partition, rows.key(from), comparisons_);
      const size_t to = partition + 1 < partitions_ ? rows.seek(from, splitters_[partition]) : rows.count;
      Histogram& histogram = learned_.histogram[partition];
      histogram.min = std::min(histogram.min, rows.key(from));
      histogram.max = std::max(histogram.max, rows.key(to - 1));
      histogram.count += static_cast<uint32_t>(to - from);
      groups_.push_back({static_cast<uint32_t>(partition), static_cast<uint32_t>(to)});
      from = to;
    }
    if (rows.count < kFewRows) flush();
  }

  // Pieces of partitions with about as many rows each.
  size_t plan() {
    pieces_.clear();
    for (size_t group = 0, rows = 0; group < groups_.size(); ++group) {
      if (pieces_.empty() || groups_[group].end - rows > kPieceRows) {
        rows = begin(group);
        pieces_.push_back(group);
      }
    }
    return pieces_.size();
  }
  void work(size_t piece) { store(pieces_[piece], piece + 1 < pieces_.size() ? pieces_[piece + 1] : groups_.size()); }
  void stored() { groups_.clear(); }
  void flush() {
    store(0, groups_.size());
    groups_.clear();
  }

  // Where a sorted row of keys is looked up, each from the place of the one before.
  class Cursor {
   public:
    explicit Cursor(const RapTable& table) : table_(table) {}
    uint32_t find(Key key) { return at_ = static_cast<uint32_t>(table_.rebound(at_, key, comparisons_)); }

   private:
    const RapTable& table_;
    uint32_t at_ = 0;
    size_t comparisons_ = 0;
  };

  void prefetch(uint32_t partition) const { llat_.prefetch(partition); }
  uint32_t next(uint32_t partition) const { return partition + 1; }
  // Whether no key up to this one lies behind a partition.
  bool ends(uint32_t partition, Key key) const {
    return partition + 1 == partitions_ || key < splitters_[partition];
  }
  template <class Take>
  void each(uint32_t partition, const Take& take) const {
    if (learned_.histogram[partition].count > 0) llat_.each(partition, take);
  }
  template <class Take>
  void each(const Take& take) const {
    for (size_t at = 0; at < partitions_; ++at) each(static_cast<uint32_t>(at), take);
  }

  size_t rows() const { return learned_.rows; }
  size_t bytes() const {
    return llat_.bytes() + partitions_ * (sizeof(Histogram) + sizeof(uint32_t) + sizeof(Key));
  }

  // How unevenly rows lie: the mean of |rows of a partition - rows / partitions|, over rows / partitions.
  double error() const {
    const double even = static_cast<double>(rows()) / static_cast<double>(partitions_);
    double sum = 0;
    for (const Histogram& histogram : learned_.histogram) sum += std::abs(histogram.count - even);
    return rows() == 0 ? 0 : sum / static_cast<double>(rows());
  }

  void tell(Figures& figures) const {
    figures["partitions"] = static_cast<int64_t>(partitions_);
    figures["adjustments"] = static_cast<int64_t>(learned_.adjustments);
    figures["entries"] = static_cast<int64_t>(llat_.entries());
    figures["entry_rows"] = static_cast<int64_t>(llat_.entry_rows());
    figures["reserve_used"] = static_cast<int64_t>(llat_.used() - partitions_);
    figures["comparisons"] = static_cast<int64_t>(comparisons_);
    if (partitions_ > kToldPartitions) return;
    std::vector<int64_t> counts, splitters(splitters_.begin(), splitters_.end());
    for (const Histogram& histogram : learned_.histogram) counts.push_back(histogram.count);
    figures["counts"] = counts;
    figures["splitters"] = splitters;
  }

 private:
  static constexpr size_t kPartitionRows = 64;
  static constexpr size_t kFewRows = 1 << 13;    // that are copied at once
  static constexpr size_t kToldPartitions = 4096;

  struct Group {
    uint32_t partition, end;  // of the pending rows; it begins where the one before ends
  };

  static size_t entry_rows(size_t capacity, size_t partitions, double sigma) {
    return static_cast<size_t>(std::ceil(static_cast<double>(capacity) / static_cast<double>(partitions) * sigma));
  }

  // `low + (high - low) * part / whole`; part and whole are at most 2**62.
  static Key between(Key low, Key high, size_t part, size_t whole) {
    return static_cast<Key>(low + (static_cast<Wide>(high) - low) * static_cast<Wide>(part) / static_cast<Wide>(whole));
  }

  // Splitter adjustment (Algorithm 1). All is multiplied by the number of partitions, so that it stays whole.
  void adjust(const Learned& before) {
    const size_t total = before.rows;
    learned_.adjustments = before.adjustments + 1;
    size_t sum = 0, splitter = 1;
    for (const Histogram& histogram : before.histogram) {
      const size_t count = histogram.count;
      while (splitter < partitions_ && total * splitter <= (sum + count) * partitions_) {
        splitters_[splitter - 1] =
            between(histogram.min, histogram.max, total * splitter - sum * partitions_, count * partitions_);
        ++splitter;
      }
      sum += count;
    }
  }

  // The partition of a key at or behind `from`: one step ahead, then two, four and so on until past it, and back.
  size_t rebound(size_t from, Key key, size_t& comparisons) const {
    size_t step = 1, low = from;  // all splitters before `low` are the key or less
    const size_t count = splitters_.size();
    while (low + step <= count && (++comparisons, splitters_[low + step - 1] <= key)) {
      low += step;
      step *= 2;
    }
    size_t high = std::min(low + step - 1, count);
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      ++comparisons;
      if (splitters_[middle] <= key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  size_t begin(size_t group) const { return group == 0 ? 0 : groups_[group - 1].end; }
  void store(size_t from, size_t to) {
    for (size_t at = from; at < to; ++at) {
      const Group& group = groups_[at];
      llat_.append(last_[group.partition], pending_.part(begin(at), group.end));
    }
  }

  const size_t partitions_;
  std::vector<Key> splitters_;  // partition i holds keys from splitter i - 1 on, and less than splitter i
  std::vector<uint32_t> last_;  // entry of each partition
  Llat<Key> llat_;
  Learned learned_;
  size_t comparisons_ = 0;
  RowSpan<Key> pending_{};
  std::vector<Group> groups_;
  std::vector<size_t> pieces_;  // first group of each
};

}  // namespace muntin
