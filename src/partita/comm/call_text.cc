#include "partita/comm/call_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace partita::internal {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kGroups = {{
    {"world", "all ranks"},
    {"self-check", "all ranks in the self-check"},
    {"end", "all ranks at the end"},
    {"dp", "the data-parallel ranks"},
    {"cp", "the context-parallel ranks"},
    {"dpcp", "the data- and context-parallel ranks"},
    {"tp", "the tensor-parallel ranks"},
    {"pp", "the pipeline ranks"},
    {"kv", "the ranks that share key/value heads"},
    {"ends", "the first and the last pipeline rank"},
}};

}  // namespace

std::string call_text(std::string_view group, std::string_view kind, int64_t number, int peer) {
  constexpr std::string_view kEdge = "pp ";
  if (const size_t arrow = group.find('>'); group.starts_with(kEdge) && arrow != group.npos)
    return fmt::format("message no. {} from pipeline rank {} to {}", number,
                       group.substr(kEdge.size(), arrow - kEdge.size()), group.substr(arrow + 1));
  const auto found = std::ranges::find(kGroups, group, &decltype(kGroups)::value_type::first);
  std::string words(kind);
  std::ranges::replace(words, '_', '-');
  return fmt::format("{} no. {} of {}{}", words, number, found == kGroups.end() ? group : found->second,
                     peer < 0 ? std::string() : fmt::format(" with rank {}", peer));
}

}  // namespace partita::internal
