#include "partita/config/optimizer_place.h"

#include <charconv>

#include "partita/base/error.h"
#include "partita/base/printable.h"

namespace partita {

double optimizer_on_host(std::string_view place) {
  if (place == "device") return 0;
  if (place == "host") return 1;
  constexpr std::string_view kHost = "host:";
  double fraction = 0;
  const std::string_view number = place.starts_with(kHost) ? place.substr(kHost.size()) : "";
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fraction);
  if (error != std::errc() || end != number.data() + number.size() || !(fraction >= 0 && fraction <= 1))
    fail(
        "memory.optimizer is \"{}\", expected \"device\", \"host\", or \"host:\" with a fraction from 0 to 1, such as "
        "\"host:0.6\"",
        internal::printable_line(std::string(place)));
  return fraction;
}

}  // namespace partita
