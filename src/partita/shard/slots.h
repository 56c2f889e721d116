// Assigns units to buffers (slots). Pure.
//
// ZeRO stages differ in the number of slots. With full weights (ZeRO-0 to 2) every unit has its own slot; with sharded
// weights (ZeRO-3) the layers alternate between two, so one is gathered while the other is in use. Gradients likewise,
// with one slot per unit at ZeRO-0 and 1. Vectors are small and keep their own slot at every stage.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "partita/shard/units.h"

namespace partita::internal {

struct SlotPlan {
  std::vector<int> slot_of_unit;    // -1: none
  std::vector<int64_t> slot_count;  // elements of the slot's largest unit
  std::vector<DType> slot_dtype;

  [[nodiscard]] bool shared(int unit) const;  // with another unit
};

enum class SlotContent : uint8_t { weights, gradients };  // gradients: frozen units have no slot

// Of the units that share: layers share two slots; the embedding and the head share one, or two if they have both
// frozen and trainable parameters. Each other unit has its own.
[[nodiscard]] SlotPlan plan_slots(const UnitPlan&, const std::function<bool(const Unit&)>& shares, SlotContent);
[[nodiscard]] SlotPlan weight_slots(const UnitPlan&, const Sharding&);

// Whether full weights of the unit exist only around their use: the slice is stored outside the slot.
[[nodiscard]] bool is_gathered_for_use(const Unit&, const Sharding&);
// Whether a unit's weights are gathered into their slot: with several ranks, or for each use.
[[nodiscard]] bool is_gathered(const Unit&, const Sharding&);

}  // namespace partita::internal
