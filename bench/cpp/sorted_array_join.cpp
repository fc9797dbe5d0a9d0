// The honest peer of the operator benchmark: what one core does with a sorted array per stream and the standard
// library. Same batches in, same row-number pairs out as WindowJoin(form="pairs").
//
// A step takes a batch of each side. Left rows come first: they are sorted, probe the right window and join the left
// window; then the same for right rows, which therefore also meet this call's left rows.
//
//   sort    LSD radix sort of (key, row), stable: four to eight times faster than std::sort here
//   probe   for each row, in key order, std::lower_bound for the low end of its band, then a scan to the high end.
//           Batches of at least 1/512 of the window start from the last position with doubling steps (galloping),
//           smaller ones search all that is left: each is the faster one on its side of that line, as measured
//   insert  one std::merge of window and batch into the spare array; its output iterator leaves expired rows out, so
//           expiry costs no pass of its own
//
// Arrays ask for huge pages (10 to 15 % faster merges here). Entries are packed: 8 bytes with 32-bit keys, 12 with
// 64-bit keys. Output buffers are reused from step to step.
//
// Time windows: rows of a batch expire together, when the youngest of them can match no later row; each pair is then
// tested exactly, with the times in a ring indexed by row number.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace {

using Row = uint32_t;
constexpr std::size_t kHuge = std::size_t{2} << 20;
constexpr std::size_t kGallopRatio = 512;

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// Grows without initialising or keeping its contents unless asked to.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  void reserve(std::size_t count, std::size_t keep = 0) {
    if (count <= capacity_) return;
    std::size_t bytes = (count * sizeof(T) + kHuge - 1) / kHuge * kHuge;
    T* grown = static_cast<T*>(std::aligned_alloc(kHuge, bytes));
    if (grown == nullptr) throw std::bad_alloc();
#ifdef __linux__
    madvise(grown, bytes, MADV_HUGEPAGE);
#endif
    std::copy(data_, data_ + keep, grown);
    std::free(data_);
    data_ = grown;
    capacity_ = bytes / sizeof(T);
  }

  T* data() const { return data_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::size_t capacity() const { return capacity_; }

  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  T* data_ = nullptr;
  std::size_t capacity_ = 0;
};

#pragma pack(push, 4)
template <class Key>
struct Entry {
  Key key;
  Row row;
};
#pragma pack(pop)

// Where std::merge writes to: keeps an entry only if its row has not expired.
template <class E>
struct Keep {
  using iterator_category = std::output_iterator_tag;
  using value_type = void;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = void;

  E* out;
  Row limit;

  Keep& operator*() { return *this; }
  Keep& operator++() { return *this; }
  Keep operator++(int) { return *this; }
  Keep& operator=(const E& entry) {
    *out = entry;
    out += entry.row >= limit;
    return *this;
  }
};

template <class Key>
void radix_sort(Entry<Key>* data, Entry<Key>* spare, std::size_t count) {
  using Bits = std::make_unsigned_t<Key>;
  constexpr int kDigits = sizeof(Key);
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Key) - 1);
  std::vector<uint32_t> histogram(kDigits * 256, 0);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits = static_cast<Bits>(data[i].key) ^ kSign;
    for (int digit = 0; digit < kDigits; ++digit) ++histogram[digit * 256 + (bits >> (8 * digit) & 255)];
  }
  Entry<Key>* from = data;
  Entry<Key>* to = spare;
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t* slots = histogram.data() + digit * 256;
    if (std::find(slots, slots + 256, count) != slots + 256) continue;  // all rows share this digit
    uint32_t sum = 0;
    for (int i = 0; i < 256; ++i) {
      uint32_t size = slots[i];
      slots[i] = sum;
      sum += size;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Bits bits = static_cast<Bits>(from[i].key) ^ kSign;
      to[slots[bits >> (8 * digit) & 255]++] = from[i];
    }
    std::swap(from, to);
  }
  if (from != data) std::copy(from, from + count, data);
}

struct Settings {
  int64_t low, high;            // band on the keys: low <= right - left <= high
  int64_t window_left, window_right;  // rows, or 0 with a time window
  bool timed;
  int64_t time_low, time_high;  // time_low <= right - left <= time_high
};

struct Join {
  virtual ~Join() = default;
  virtual void load(int side, const void* keys, const int64_t* times, int64_t count) = 0;
  virtual int64_t step(const void* left, const int64_t* left_times, int64_t left_count, const void* right,
                       const int64_t* right_times, int64_t right_count, double* parts) = 0;
  virtual int64_t size(int side) const = 0;
  Buffer<int64_t> out[2];
};

template <class Key>
class SortedArrayJoin final : public Join {
  using E = Entry<Key>;

  struct Side {
    Buffer<E> window, spare, batch, scratch;
    std::size_t size = 0;
    std::size_t batch_size = 0;
    uint64_t next = 0;   // arrival number of the next row
    uint64_t limit = 0;  // rows below have expired
    Buffer<int64_t> times;  // by row number, modulo a power of two
    uint64_t mask = 0;
    int64_t newest = std::numeric_limits<int64_t>::min();
    struct Slice {
      uint64_t stop;
      int64_t newest;
    };
    std::deque<Slice> slices;
  };

 public:
  explicit SortedArrayJoin(const Settings& settings) : settings_(settings) {}

  void load(int side, const void* keys, const int64_t* times, int64_t count) override {
    sort_batch(side, keys, times, count);
    insert(side);
    expire();
  }

  int64_t step(const void* left, const int64_t* left_times, int64_t left_count, const void* right,
               const int64_t* right_times, int64_t right_count, double* parts) override {
    std::size_t found = 0;
    const void* keys[2] = {left, right};
    const int64_t* times[2] = {left_times, right_times};
    const int64_t counts[2] = {left_count, right_count};
    for (int side = 0; side < 2; ++side) {
      double t0 = now();
      sort_batch(side, keys[side], times[side], counts[side]);
      double t1 = now();
      found = side == 0 ? probe<0>(found) : probe<1>(found);
      double t2 = now();
      insert(side);
      double t3 = now();
      parts[0] += t1 - t0;
      parts[1] += t2 - t1;
      parts[2] += t3 - t2;
    }
    expire();
    return static_cast<int64_t>(found);
  }

  int64_t size(int side) const override { return static_cast<int64_t>(sides_[side].size); }

 private:
  void sort_batch(int side_index, const void* keys, const int64_t* times, int64_t count) {
    Side& side = sides_[side_index];
    if (side.next + count > std::numeric_limits<Row>::max()) throw std::overflow_error("more than 2^32 rows");
    side.batch.reserve(count);
    side.scratch.reserve(count);
    side.batch_size = count;
    const Key* source = static_cast<const Key*>(keys);
    for (int64_t i = 0; i < count; ++i) side.batch[i] = E{source[i], static_cast<Row>(side.next + i)};
    radix_sort<Key>(side.batch.data(), side.scratch.data(), count);
    if (settings_.timed) store_times(side, times, count);
  }

  void store_times(Side& side, const int64_t* times, int64_t count) {
    uint64_t needed = side.next + count - side.limit;
    if (needed > side.mask + 1 || side.mask == 0) {
      uint64_t capacity = 1024;
      while (capacity < 2 * needed) capacity *= 2;
      Buffer<int64_t> grown;
      grown.reserve(capacity);
      for (uint64_t row = side.limit; row < side.next; ++row) grown[row & (capacity - 1)] = side.times[row & side.mask];
      side.times.swap(grown);
      side.mask = capacity - 1;
    }
    int64_t newest = std::numeric_limits<int64_t>::min();
    for (int64_t i = 0; i < count; ++i) {
      side.times[(side.next + i) & side.mask] = times[i];
      newest = std::max(newest, times[i]);
    }
    side.newest = std::max(side.newest, newest);
    if (count > 0) side.slices.push_back({side.next + count, newest});
  }

  // Pairs of the batch of side S with the other side's window.
  template <int S>
  std::size_t probe(std::size_t found) {
    const Side& mine = sides_[S];
    const Side& other = sides_[1 - S];
    const E* window = other.window.data();
    const std::size_t size = other.size;
    // A left row wants right keys in [key + low, key + high], a right row left keys in [key - high, key - low].
    const int64_t from = S == 0 ? settings_.low : -settings_.high;
    const int64_t to = S == 0 ? settings_.high : -settings_.low;
    const bool gallop = size <= kGallopRatio * mine.batch_size;
    const auto below = [](const E& entry, Key key) { return entry.key < key; };
    std::size_t position = 0;
    for (std::size_t i = 0; i < mine.batch_size; ++i) {
      const E entry = mine.batch[i];
      const Key first = saturating_add(entry.key, from);
      const Key last = saturating_add(entry.key, to);
      std::size_t start = position, stop = size;
      if (gallop) {
        std::size_t stride = 1;
        while (stride < size - start && window[start + stride].key < first) {
          start += stride;
          stride *= 2;
        }
        stop = std::min(size, start + stride);
      }
      position = std::lower_bound(window + start, window + stop, first, below) - window;
      for (std::size_t p = position; p < size && window[p].key <= last; ++p) {
        if (settings_.timed && !in_time<S>(mine, entry.row, other, window[p].row)) continue;
        if (found == out[0].capacity()) {
          std::size_t grown = std::max<std::size_t>(1 << 16, 2 * found);
          out[0].reserve(grown, found);
          out[1].reserve(grown, found);
        }
        out[S][found] = entry.row;
        out[1 - S][found] = window[p].row;
        ++found;
      }
    }
    return found;
  }

  template <int S>
  bool in_time(const Side& mine, Row row, const Side& other, Row stored) const {
    const int64_t a = mine.times[row & mine.mask], b = other.times[stored & other.mask];
    const int64_t distance = S == 0 ? b - a : a - b;
    return settings_.time_low <= distance && distance <= settings_.time_high;
  }

  static Key saturating_add(Key key, int64_t offset) {
    int64_t sum;
    if (__builtin_add_overflow(static_cast<int64_t>(key), offset, &sum))
      return offset < 0 ? std::numeric_limits<Key>::min() : std::numeric_limits<Key>::max();
    return static_cast<Key>(std::clamp<int64_t>(sum, std::numeric_limits<Key>::min(), std::numeric_limits<Key>::max()));
  }

  void insert(int side_index) {
    Side& side = sides_[side_index];
    side.next += side.batch_size;
    const int64_t window = side_index == 0 ? settings_.window_left : settings_.window_right;
    if (!settings_.timed && side.next > static_cast<uint64_t>(window)) side.limit = side.next - window;
    side.spare.reserve(side.size + side.batch_size + 1);
    Keep<E> end = std::merge(side.window.data(), side.window.data() + side.size, side.batch.data(),
                             side.batch.data() + side.batch_size, Keep<E>{side.spare.data(), static_cast<Row>(side.limit)},
                             [](const E& a, const E& b) { return a.key < b.key; });
    side.size = end.out - side.spare.data();
    side.window.swap(side.spare);
    side.batch_size = 0;
  }

  // Every later row is younger than the watermark: the older of the two newest times.
  void expire() {
    if (!settings_.timed) return;
    const int64_t watermark = std::min(sides_[0].newest, sides_[1].newest);
    if (watermark == std::numeric_limits<int64_t>::min()) return;
    const int64_t limits[2] = {watermark - settings_.time_high, watermark + settings_.time_low};
    for (int i = 0; i < 2; ++i) {
      Side& side = sides_[i];
      while (!side.slices.empty() && side.slices.front().newest < limits[i]) {
        side.limit = side.slices.front().stop;
        side.slices.pop_front();
      }
    }
  }

  Settings settings_;
  Side sides_[2];
};

}  // namespace

extern "C" {

void* saj_new(int key_bytes, int64_t low, int64_t high, int64_t window_left, int64_t window_right, int timed,
              int64_t time_low, int64_t time_high) {
  Settings settings{low, high, window_left, window_right, timed != 0, time_low, time_high};
  if (key_bytes == 4) return static_cast<Join*>(new SortedArrayJoin<int32_t>(settings));
  if (key_bytes == 8) return static_cast<Join*>(new SortedArrayJoin<int64_t>(settings));
  return nullptr;
}

void saj_free(void* join) { delete static_cast<Join*>(join); }

// Adds rows without probing. Returns 0, or -1 where memory or row numbers run out.
int64_t saj_load(void* join, int side, const void* keys, const int64_t* times, int64_t count) {
  try {
    static_cast<Join*>(join)->load(side, keys, times, count);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

// Returns the number of pairs, or -1; adds seconds to parts[0..2]: sort, probe, insert.
int64_t saj_step(void* join, const void* left, const int64_t* left_times, int64_t left_count, const void* right,
                 const int64_t* right_times, int64_t right_count, double* parts) {
  try {
    return static_cast<Join*>(join)->step(left, left_times, left_count, right, right_times, right_count, parts);
  } catch (const std::exception&) {
    return -1;
  }
}

const int64_t* saj_pairs(void* join, int side) { return static_cast<Join*>(join)->out[side].data(); }

int64_t saj_size(void* join, int side) { return static_cast<Join*>(join)->size(side); }
}
