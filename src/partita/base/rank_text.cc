#include "partita/base/rank_text.h"

#include <fmt/format.h>

namespace partita::internal {
namespace {

bool names_rank(std::string_view message) {
  constexpr std::string_view kBegin = "rank ";
  if (!message.starts_with(kBegin)) return false;
  message.remove_prefix(kBegin.size());
  const size_t digits = message.find_first_not_of("0123456789");
  return digits != 0 && digits != message.npos && message.substr(digits).starts_with(": ");
}

}  // namespace

std::string of_rank(int rank, std::string_view message) {
  return names_rank(message) ? std::string(message) : fmt::format("rank {}: {}", rank, message);
}

}  // namespace partita::internal
