// What the plan of a configuration divides.
#include <fmt/ranges.h>

#include <optional>
#include <string>

#include "partita/base/error.h"
#include "partita/config/config.h"

namespace partita {
using namespace internal;
namespace {

// "a.toml:12: "; empty: the place is not known.
std::string place_of_plan(const ConfigSources* sources) {
  if (sources == nullptr) return "";
  const auto source = sources->find("parallel.plan");
  return source == sources->end() ? std::string() : source->second + ": ";
}

}  // namespace

TensorDivision tensor_division(const Config& c, const ConfigSources* sources) {
  try {
    DivisionPlan plan;
    for (const auto& [pattern, name] : c.parallel.plan) {
      const std::optional<TensorRole> role = find_enum<TensorRole>(name);
      if (!role)
        fail("\"{}\" = \"{}\": expected one of {}", pattern, name, fmt::join(EnumNames<TensorRole>::kNames, ", "));
      plan.push_back({pattern, *role});
    }
    return divide_model(c.model, plan);
  } catch (const Error& error) {
    fail("{}parallel.plan: {}", place_of_plan(sources), error.what());
  }
}

}  // namespace partita
