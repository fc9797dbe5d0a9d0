// What PIM-Tree and the indexes that its paper compares it with have in common.
//
// Source: PIM-Tree, sections 2.2 and 3. A probe's results are checked one by one against its window, so that rows that
// have expired may stay where the index removes them later.
#pragma once

#include "core/window_index.hpp"
#include "index/trees.hpp"

namespace muntin {

// Which items a merge keeps: rows from a number on, and of those the ones past a time.
struct Keep {
  int64_t before;               // rows from this number on
  int64_t base;                 // at or before all numbers stored
  const Times* times = nullptr;  // null: of any time
  int64_t limit = 0;

  int64_t number(Row row) const { return base + static_cast<Row>(row - static_cast<Row>(base)); }
};

// What these indexes have in common: which rows are stored, and a probe by ranges of keys.
template <class Index, class K>
class RowIndex : public WindowIndex<K> {
 public:
  using typename WindowIndex<K>::Key, typename WindowIndex<K>::Probes;
  using Item = muntin::Item<Key>;

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const final {
    const auto& index = static_cast<const Index&>(*this);
    if (index.rows() == 0) return;
    const size_t before = matches.found.size();
    const Keep keep{0, oldest_};
    size_t checked = 0;
    for (size_t i = 0; i < probes.count; ++i) {
      const uint32_t place = probes.places[i];
      const int64_t other_position = scope.other_position ? scope.other_position[place] : scope.same_other_position;
      const size_t start = matches.kept.size();
      size_t count = 0;
      index.range(Run<Key>::key(probes.lower[i]), Run<Key>::key(probes.upper[i]), [&](Row row) {
        if (++checked % kCheckpoint == 0) matches.checkpoint();
        const int64_t number = keep.number(row);
        if (number >= other_position || number < other_position - scope.span) return;
        if (scope.times != nullptr) {
          const Wide apart = static_cast<Wide>(scope.stored_times->of(number)) - scope.times[place];
          if (apart < scope.low || apart > scope.high) return;
        }
        ++count;
        if (scope.counting) return;
        matches.kept.resize(start + count);
        matches.kept[start + count - 1] = row;
      });
      matches.pairs += count;
      if (scope.counting) {
        scope.counts[place] += count;
      } else if (count > 0) {
        matches.found.resize(matches.found.size() + 1);
        matches.found[matches.found.size() - 1] = {place, static_cast<uint32_t>(start), static_cast<uint32_t>(count)};
      }
    }
    if (matches.found.size() > before) matches.parts.push_back({nullptr, nullptr, before, matches.found.size()});
  }

  int64_t oldest(int64_t none) const final { return static_cast<const Index&>(*this).rows() == 0 ? none : oldest_; }
  // At or before all numbers stored.
  int64_t floor() const { return oldest_; }

 protected:
  // A run's items in the order of arrival.
  std::vector<Item> arrivals(const Run<Key>& run) const {
    std::vector<Item> items(run.length());
    for (size_t i = 0; i < items.size(); ++i) items[i] = make_item(Run<Key>::key(run.words()[i]), run.row(i));
    const Row first = static_cast<Row>(run.extent.first_row);
    std::sort(items.begin(), items.end(), [first](const Item& a, const Item& b) {
      return static_cast<Row>(row_of(a) - first) < static_cast<Row>(row_of(b) - first);
    });
    return items;
  }

  int64_t oldest_ = 0;
};

}  // namespace muntin
