// A join's parts: both windows, and its condition.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/kernels.hpp"

namespace muntin {

// Both windows of a join: which rows of one side a row of the other may meet, and where those of each side are stored.
struct Window {
  int64_t counts[2];  // rows of each side's count window; both 0 for a time window
  Wide low, high;     // of a time window, of right less left time
  bool self_join;     // one stream in both roles, whose rows are stored once

  bool timed() const { return counts[0] == 0; }
  int sides() const { return self_join ? 1 : 2; }              // whose rows are stored
  int stored(int side) const { return self_join ? 0 : side; }  // where a side's rows are
  // How far back in arrival numbers a row sees rows of this side.
  int64_t span(int side) const { return timed() ? std::numeric_limits<int64_t>::max() / 2 : counts[side]; }
  // Rows of a side that are met in either role; 0 for time windows.
  int64_t rows(int side) const { return self_join ? std::max(counts[0], counts[1]) : counts[side]; }
  // Length of a time window.
  int64_t width() const {
    return static_cast<int64_t>(std::clamp<Wide>(high - low, 0, std::numeric_limits<int64_t>::max()));
  }
  // The same where each role of a self join has its rows stored for itself.
  Window by_role() const { return {{counts[0], counts[1]}, low, high, false}; }
  // Ends of the stored row's time less that of a row that probes in this role.
  Wide first_apart(int role) const { return role == 0 ? low : -high; }
  Wide last_apart(int role) const { return role == 0 ? high : -low; }
};

// An interval of differences of encoded keys, `low <= right - left <= high`.
struct Band {
  Wide low, high;
};

// The keys that a band lets a row meet, by the row's own key.
template <class Key>
class BandOf {
 public:
  // `role`: of the rows that probe.
  BandOf(const Band& band, int role)
      : low_(clip(role == 0 ? band.low : -band.high)), high_(clip(role == 0 ? band.high : -band.low)) {}

  // Both ends included; the first above the last where there are none.
  std::pair<Key, Key> of(Key key) const {
    constexpr Sum most = kGreatest<Key>, least = -most - 1;
    const Sum first = std::max<Sum>(key + low_, least), last = std::min<Sum>(key + high_, most);
    if (first > last) return {Key{1}, Key{0}};
    return {static_cast<Key>(first), static_cast<Key>(last)};
  }

 private:
  // Of narrow keys, clipped ends do not overflow; those of 128 bits lie far from the ends of their type.
  static constexpr bool kNarrow = sizeof(Key) == 4;
  using Sum = std::conditional_t<kNarrow, int64_t, Wide>;
  static Sum clip(Wide end) {
    constexpr Wide far = Wide{1} << (kNarrow ? 40 : 100);
    return static_cast<Sum>(std::clamp(end, -far, far));
  }
  Sum low_, high_;
};

// Bands of one pair of columns, disjoint and ascending; none where bounds come with the rows.
struct Condition {
  std::vector<Band> bands;

  // For rows that probe in a role, the intervals in ascending order.
  template <class Key>
  std::vector<BandOf<Key>> of(int role) const {
    std::vector<BandOf<Key>> intervals;
    for (const Band& band : bands) intervals.emplace_back(band, role);
    if (role == 1) std::reverse(intervals.begin(), intervals.end());
    return intervals;
  }
};

}  // namespace muntin
