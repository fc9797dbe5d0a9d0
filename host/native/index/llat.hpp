// The Linked List Adaptive Table: where PanJoin's partitions keep their rows.
//
// Source: PanJoin, section III-B.2. Entries are arrays of equally many rows. A partition has one entry of its own and,
// where it is full, more of them linked behind it. The paper's tail pointers are left out: rows leave with their whole
// subwindow, and nothing is deleted one by one (section III-G.1).
#pragma once

#include <atomic>
#include <bit>
#include <stdexcept>

#include "core/window_index.hpp"

namespace muntin {

// Rows in the order of their keys; `rows` is null with 32-bit keys, whose words hold them.
template <class Key>
struct RowSpan {
  const Word* words;
  const Row* rows;
  size_t count;

  Key key(size_t at) const { return Run<Key>::key(words[at]); }
  RowSpan part(size_t from, size_t to) const { return {words + from, rows ? rows + from : nullptr, to - from}; }

  // The first place from `from` on whose key is `key` or greater, found in steps that double, then halve.
  size_t seek(size_t from, Key wanted) const {
    size_t step = 1, low = from;  // all before `low` are less
    while (low + step <= count && key(low + step - 1) < wanted) {
      low += step;
      step *= 2;
    }
    size_t high = std::min(low + step - 1, count);
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (key(middle) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// Not to be copied: entries are known by their numbers.
template <class Key>
class Llat {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  static constexpr size_t kRowBytes = sizeof(Word) + (Run<Key>::kRows ? sizeof(Row) : 0);

  // Memory is taken for `segment` entries at a time, at most `most` in all. The first `normal` entries are in use.
  Llat(size_t entry_rows, size_t segment, size_t most, size_t normal)
      : entry_rows_(entry_rows), segment_(segment), shift_(std::bit_width(segment - 1)), most_(most) {
    while (entries_.size() < normal) grow();
    unused_.store(static_cast<uint32_t>(normal), std::memory_order_relaxed);
  }

  size_t entry_rows() const { return entry_rows_; }
  size_t used() const { return unused_.load(std::memory_order_relaxed); }
  size_t entries() const { return entries_.size(); }
  size_t bytes() const { return bytes_ + entries_.capacity() * sizeof(Entry); }

  // The next unused entry. From several threads at once only where no more memory is taken: with one segment.
  uint32_t take() {
    const uint32_t entry = unused_.fetch_add(1, std::memory_order_relaxed);
    if (entry >= most_) throw std::logic_error("an LLAT has fewer entries than its rows need");
    if (entry >= entries_.size()) grow();
    return entry;
  }

  // Puts rows behind those of the list that ends in `last`, and takes entries as they are needed.
  void append(uint32_t& last, const RowSpan<Key>& rows) {
    for (size_t from = 0; from < rows.count;) {
      if (entries_[last].head == entry_rows_) {
        const uint32_t next = take();  // may move the entries
        entries_[last].next = next;
        last = next;
      }
      Entry& entry = entries_[last];
      const size_t some = std::min(entry_rows_ - entry.head, rows.count - from);
      const size_t at = place(last) + entry.head;
      const Segment& to = segments_[last >> shift_];
      std::copy_n(rows.words + from, some, to.words + at);
      if constexpr (Run<Key>::kRows) std::copy_n(rows.rows + from, some, to.rows + at);
      entry.head += static_cast<uint32_t>(some);
      from += some;
    }
  }

  // Asks for the first rows of an entry; the processor asks for those behind them by itself.
  void prefetch(uint32_t entry) const {
    const Word* const words = segments_[entry >> shift_].words + place(entry);
    for (size_t line = 0; line < 4; ++line) __builtin_prefetch(words + line * kLeaf);
    __builtin_prefetch(&entries_[entry]);
  }

  // Forgets the rows of one entry.
  void clear(uint32_t entry) { entries_[entry].head = 0; }

  // Calls `take(words, rows, count)` for each entry of the list that starts with `first`.
  template <class Take>
  void each(uint32_t first, const Take& take) const {
    for (uint32_t at = first; at != kNone; at = entries_[at].next) {
      const Segment& from = segments_[at >> shift_];
      const size_t start = place(at);
      if (entries_[at].head > 0) {
        take(RowSpan<Key>{from.words + start, from.rows ? from.rows + start : nullptr, entries_[at].head});
      }
    }
  }

 private:
  struct Entry {
    uint32_t head = 0;  // rows in it
    uint32_t next = kNone;
  };
  struct Segment {
    Block block;
    Word* words;
    Row* rows;
  };

  size_t place(uint32_t entry) const { return (entry & ((size_t{1} << shift_) - 1)) * entry_rows_; }

  void grow() {
    const size_t entries = size_t{1} << shift_, some = segments_.empty() ? segment_ : entries;
    Block block(some * entry_rows_ * kRowBytes);
    bytes_ += block.bytes();
    auto* words = static_cast<Word*>(block.data());
    auto* rows = Run<Key>::kRows ? reinterpret_cast<Row*>(words + some * entry_rows_) : nullptr;
    segments_.push_back({std::move(block), words, rows});
    entries_.resize(entries_.size() + some);
  }

  const size_t entry_rows_, segment_;
  const int shift_;  // of an entry's number, for that of its segment
  const size_t most_;
  std::vector<Segment> segments_;
  std::vector<Entry> entries_;
  std::atomic<uint32_t> unused_{0};  // the paper's PtrG
  size_t bytes_ = 0;
};

}  // namespace muntin
