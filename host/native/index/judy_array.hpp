// Judy, as Debian's libjudy-dev has it: a JudyL array from keys to rows; of a key that comes more often, to a list.
//
// Source: the partitioned temporal window index, section 2. Its mapper reads Judy's own nodes, which the package keeps to
// itself: ranges are read by JudyLNext, which starts from the root each time, so that `map` is the library's iterator too.
// A mapper over nodes of our own: radix_tree.hpp.
#pragma once

#include <Judy.h>

#include <new>
#include <type_traits>

#include "core/window_index.hpp"

namespace muntin {

template <class K>
class JudyArray {
 public:
  using Key = K;

  JudyArray() = default;
  JudyArray(JudyArray&& other) noexcept { swap(other); }
  JudyArray& operator=(JudyArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~JudyArray() {
    if (lists_ > 0) {
      Word_t at = 0;
      for (auto** slot = first(at); slot != nullptr; slot = following(at)) {
        if (!is_row(*slot)) delete static_cast<Rows*>(*slot);
      }
    }
    JudyLFreeArray(&array_, PJE0);
  }

  // Adds an entry behind those of the same key.
  void insert(Key key, Row row) {
    auto** slot = reinterpret_cast<void**>(JudyLIns(&array_, word_of(key), PJE0));
    if (slot == PPJERR) throw std::bad_alloc();
    if (*slot == nullptr) {
      *slot = packed(row);
    } else {
      if (is_row(*slot)) {
        auto* rows = new Rows{{row_of(*slot)}, 0};
        *slot = rows;
        ++lists_;
      }
      static_cast<Rows*>(*slot)->rows.push_back(row);
      ++listed_;
    }
    ++size_;
  }

  // Whether there was such an entry.
  bool erase(Key key, Row row) {
    auto** slot = reinterpret_cast<void**>(JudyLGet(array_, word_of(key), PJE0));
    if (slot == nullptr) return false;
    if (is_row(*slot)) {
      if (row_of(*slot) != row) return false;
      JudyLDel(&array_, word_of(key), PJE0);
    } else {
      auto* list = static_cast<Rows*>(*slot);
      auto& rows = list->rows;
      const auto at = std::find(rows.begin() + list->gone, rows.end(), row);
      if (at == rows.end()) return false;
      if (at == rows.begin() + list->gone) {
        ++list->gone;
        if (2 * list->gone > rows.size()) {
          rows.erase(rows.begin(), rows.begin() + list->gone);
          list->gone = 0;
        }
      } else {
        rows.erase(at);
      }
      --listed_;
      if (rows.size() - list->gone == 1) {
        *slot = packed(rows.back());
        delete list;
        --lists_;
      }
    }
    --size_;
    return true;
  }

  // Where an iterator is. It holds as long as the array is not changed.
  class Cursor {
   public:
    Cursor(const JudyArray& judy, Key low, Key high) : judy_(judy), at_(word_of(low)), high_(word_of(high)) {
      slot_ = low <= high ? judy.first(at_) : nullptr;
      open();
    }
    bool next(Key& key, Row& row) {
      if (slot_ == nullptr || at_ > high_) return false;
      key = key_of(at_);
      if (is_row(*slot_)) {
        row = row_of(*slot_);
      } else {
        const auto& rows = static_cast<const Rows*>(*slot_)->rows;
        row = rows[place_++];
        if (place_ < rows.size()) return true;
      }
      slot_ = judy_.following(at_);
      open();
      return true;
    }

   private:
    void open() { place_ = slot_ == nullptr || is_row(*slot_) ? 0 : static_cast<const Rows*>(*slot_)->gone; }

    const JudyArray& judy_;
    Word_t at_, high_;
    void** slot_;
    size_t place_ = 0;
  };

  // Calls `f(key, row)` for the entries with `low <= key <= high` in order, until it returns false.
  template <class Visit>
  bool map(Key low, Key high, const Visit& f) const {
    if (low > high) return true;
    Word_t at = word_of(low);
    const Word_t end = word_of(high);
    for (auto** slot = first(at); slot != nullptr && at <= end; slot = following(at)) {
      if (is_row(*slot)) {
        if (!f(key_of(at), row_of(*slot))) return false;
        continue;
      }
      const auto* list = static_cast<const Rows*>(*slot);
      for (size_t place = list->gone; place < list->rows.size(); ++place) {
        if (!f(key_of(at), list->rows[place])) return false;
      }
    }
    return true;
  }

  size_t size() const { return size_; }
  size_t bytes() const { return JudyLMemUsed(array_) + lists_ * sizeof(Rows) + (listed_ + lists_) * sizeof(Row); }
  Figures figures() const {
    return {{"keys", static_cast<int64_t>(size_ - listed_)}, {"row_lists", static_cast<int64_t>(lists_)}};
  }

 private:
  using Bits = std::make_unsigned_t<K>;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(K) - 1);
  struct Rows {
    std::vector<Row> rows;
    size_t gone;  // of them, the first
  };

  static Word_t word_of(Key key) { return static_cast<Bits>(key) ^ kSign; }
  static Key key_of(Word_t word) { return static_cast<Key>(static_cast<Bits>(word) ^ kSign); }
  static void* packed(Row row) { return reinterpret_cast<void*>((static_cast<uintptr_t>(row) << 1) | 1); }
  static bool is_row(const void* value) { return reinterpret_cast<uintptr_t>(value) & 1; }
  static Row row_of(const void* value) { return static_cast<Row>(reinterpret_cast<uintptr_t>(value) >> 1); }

  void** first(Word_t& at) const { return reinterpret_cast<void**>(JudyLFirst(array_, &at, PJE0)); }
  void** following(Word_t& at) const { return reinterpret_cast<void**>(JudyLNext(array_, &at, PJE0)); }

  void swap(JudyArray& other) {
    std::swap(array_, other.array_);
    std::swap(size_, other.size_);
    std::swap(lists_, other.lists_);
    std::swap(listed_, other.listed_);
  }

  void* array_ = nullptr;
  size_t size_ = 0, lists_ = 0, listed_ = 0;  // `listed_`: rows beyond one of each key
};

}  // namespace muntin
