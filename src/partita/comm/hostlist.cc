#include "partita/comm/hostlist.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr size_t kMostHosts = 1 << 20;  // a corrupt list must not exhaust memory

class Parser {
 public:
  explicit Parser(std::string_view list) : list_(list) {}

  std::vector<std::string> hosts() {
    std::vector<std::string> all;
    if (list_.empty()) return all;
    while (true) {
      for (std::string& name : names()) all.push_back(std::move(name));
      if (at_ == list_.size()) return all;
      ++at_;  // skips the comma
    }
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    fail("host list '{}': {} at character {}", list_, what, at_ + 1);
  }

  // One entry up to a comma or the end: text and brackets in any order.
  std::vector<std::string> names() {
    std::vector<std::string> names{""};
    const size_t begin = at_;
    while (at_ < list_.size() && list_[at_] != ',') {
      if (list_[at_] == ']') wrong("']' without '['");
      std::vector<std::string> endings;
      if (list_[at_] == '[') {
        endings = numbers();
      } else {
        const size_t end = std::min(list_.find_first_of("[],", at_), list_.size());
        endings.emplace_back(list_.substr(at_, end - at_));
        at_ = end;
      }
      if (names.size() * endings.size() > kMostHosts) wrong("more than a million hosts");
      std::vector<std::string> longer;
      longer.reserve(names.size() * endings.size());
      for (const std::string& name : names)
        for (const std::string& ending : endings) longer.push_back(name + ending);
      names = std::move(longer);
    }
    if (at_ == begin) wrong("an empty name");
    return names;
  }

  // "[1-3,07]" is 1, 2, 3, 07.
  std::vector<std::string> numbers() {
    std::vector<std::string> all;
    do {
      ++at_;  // skips the bracket or comma
      const size_t width_from = at_;
      const uint64_t first = number();
      const size_t width = at_ - width_from;
      uint64_t last = first;
      if (at_ < list_.size() && list_[at_] == '-') {
        ++at_;
        last = number();
        if (last < first) wrong("a range that descends");
      }
      if (last - first >= kMostHosts) wrong("more than a million hosts");
      for (uint64_t n = first; n <= last; ++n) all.push_back(fmt::format("{:0{}}", n, width));
    } while (at_ < list_.size() && list_[at_] == ',');
    if (at_ == list_.size() || list_[at_] != ']') wrong("expected ']'");
    ++at_;
    return all;
  }

  uint64_t number() {
    uint64_t value = 0;
    const char* begin = list_.data() + at_;
    const auto [end, error] = std::from_chars(begin, list_.data() + list_.size(), value);
    if (error != std::errc{} || value > UINT32_MAX) wrong("expected a number");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  std::string_view list_;
  size_t at_ = 0;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view list) { return Parser(list).hosts(); }

}  // namespace partita::internal
