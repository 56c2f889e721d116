// Which units share a buffer. Pure.
//
// ZeRO is a number of slots. Where full weights are kept (ZeRO 0 to 2) every unit has a slot of its own; where they are
// not (ZeRO 3) the layers share two, used in turn, so that one is gathered while the other is computed with. Gradients
// likewise: kept whole at ZeRO 0 and 1. Vectors are small and keep their slot at every stage.
#pragma once
#include <cstdint>
#include <vector>

#include "partita/shard/units.h"

namespace partita::internal {

struct SlotPlan {
  std::vector<int> slot_of_unit;    // -1: the unit has none
  std::vector<int64_t> slot_count;  // elements, of the largest unit
  std::vector<DType> slot_dtype;

  [[nodiscard]] bool shared(int unit) const;  // another unit has the same slot
};

enum class SlotContent : uint8_t { weights, gradients };  // gradients: frozen units have no slot

// shared: layers share two slots; the embedding and the head share one, or two where frozen and trained parameters of
// theirs meet; false: each unit has its own.
[[nodiscard]] SlotPlan plan_slots(const UnitPlan&, bool shared, SlotContent);

// Whether a unit's weights are gathered into their slot: there are other ranks, or the slice is outside the slot.
[[nodiscard]] bool is_gathered(const Unit&, const Sharding&);

}  // namespace partita::internal
