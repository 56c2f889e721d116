#include "partita/config/frozen.h"

#include <fnmatch.h>

#include <algorithm>

#include "partita/base/comma_list.h"
#include "partita/base/error.h"

namespace partita::internal {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace

FrozenParameters::FrozenParameters(std::string_view patterns, const LoraConfig& lora) : adapters_alone_(lora.rank > 0) {
  for (const std::string_view pattern : comma_list(patterns))
    if (!pattern.empty()) patterns_.emplace_back(pattern);
}

bool FrozenParameters::operator()(const ParameterSpec& p) const {
  if (adapters_alone_ && !p.adapter) return true;
  return std::ranges::any_of(patterns_, [&](const std::string& pattern) { return matches(pattern, p.name); });
}

void FrozenParameters::check(const std::vector<ParameterSpec>& parameters) const {
  for (const std::string& pattern : patterns_)
    if (std::ranges::none_of(parameters, [&](const ParameterSpec& p) { return matches(pattern, p.name); }))
      fail("train.freeze: no parameter is called \"{}\"; the first is {}", pattern, parameters.front().name);
  if (std::ranges::all_of(parameters, [&](const ParameterSpec& p) { return (*this)(p); }))
    fail("train.freeze leaves nothing to train: name fewer parameters");
}

}  // namespace partita::internal
