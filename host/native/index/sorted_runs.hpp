// The window as sorted runs: subwindows that expire whole, in each of them runs that are merged by a policy.
//
// Source: PanJoin, sections III-A (subwindow chain) and III-D (BI-Sort). Runs that grow geometrically, and merges in
// slices, are ours.
#pragma once

#include <cmath>
#include <memory>

#include "core/window_index.hpp"

namespace muntin {

// When neighbouring runs of one subwindow become one.
struct RunPolicy {
  bool flat = false;           // BI-Sort: a main array, and an insertion buffer of `buffer_rows`
  size_t growth = 8;           // ladder: ratio of the sizes of neighbouring classes
  size_t base_rows = 1024;     // ladder: upper end of the lowest class
  size_t buffer_rows = 1024;
  size_t subwindow_rows = 0;   // at which a subwindow takes no more; 0: as the window and what comes in suggest
  bool adaptive = true;        // ladder: one run where that costs less, see `RunChoice`

  int rung(size_t length) const {
    int rung = 0;
    for (size_t top = base_rows; length > top; ++rung) top = top > length / growth ? length : top * growth;
    return rung;
  }

  // Whether run `place` of a subwindow and the one behind it are to be merged.
  bool due(size_t place, size_t elder, size_t newer) const {
    if (flat) return place > 0 || newer >= buffer_rows;
    return rung(elder) <= rung(newer);
  }
};

// Whether some rows are to be one run, which each step writes out, or a ladder of runs, each of which every probe looks at.
// Costs are in words that a merge moves in the same time, as measured on the benchmark's cells. It is changed where the other
// one costs so much less that a change of what comes in does not change it back and forth.
struct RunChoice {
  bool one = false;
  double one_cost = 0, ladder_cost = 0;  // of a step

  // `more`: runs of a ladder beyond the first.
  void weigh(double rows, double more, double probes, double matches) {
    one_cost = rows;
    ladder_cost = more * probes * (kLook + kRange * std::min(1.0, matches / 16));
    one = one ? one_cost <= kSlack * ladder_cost : kSlack * one_cost <= ladder_cost;
  }

 private:
  static constexpr double kLook = 6;    // of a probe in one run more
  static constexpr double kRange = 1;   // of partners that lie in two runs, not in one
  static constexpr double kSlack = 1.2;
};

template <class K>
class SortedRuns final : public WindowIndex<K>, public NumberedRuns<K> {
 public:
  using typename WindowIndex<K>::Key, typename WindowIndex<K>::Probes;
  using Word = WordOf<K>;
  using MergePart = MergePartOf<Word>;

  // `window`: rows of a count window, 0 for a time window. `recording`: `take_events` gives what happens to runs.
  SortedRuns(const KernelTable& kernels, const RunPolicy& policy, size_t window, int64_t time_width, bool recording)
      : kernels_(kernels),
        policy_(policy),
        window_(window),
        time_width_(time_width),
        recording_(recording) {}

  void insert(Run<Key>&& run, const Times&) override {
    const size_t length = run.length();
    if (length == 0) return;
    follow(batch_rows_, static_cast<double>(length));
    if (window_ > 0) weigh(whole_, static_cast<double>(window_));
    weigh(part_, static_cast<double>(subwindow_rows()));
    rows_ += length;
    bytes_ += run.bytes();
    if (runs_.empty() || closed_) {
      ++subwindow_;
      first_row_ = run.extent.first_row;
      closed_ = false;
    }
    const int64_t first_row = run.extent.first_row, last_row = run.extent.last_row;
    runs_.push_back(std::make_unique<Held>(Held{std::move(run), subwindow_}));
    runs_.back()->number = record(RunEvent::kRows, first_row, last_row);
    closed_ = static_cast<size_t>(last_row - first_row_ + 1) >= subwindow_rows();
    merge_small();
  }

  void probe(const Probes& probes, const Scope& scope, Matches& matches) const override {
    for (const auto& held : runs_) probe_run(kernels_, held->run, probes, scope, matches);
  }

  void observe(size_t probes, size_t pairs) override {
    follow(probes_, static_cast<double>(probes));
    if (probes > 0) follow(matches_, static_cast<double>(pairs) / static_cast<double>(probes));
  }

  // Those of keys of 128 bits go by no number.
  NumberedRuns<Key>* numbered_runs() override { return sizeof(Key) < 16 ? this : nullptr; }
  void each_run(const std::function<void(int64_t, const Run<Key>&)>& take) const override {
    for (const auto& held : runs_) take(held->number, held->run);
  }
  int64_t next_run() const override { return last_number_ + 1; }
  std::vector<RunEvent> take_events() override { return std::exchange(events_, {}); }

  void expire_rows(int64_t before) override {
    drop_if([before](const Held& held) { return held.run.extent.last_row < before; });
    // A subwindow of one run is written out with each batch: without the rows that have expired, its probes need no
    // check of theirs, and one subwindow does for the whole window.
    if (!one_run() || recording_ || runs_.empty()) return;
    Held& held = *runs_[0];
    const int64_t least = runs_.size() == 1 ? static_cast<int64_t>(window_ / 4) : 1;  // it may have been written out
    if (held.busy || held.subwindow != subwindow_ || before - held.run.extent.first_row < least) return;
    keep_from(held, before);
    first_row_ = held.run.extent.first_row;
  }

  void expire_times(int64_t limit, const Times& times) override {
    drop_if([limit](const Held& held) { return held.run.extent.last_time <= limit; });
    // A few rows far ahead of their time would keep a run that has expired but for them.
    for (size_t at = 0; at < runs_.size(); ++at) {
      Held& held = *runs_[at];
      if (held.busy || held.run.extent.first_time > limit) continue;
      if (static_cast<Wide>(limit) - held.checked < time_width_ / 4) continue;
      held.checked = limit;
      const size_t live = times.past(held.run.extent.first_row, held.run.extent.last_row, limit);
      if (live < held.run.length() / 8) keep_past(held, limit, times);
    }
    drop_if([](const Held& held) { return held.run.length() == 0; });
  }

  void purge(int64_t limit, const Times& times) override {
    end_merges();
    expire_times(limit, times);
    for (const auto& held : runs_) {
      if (held->run.extent.first_time <= limit) keep_past(*held, limit, times);
    }
    drop_if([](const Held& held) { return held.run.length() == 0; });
  }

  // Merges of large runs go on in slices, the shortest first.
  size_t plan(size_t budget) override {
    begin_merges();
    pieces_.clear();
    ends_.clear();
    std::sort(merges_.begin(), merges_.end(),
              [](const auto& a, const auto& b) { return a->out.length() < b->out.length(); });
    for (const auto& merge : merges_) {
      while (budget > 0 && merge->done < merge->out.length()) {
        const size_t stop = std::min(merge->done + std::min(kPieceRows, budget), merge->out.length());
        pieces_.push_back(piece(*merge, merge->done, stop));
        ends_.push_back({merge.get(), merge->done, stop});
        budget -= stop - merge->done;
        merge->done = stop;
      }
    }
    return pieces_.size();
  }

  void work(size_t at) override {
    merge_part(pieces_[at]);
    ends_[at].merge->out.index(ends_[at].from, ends_[at].to);
  }

  void settle() override {
    for (size_t at = 0; at < merges_.size();) {
      if (merges_[at]->done == merges_[at]->out.length()) {
        finish(*merges_[at]);
        merges_.erase(merges_.begin() + at);
      } else {
        ++at;
      }
    }
  }

  bool behind() const override { return runs_.size() > kMaxRuns; }

  size_t rows() const override { return rows_; }
  size_t bytes() const override { return bytes_; }
  size_t runs() const override { return runs_.size(); }
  Figures figures() const override {
    std::vector<int64_t> lengths;
    for (const auto& held : runs_) lengths.push_back(static_cast<int64_t>(held->run.length()));
    const RunChoice& choice = one_run() ? whole_ : part_;
    return {{"runs", static_cast<int64_t>(runs_.size())},
            {"lengths", lengths},
            {"batch_rows", std::llround(batch_rows_)},
            {"probes", std::llround(std::max(probes_, 0.0))},
            {"matches", std::max(matches_, 0.0)},
            {"one_run", int64_t{choice.one && weighs()}},
            {"one_run_cost", std::llround(choice.one_cost)},
            {"ladder_cost", std::llround(choice.ladder_cost)}};
  }
  int64_t oldest(int64_t none) const override {
    int64_t oldest = none;
    bool any = false;
    for (const auto& held : runs_) {
      oldest = any ? std::min(oldest, held->run.extent.first_row) : held->run.extent.first_row;
      any = true;
    }
    return oldest;
  }

 private:
  static constexpr size_t kMinRows = 1024;             // of a subwindow cut by count
  static constexpr size_t kMinTimedRows = 1 << 8;      // and by time
  static constexpr size_t kSmallRows = 1 << 15;          // merges up to this are done at once
  static constexpr size_t kMaxRuns = 48;

  struct Held {
    Run<Key> run;
    uint64_t subwindow;
    int64_t number = 0;
    bool busy = false;  // input of a merge under way
    int64_t checked = std::numeric_limits<int64_t>::min() / 2;
  };

  struct Merge {
    Held *elder, *newer;
    Run<Key> out;
    size_t done = 0;
  };

  struct End {
    Merge* merge;
    size_t from, to;
  };

  bool due(size_t at, size_t place) const {
    const Held &elder = *runs_[at], &newer = *runs_[at + 1];
    if (elder.subwindow != newer.subwindow || elder.busy || newer.busy) return false;
    if (elder.subwindow != subwindow_ || closed_) return true;
    if (weighs() && part_.one) return true;
    return policy_.due(place, elder.run.length(), newer.run.length());
  }

  bool weighs() const { return policy_.adaptive && !policy_.flat; }

  // Takes note of a value of this step: of the last eight, more or less. Below 0: there was none.
  static void follow(double& mean, double value) { mean += (value - mean) / (mean < 0 ? 1 : 8); }

  // Chooses for so many rows, by what steps bring and ask.
  void weigh(RunChoice& choice, double rows) const {
    const int levels = policy_.rung(static_cast<size_t>(rows / 2)) - policy_.rung(static_cast<size_t>(batch_rows_));
    choice.weigh(rows, std::max(2, levels + 1), probes_ < 0 ? batch_rows_ : probes_, std::max(matches_, 0.0));
  }

  // Rows that arrive until the newest subwindow takes no more. The fewer subwindows, the fewer runs a probe meets; but
  // there has to be room for rows that have expired and for the output of merges, which end at once where batches are
  // large.
  size_t subwindow_rows() const {
    if (policy_.subwindow_rows > 0) return policy_.subwindow_rows;
    if (window_ == 0) return std::max(kMinTimedRows, rows_ / 4);
    return std::max(one_run() ? (recording_ ? window_ : 2 * window_) : window_ / 2 + 1, kMinRows);
  }

  // Whether a count window is one run, without rows that have expired.
  bool one_run() const { return window_ > 0 && weighs() && whole_.one; }

  // Place of a run in its subwindow.
  size_t place(size_t at) const {
    size_t first = at;
    while (first > 0 && runs_[first - 1]->subwindow == runs_[at]->subwindow) --first;
    return at - first;
  }

  void merge_small() {
    for (size_t at = runs_.size() - 1; at-- > 0;) {
      Held &elder = *runs_[at], &newer = *runs_[at + 1];
      if (!due(at, place(at)) || elder.run.length() + newer.run.length() > kSmallRows) break;
      Merge merge{&elder, &newer, merged(elder, newer)};
      merge_part(piece(merge, 0, merge.out.length()));
      merge.out.index(0, merge.out.length());
      bytes_ += merge.out.bytes();
      finish(merge);
    }
  }

  void begin_merges() {
    for (size_t at = runs_.size(); at-- > 1;) {
      if (!due(at - 1, place(at - 1))) continue;
      Held &elder = *runs_[at - 1], &newer = *runs_[at];
      elder.busy = newer.busy = true;
      merges_.push_back(std::make_unique<Merge>(Merge{&elder, &newer, merged(elder, newer)}));
      bytes_ += merges_.back()->out.bytes();
    }
  }

  static Run<Key> merged(const Held& elder, const Held& newer) {
    Extent extent = elder.run.extent;
    extent.join(newer.run.extent);
    return Run<Key>(elder.run.length() + newer.run.length(), extent);
  }

  static size_t split(const Run<Key>& a, const Run<Key>& b, size_t diagonal) {
    size_t low = diagonal > b.length() ? diagonal - b.length() : 0, high = std::min(diagonal, a.length());
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (a.words()[middle] <= b.words()[diagonal - 1 - middle]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  static MergePart piece(const Merge& merge, size_t from, size_t to) {
    const Run<Key> &a = merge.elder->run, &b = merge.newer->run;
    const size_t from_a = split(a, b, from), to_a = split(a, b, to);
    const size_t from_b = from - from_a, to_b = to - to_a;
    constexpr bool rows = Run<Key>::kRows;
    return {a.words() + from_a, b.words() + from_b, rows ? a.rows() + from_a : nullptr,
            rows ? b.rows() + from_b : nullptr, to_a - from_a, to_b - from_b, merge.out.words() + from,
            rows ? merge.out.rows() + from : nullptr};
  }

  void merge_part(const MergePart& part) const {
    if constexpr (sizeof(Key) == 16) {
      kernels_.merge_widest(part);
    } else {
      kernels_.merge(part);
    }
  }

  // Puts a merge's output in the place of its inputs.
  void finish(Merge& merge) {
    merge.out.seal();
    const auto elder = std::find_if(runs_.begin(), runs_.end(), [&](const auto& h) { return h.get() == merge.elder; });
    bytes_ -= merge.elder->run.bytes() + merge.newer->run.bytes();
    (*elder)->run = std::move(merge.out);
    (*elder)->number = record(RunEvent::kMerge, merge.elder->number, merge.newer->number);
    (*elder)->busy = false;
    runs_.erase(elder + 1);
  }

  // The number of a new run.
  int64_t record(RunEvent::Kind kind, int64_t first, int64_t second) {
    ++last_number_;
    if (recording_) events_.push_back({kind, last_number_, first, second});
    return last_number_;
  }

  void end_merges() {
    for (const auto& merge : merges_) {
      merge_part(piece(*merge, merge->done, merge->out.length()));
      merge->out.index(merge->done, merge->out.length());
      merge->done = merge->out.length();
    }
    settle();
  }

  template <class Test>
  void drop_if(const Test& test) {
    for (size_t at = merges_.size(); at-- > 0;) {
      const Merge& merge = *merges_[at];
      if (test(*merge.elder) || test(*merge.newer)) {
        merge.elder->busy = merge.newer->busy = false;
        bytes_ -= merge.out.bytes();
        merges_.erase(merges_.begin() + at);
      }
    }
    std::erase_if(runs_, [&](const auto& held) {
      if (!test(*held)) return false;
      rows_ -= held->run.length();
      bytes_ -= held->run.bytes();
      if (recording_) events_.push_back({RunEvent::kDrop, held->number, 0, 0});
      return true;
    });
  }

  // Leaves out the rows before `before`, in place; the run's last row is none of them.
  void keep_from(Held& held, int64_t before) {
    Run<Key>& run = held.run;
    const auto low = static_cast<Row>(run.extent.first_row);
    Row first = 0;  // of those that stay, less `low`
    const auto keep = [&] {
      if constexpr (sizeof(Key) == 16) {
        return kernels_.keep_past_widest;
      } else {
        return kernels_.keep_past;
      }
    }();
    const size_t end = keep(run.words(), run.rows(), run.length(), low, static_cast<Row>(before) - low, &first);
    rows_ -= run.length() - end;
    run.extent.first_row += first;
    run.cut(end);
    run.index(0, end);
    run.seal();
  }

  void keep_past(Held& held, int64_t limit, const Times& times) {
    Run<Key>& run = held.run;
    const int64_t base = run.extent.first_row;
    const auto low = static_cast<Row>(base);
    size_t end = 0;
    Extent extent{std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(),
                  std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
    for (size_t at = 0; at < run.length(); ++at) {
      const int64_t row = base + static_cast<Row>(run.row(at) - low);
      const int64_t time = times.of(row);
      if (time <= limit) continue;
      extent.join({row, row, time, time});
      run.words()[end] = run.words()[at];
      if constexpr (Run<Key>::kRows) run.rows()[end] = run.rows()[at];
      ++end;
    }
    rows_ -= run.length() - end;
    bytes_ -= run.bytes();
    Run<Key> kept;
    if (end > 0) {
      kept = Run<Key>(end, extent);
      std::memcpy(kept.words(), run.words(), end * sizeof(Word));
      if constexpr (Run<Key>::kRows) std::memcpy(kept.rows(), run.rows(), end * sizeof(Row));
      kept.index(0, end);
      kept.seal();
    }
    bytes_ += kept.bytes();
    run = std::move(kept);
    held.number = record(RunEvent::kPast, held.number, limit);
  }

  const KernelTable& kernels_;
  const RunPolicy policy_;
  const size_t window_;
  const int64_t time_width_;
  const bool recording_;
  std::vector<RunEvent> events_;
  int64_t last_number_ = 0;
  std::vector<std::unique_ptr<Held>> runs_;  // oldest first
  std::vector<std::unique_ptr<Merge>> merges_;
  std::vector<MergePart> pieces_;
  std::vector<End> ends_;
  uint64_t subwindow_ = 0;
  int64_t first_row_ = 0;  // of the newest subwindow
  bool closed_ = true;     // it takes no more rows
  size_t rows_ = 0, bytes_ = 0;
  RunChoice whole_, part_;  // of a count window, and of a subwindow
  double batch_rows_ = -1, probes_ = -1, matches_ = -1;
};

}  // namespace muntin
