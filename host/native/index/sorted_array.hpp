// The plainest index: one sorted array, searched by halving, every candidate checked. What others are compared with.
#pragma once

#include "core/window_index.hpp"

namespace muntin {

template <class K>
class SortedArray final : public WindowIndex<K> {
 public:
  using typename WindowIndex<K>::Key, typename WindowIndex<K>::Probes;

  void insert(Run<Key>&& run, const Times&) override {
    std::vector<Entry> batch(run.length());
    const int64_t base = run.extent.first_row;
    for (size_t i = 0; i < batch.size(); ++i) {
      const int64_t row = base + static_cast<Row>(run.row(i) - static_cast<Row>(base));
      batch[i] = {Run<Key>::key(run.words()[i]), row};
    }
    spare_.resize(entries_.size() + batch.size());
    std::merge(entries_.begin(), entries_.end(), batch.begin(), batch.end(), spare_.begin(), by_key);
    entries_.swap(spare_);
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    const size_t before = matches.found.size();
    size_t checked = 0;
    for (size_t i = 0; i < probes.count; ++i) {
      const uint32_t place = probes.places[i];
      const int64_t other_position = scope.other_position ? scope.other_position[place] : scope.same_other_position;
      const size_t start = matches.kept.size();
      auto at = std::lower_bound(entries_.begin(), entries_.end(), Entry{Run<Key>::key(probes.lower[i]), 0}, by_key);
      for (; at != entries_.end() && at->key <= Run<Key>::key(probes.upper[i]); ++at) {
        if (++checked % kCheckpoint == 0) matches.checkpoint();
        if (at->row >= other_position || at->row < other_position - scope.span) continue;
        if (scope.times != nullptr) {
          const Wide apart = static_cast<Wide>(scope.stored_times->of(at->row)) - scope.times[place];
          if (apart < scope.low || apart > scope.high) continue;
        }
        matches.kept.resize(matches.kept.size() + 1);
        matches.kept[matches.kept.size() - 1] = static_cast<Row>(at->row);
      }
      const size_t count = matches.kept.size() - start;
      matches.pairs += count;
      if (scope.counting) {
        scope.counts[place] += count;
        matches.kept.resize(start);
      } else if (count > 0) {
        matches.found.resize(matches.found.size() + 1);
        matches.found[matches.found.size() - 1] = {place, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
      }
    }
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  void expire_rows(int64_t before) override {
    std::erase_if(entries_, [before](const Entry& entry) { return entry.row < before; });
  }
  void expire_times(int64_t limit, const Times& times) override {
    std::erase_if(entries_, [&](const Entry& entry) { return times.of(entry.row) <= limit; });
  }
  void purge(int64_t limit, const Times& times) override { expire_times(limit, times); }

  size_t rows() const override { return entries_.size(); }
  size_t bytes() const override { return (entries_.capacity() + spare_.capacity()) * sizeof(Entry); }
  size_t runs() const override { return entries_.empty() ? 0 : 1; }
  Figures figures() const override { return {}; }
  int64_t oldest(int64_t none) const override {
    int64_t oldest = entries_.empty() ? none : entries_.front().row;
    for (const Entry& entry : entries_) oldest = std::min(oldest, entry.row);
    return oldest;
  }

 private:
  struct Entry {
    Key key;
    int64_t row;
  };
  static bool by_key(const Entry& a, const Entry& b) { return a.key < b.key; }

  std::vector<Entry> entries_, spare_;
};

}  // namespace muntin
