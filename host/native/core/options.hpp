// Options by the names that users give them, each of its own type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace muntin {

// Who reads an option says its type, its bounds and its default. An option that no one reads is refused.
class Options {
 public:
  using Value = std::variant<bool, int64_t, double, std::string>;
  using Map = std::map<std::string, Value>;

  Options() = default;
  explicit Options(Map values) : values_(std::move(values)) {}

  bool flag(const std::string& name, bool otherwise) const { return get<bool>(name, otherwise, "true or false"); }
  // A whole number of at least `min`.
  size_t whole(const std::string& name, size_t min, size_t otherwise) const {
    const auto value = get<int64_t>(name, static_cast<int64_t>(otherwise), "a whole number");
    if (value < static_cast<int64_t>(min)) throw std::invalid_argument(name + " is at least " + std::to_string(min));
    return static_cast<size_t>(value);
  }
  // A number above `above`, and at most `max`.
  double real(const std::string& name, double above, double max, double otherwise) const {
    const Value* const value = find(name);
    if (value == nullptr) return otherwise;
    const int64_t* const whole = std::get_if<int64_t>(value);
    const double number = whole ? static_cast<double>(*whole) : get<double>(name, otherwise, "a number");
    if (!(number > above && number <= max)) {
      std::ostringstream bounds;
      bounds << name << " is more than " << above << " and at most " << max;
      throw std::invalid_argument(bounds.str());
    }
    return number;
  }
  // The place of one of these names; the first by default.
  size_t choice(const std::string& name, std::initializer_list<const char*> names) const {
    const auto value = get<std::string>(name, *names.begin(), "a name");
    const auto at = std::find(names.begin(), names.end(), value);
    if (at == names.end()) throw std::invalid_argument("there is no " + name + " " + value);
    return static_cast<size_t>(at - names.begin());
  }

  // Throws where there is an option that no one has read.
  void check_read(const std::string& of) const {
    for (const auto& [name, value] : values_) {
      if (!read_->contains(name)) throw std::invalid_argument(of + " has no option " + name);
    }
  }

 private:
  const Value* find(const std::string& name) const {
    if (!read_->contains(name)) read_->insert(name);  // who reads them again, in any thread, changes nothing
    const auto at = values_.find(name);
    return at == values_.end() ? nullptr : &at->second;
  }
  template <class T>
  T get(const std::string& name, T otherwise, const char* kind) const {
    const Value* const value = find(name);
    if (value == nullptr) return otherwise;
    const T* const own = std::get_if<T>(value);
    if (own == nullptr) throw std::invalid_argument(name + " is " + kind);
    return *own;
  }

  Map values_;
  std::shared_ptr<std::set<std::string>> read_ = std::make_shared<std::set<std::string>>();  // of all copies
};

// An index by name, with its options, and the index within it: "slices/csb_tree", whose options begin with "of.".
struct IndexSpec {
  std::string name;
  Options options;
  std::shared_ptr<const IndexSpec> of;

  static IndexSpec parse(const std::string& name, const Options::Map& given) {
    const size_t slash = name.find('/');
    Options::Map own, within;
    for (const auto& [option, value] : given) {
      if (option.starts_with("of.")) {
        within[option.substr(3)] = value;
      } else {
        own[option] = value;
      }
    }
    IndexSpec spec{name.substr(0, slash), Options(std::move(own)), nullptr};
    if (slash != std::string::npos) {
      spec.of = std::make_shared<const IndexSpec>(parse(name.substr(slash + 1), within));
    } else if (!within.empty()) {
      throw std::invalid_argument("the index " + name + " has none within it");
    }
    return spec;
  }
  void check_read() const {
    options.check_read("the index " + name);
    if (of) of->check_read();
  }
};

}  // namespace muntin
