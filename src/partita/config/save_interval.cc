#include "partita/config/save_interval.h"

#include <array>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/number.h"

namespace partita::internal {

SaveInterval save_interval(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 3> kUnits = {{{"min", 60}, {"s", 1}, {"h", 3600}}};
  if (text.empty()) return {};
  if (text == "auto") return {.automatic = true};
  for (const auto& [unit, seconds] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto number = parse_number<double>(text.substr(0, text.size() - unit.size()));
    if (number && *number > 0 && *number * seconds <= 1e9) return {.seconds = *number * seconds};
  }
  fail(
      "checkpoint.interval is \"{}\": expected a time such as 90s, 20min or 2h, auto, or nothing for no limit on the "
      "time between checkpoints",
      text);
}

}  // namespace partita::internal
