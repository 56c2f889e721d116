#include "partita/config/optimizer_place.h"

#include <charconv>
#include <optional>
#include <string>

#include "partita/base/error.h"
#include "partita/base/printable.h"

namespace partita {
namespace {

constexpr double kRounding = 1e-9;  // 0.3 + 0.7 is all

// "host:0.6": the fraction; "host": 1; none: another word, or no fraction.
std::optional<double> share_of(std::string_view word, std::string_view name) {
  if (!word.starts_with(name)) return {};
  word.remove_prefix(name.size());
  if (word.empty()) return 1;
  double fraction = 0;
  const char* end = word.data() + word.size();
  if (word.front() != ':' || std::from_chars(word.data() + 1, end, fraction).ptr != end || word.size() == 1 ||
      !(fraction >= 0 && fraction <= 1))
    return {};
  return fraction;
}

// False: the text is none.
bool read(std::string_view text, OptimizerPlace& place) {
  if (text == "device") return true;
  bool host = false, disk = false;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view word = text.substr(0, comma);
    if (const auto share = share_of(word, "host"); share && !host)
      place.host = *share, host = true;
    else if (const auto other = share_of(word, "disk"); other && !disk)
      place.disk = *other, disk = true;
    else
      return false;
    if (comma == std::string_view::npos) return place.off_device() <= 1 + kRounding;
    text.remove_prefix(comma + 1);
  }
}

OptimizerPlace place_of(std::string_view key, std::string_view text) {
  OptimizerPlace place;
  if (!read(text, place))
    fail(
        "memory.{} is \"{}\", expected \"device\", \"host\" or \"disk\", or fractions of at most 1 together, such as "
        "\"host:0.6\" and \"host:0.3,disk:0.7\"",
        key, internal::printable_line(std::string(text)));
  return place;
}

}  // namespace

OptimizerPlace optimizer_place(std::string_view text) { return place_of("optimizer", text); }

OptimizerPlace parameters_place(std::string_view text) { return place_of("parameters", text); }

}  // namespace partita
