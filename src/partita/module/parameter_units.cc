#include "partita/module/parameter_units.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace partita::internal {
namespace {

// The module's part of a parameter's name: those of one module are used together.
std::string_view module_of(std::string_view parameter) {
  const size_t point = parameter.rfind('.');
  return point == std::string_view::npos ? std::string_view() : parameter.substr(0, point);
}

}  // namespace

UnitPlan plan_parameter_units(std::span<const ParameterSpec> parameters, const UnitOptions& options, int64_t elements) {
  UnitPlan plan;
  std::vector<ParameterSpec> members;
  int64_t count = 0;
  const auto add = [&] {
    if (members.empty()) return;
    const int unit = static_cast<int>(plan.units.size());
    const ParameterSpec::Copy copy = members.front().stage_copy;
    const bool trainable = members.front().trainable;
    plan.units.push_back({.name = fmt::format("unit {}", unit),
                          .layout = make_layout(std::exchange(members, {}), options.ranks),
                          .weight = options.weight,
                          .gradient = options.matrix_gradient,
                          .gradient_sum = options.matrix_gradient_sum,
                          .pool = BufferPool::layers,
                          .trainable = trainable,
                          .stage_copy = copy});
    plan.units_of_block.push_back({unit});
    plan.first_block.push_back(unit);
    plan.last_block.push_back(unit);
    std::vector<Placement>& block = plan.blocks.emplace_back();
    for (int p = 0; p < static_cast<int>(plan.units.back().layout.parameters.size()); ++p) block.push_back({unit, p});
    count = 0;
  };
  for (const ParameterSpec& p : parameters) {
    const bool apart = p.stage_copy != ParameterSpec::Copy::none;  // its gradients are summed over the two ranks
    if (apart || (count >= elements && module_of(p.name) != module_of(members.back().name))) add();
    members.push_back(p);
    count += p.count();
    if (apart) add();
  }
  add();
  return plan;
}

}  // namespace partita::internal
