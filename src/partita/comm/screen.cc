#include "partita/comm/screen.h"

#include <algorithm>

namespace partita {

std::string Screen::show(std::string_view text, std::string_view status, int width) {
  // Room for the ^C that a terminal shows by itself; and where the last column is filled some move to the next line.
  constexpr int kRoom = 3;
  const std::string_view fits = status.substr(0, static_cast<size_t>(std::max(width - kRoom, 0)));
  if (!text.empty()) line_begun_ = text.back() != '\n';
  const std::string_view wanted = line_begun_ ? std::string_view() : fits;
  if (text.empty() && wanted == drawn_) return {};
  std::string bytes = drawn_.empty() ? "" : "\r\x1b[K";
  bytes += text;
  bytes += wanted;
  drawn_ = wanted;
  return bytes;
}

}  // namespace partita
