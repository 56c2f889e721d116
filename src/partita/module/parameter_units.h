// How the parameters of a user's module are grouped for sharding and reduction. Pure.
#pragma once
#include <cstdint>
#include <span>

#include "partita/shard/units.h"

namespace partita::internal {

// Consecutive parameters, until a unit has `elements` and all parameters of the module, by name, that its last one
// belongs to. Each unit is used by a block of its own, of the same number. All parameters are trainable, or none.
[[nodiscard]] UnitPlan plan_parameter_units(std::span<const ParameterSpec>, const UnitOptions&, int64_t elements);

}  // namespace partita::internal
