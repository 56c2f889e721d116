#include "partita/comm/screen.h"

#include <algorithm>

#include "partita/base/status_line.h"

namespace partita::internal {

namespace {

std::string_view fitting(std::string_view status, int width) {
  // Some terminals wrap when the last column is filled.
  const auto most = static_cast<size_t>(std::max(width - log::kFreeColumns - 1, 0));
  if (status.size() <= most) return status;
  const size_t cut = status.rfind("  ", most);
  return status.substr(0, cut == std::string_view::npos || cut == 0 ? most : cut);
}

}  // namespace

std::string Screen::show(std::string_view text, std::string_view status, int width) {
  if (!text.empty()) line_begun_ = text.back() != '\n';
  const std::string_view wanted = line_begun_ ? std::string_view() : fitting(status, width);
  if (text.empty() && wanted == drawn_) return {};
  std::string bytes = drawn_.empty() ? "" : "\r\x1b[K";
  bytes += text;
  bytes += wanted;
  drawn_ = wanted;
  return bytes;
}

}  // namespace partita::internal
