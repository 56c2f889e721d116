#include "partita/train/memory_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"

namespace partita::internal {
namespace {

constexpr double kMargin = 0.01;
constexpr int64_t kMebibyte = 1 << 20;

std::string number_or_null(int64_t bytes) { return bytes > 0 ? fmt::format("{}", bytes) : "null"; }

}  // namespace

int64_t memory_margin(int64_t planned, int threads) {
  return (24 + 2 * threads) * kMebibyte + static_cast<int64_t>(kMargin * static_cast<double>(planned));
}

const MemoryUse& worst_of(std::span<const MemoryUse> ranks) {
  return *std::ranges::max_element(ranks, {}, [](const MemoryUse& u) { return u.measured - u.planned - u.saving; });
}

std::string memory_use_text(const MemoryUse& u) {
  std::string text = fmt::format("Memory per rank: {} planned", human_bytes(u.planned));
  if (u.measured <= 0) return text;
  const double more = 100 * (static_cast<double>(u.measured) / static_cast<double>(u.planned) - 1);
  text += fmt::format(", {} measured ({:.1f}% {}", human_bytes(u.measured), std::abs(more), more < 0 ? "less" : "more");
  if (u.saving > 0) text += fmt::format("; up to {} for checkpoints", human_bytes(u.saving));
  text += ")";
  if (u.reserved > 0) return text + fmt::format(", {} reserved", human_bytes(u.reserved));
  const char* position = u.measured > u.planned + u.saving + u.margin ? "beyond the margin of" : "margin";
  return text + fmt::format(", {} {}", position, human_bytes(u.margin));
}

std::string to_json(const MemoryUse& u) {
  return fmt::format(R"({{"planned":{},"measured":{},"reserved":{},"saving":{},"margin":{}}})", u.planned,
                     number_or_null(u.measured), number_or_null(u.reserved), number_or_null(u.saving),
                     number_or_null(u.margin));
}

MemoryUse parse_memory_use(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  const auto bytes = [&](const char* name) { return json.at(name).is_null() ? 0 : json.at(name).get<int64_t>(); };
  return {.planned = bytes("planned"),
          .measured = bytes("measured"),
          .reserved = bytes("reserved"),
          .saving = bytes("saving"),
          .margin = bytes("margin")};
}

}  // namespace partita::internal
