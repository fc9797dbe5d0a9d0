// The as-of join's state where it looks back and the watermark ends rows of both sides: one pass in order of time.
#pragma once

#include "engine/as_of.hpp"

namespace muntin {

// Rows that wait, in order of time but for those that came since they were last put in order.
class AsOfWaiting {
 public:
  explicit AsOfWaiting(bool grouped) : grouped_(grouped) {}

  size_t size() const { return times_.size() - head_; }
  bool ordered() const { return sorted_ == times_.size(); }
  int64_t newest() const { return times_.back(); }  // of ordered rows, at least one
  std::span<const int64_t> times() const { return {times_.data() + head_, size()}; }
  const int64_t* slots() const { return slots_.data() + head_; }
  const uint32_t* groups() const { return grouped_ ? groups_.data() + head_ : nullptr; }
  size_t bytes() const { return (times_.capacity() + slots_.capacity() + places_.capacity()) * sizeof(int64_t) + groups_.capacity() * sizeof(uint32_t); }

  // Rows in any order of time. `groups` has the group of each, where there are any.
  void append(std::span<const int64_t> times, const AsOfRows& rows, const uint32_t* groups);
  // A row at or after all others in time; with `last`, of rows of one time and group the last one alone is kept.
  void add(int64_t time, int64_t slot, uint32_t group, bool last);
  void order(bool last);
  void drop(size_t count);  // the oldest rows
  void each_slot(const std::function<void(int64_t&)>& f);

 private:
  CallVector<int64_t> times_, slots_;
  CallVector<uint32_t> groups_;
  CallVector<uint64_t> places_;  // of each group: past the place of the row that was added last, counted from the first ever
  uint64_t before_ = 0;           // rows that were cut off
  size_t head_ = 0, sorted_ = 0;
  bool grouped_;
};

// Rows at or before the watermark meet no row that is still to come, so that one right row of a group is enough of them:
// its last. Right and left rows past it wait.
class AsOfScan final : public AsOfState {
 public:
  AsOfScan(const AsOfRule& rule, bool grouped) : AsOfState(rule), left_(grouped), right_(grouped), last_(1), grouped_(grouped) {}

  // `useless` must be `watermark`.
  void step(const AsOfRows& left, const AsOfRows& right, std::optional<int64_t> watermark, std::optional<int64_t> useless, bool all, bool matched,
            int max_threads, AsOfNumbers& lefts, AsOfNumbers& rights) override;
  void each_slot(bool right, const std::function<void(int64_t&)>& f) override;
  size_t right_rows() const override { return right_.size() + lasts_; }
  size_t left_rows() const override { return left_.size(); }
  size_t bytes() const override;

 private:
  // The last right row of a group so far; slot -1: there is none.
  struct Last {
    int64_t time = 0;
    int64_t slot = -1;
  };
  // Rows in order of time, those before `at` done.
  struct Part {
    std::span<const int64_t> times;
    const int64_t* slots;  // null: `first` and those that follow
    int64_t first;
    const uint32_t* groups;  // null: one group
    size_t at = 0;
    bool done() const { return at == times.size(); }
    int64_t slot(size_t i) const { return slots == nullptr ? first + static_cast<int64_t>(i) : slots[i]; }
  };

  template <class Met, bool exact>
  void scan(Part (&left)[2], Part (&right)[2], int max_threads, int64_t* met);
  template <class Met, bool exact>
  void both(Part& left, Part& right, int64_t* met);
  template <class Met, bool exact>
  void both_of_one(Part& left, Part& right, int max_threads, int64_t* met);
  void set_last(uint32_t group, int64_t time, int64_t slot);
  void sweep(std::optional<int64_t> watermark);

  AsOfWaiting left_, right_;
  std::vector<Last> last_;  // by the number of the group plus 1; the first is that of no group
  CallVector<uint32_t> left_groups_, right_groups_;  // of new rows
  CallVector<int64_t> numbered_;
  CallVector<char> waits_;
  size_t lasts_ = 0, since_sweep_ = 0;
  bool grouped_;
  bool mixed_ = false;  // left rows that wait may not be in order of arrival
};

}  // namespace muntin
