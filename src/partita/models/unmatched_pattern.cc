#include "partita/models/unmatched_pattern.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <tuple>

#include "partita/base/name_pattern.h"
#include "partita/base/nearest.h"

namespace partita::internal {
namespace {

constexpr size_t kShownNames = 3;
// Distances of names are counted in half letters, so that an abbreviation counts less than any replaced letter.
constexpr size_t kAbbreviation = 1, kLetter = 2, kMissing = 3, kLeftOver = 8;  // the last two: of a component

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Numbers become '*'.
std::vector<std::string> components(std::string_view name) {
  std::vector<std::string> all;
  while (true) {
    const size_t point = name.find('.');
    const std::string_view part = name.substr(0, point);
    all.emplace_back(is_number(part) ? "*" : part);
    if (point == std::string_view::npos) return all;
    name.remove_prefix(point + 1);
  }
}

// "attn" of "attention"
bool is_abbreviation(std::string_view part, std::string_view whole) {
  if (part.size() < 2) return false;
  for (const char c : whole)
    if (!part.empty() && part.front() == c) part.remove_prefix(1);
  return part.empty();
}

size_t component_distance(const std::string& a, const std::string& b) {
  if (a == b) return 0;
  if (is_abbreviation(a, b) || is_abbreviation(b, a)) return kAbbreviation;
  return kLetter * edit_distance(a, b);
}

// Of the components of a pattern from those of a name.
size_t names_distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<size_t> above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j * kMissing;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i * kLeftOver;
    for (size_t j = 1; j <= b.size(); ++j)
      row[j] = std::min(
          {above[j] + kLeftOver, row[j - 1] + kMissing, above[j - 1] + component_distance(a[i - 1], b[j - 1])});
    std::swap(above, row);
  }
  return above[b.size()];
}

// As patterns of all layers: "layers.*.mlp.up".
std::vector<std::string> nearest_names(std::string_view pattern, const std::vector<std::string>& matrices) {
  struct Candidate {
    size_t distance, letters;
    std::string name;
  };
  const std::vector<std::string> typed = components(pattern);
  const std::string text = fmt::format("{}", fmt::join(typed, "."));
  std::vector<Candidate> all;
  for (const std::string& matrix : matrices)
    for (std::string_view name = matrix; !name.empty(); name = name_above(name)) {
      const std::vector<std::string> parts = components(name);
      std::string shown = fmt::format("{}", fmt::join(parts, "."));
      if (shown == "layers" || shown == "layers.*" || std::ranges::find(all, shown, &Candidate::name) != all.end())
        continue;
      all.push_back({names_distance(typed, parts), edit_distance(text, shown), std::move(shown)});
    }
  std::ranges::stable_sort(all, {}, [](const Candidate& c) { return std::tuple(c.distance, c.letters); });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(all.size(), kShownNames); ++i) names.push_back(std::move(all[i].name));
  return names;
}

bool matches_any(std::string_view pattern, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return matches_name_or_above(pattern, name); });
}

// "layers.9.mlp" of four layers.
bool names_layer_beyond(std::string_view pattern, const PatternNames& names) {
  constexpr std::string_view kLayers = "layers.";
  if (!pattern.starts_with(kLayers)) return false;
  const std::string_view rest = pattern.substr(kLayers.size()), number = rest.substr(0, rest.find('.'));
  return is_number(number) && matches_any(fmt::format("{}0{}", kLayers, rest.substr(number.size())), names.matrices);
}

}  // namespace

std::string_view name_above(std::string_view name) {
  const size_t point = name.rfind('.');
  return point == std::string_view::npos ? std::string_view() : name.substr(0, point);
}

bool matches_name_or_above(std::string_view pattern, std::string_view name) {
  for (; !name.empty(); name = name_above(name))
    if (matches_name(pattern, name)) return true;
  return false;
}

std::string unmatched_pattern(std::string_view pattern, const PatternNames& names) {
  if (names.tied_head && matches_any(pattern, {"head.weight", "lm_head.weight"}))
    return fmt::format("\"{}\" matches nothing: the head is tied to the embedding: use \"embedding\"", pattern);
  if (names_layer_beyond(pattern, names))
    return fmt::format("\"{}\" matches nothing: the model has {}", pattern,
                       names.layers == 1 ? "only layer 0" : fmt::format("layers 0 to {}", names.layers - 1));
  if (const size_t at = pattern.find_first_of("?[]{}-,"); at != std::string_view::npos)
    return fmt::format(
        "\"{}\" matches nothing: only * (anything but a point) and ** (anything) are patterns, '{}' is not: give each "
        "layer a pattern of its own",
        pattern, pattern[at]);
  return fmt::format("\"{}\" matches no parameter of the model: the nearest names are {}", pattern,
                     fmt::join(nearest_names(pattern, names.matrices), ", "));
}

}  // namespace partita::internal
