// Which parameters are gathered and reduced together, and in which memory. Pure.
//
// Units: the matrices of k neighbouring layers; the embedding and the head (one unit if tied); all vectors (biases, norms)
// and adapters of the model. Collectives want some 30M elements, models have the layers they have: k bridges the two.
// Frozen parameters lie in units of their own, which have no gradient and are never rewritten.
//
// ZeRO is a number of slots. Where full weights are kept (stages 0-2) every unit has a slot of its own; where they are not
// (stage 3) the layers share two, used in turn, so that one is gathered while the other is computed with. Gradients
// likewise (kept whole at stages 0 and 1). Vectors are small and keep their slot at every stage.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "partita/shard/layout.h"

namespace partita {

enum class Pool : uint8_t { layers, ends, own };

struct Unit {
  std::string name;
  Layout layout;
  DType weight = DType::fp32;
  DType gradient = DType::fp32;      // of what blocks write
  DType gradient_sum = DType::fp32;  // of what ranks and micro-batches are summed into
  Pool pool = Pool::layers;
  bool trainable = true;
};

struct Placement {  // where a block's parameter lies
  int unit, parameter;
};

struct UnitOptions {
  int ranks = 1;                        // over which units are sharded
  DType weight = DType::fp32;           // of what is gathered and computed with
  DType matrix_gradient = DType::fp32;  // of layers; of ends and vectors it is fp32
  DType matrix_gradient_sum = DType::fp32;
  int blocks_per_unit = 0;  // 0: automatic
};

struct UnitPlan {
  std::vector<Unit> units;                       // in the order of forward; vectors last
  std::vector<std::vector<Placement>> blocks;    // [block][parameter of the block]
  std::vector<std::vector<int>> units_of_block;  // [block]: distinct units, ascending
  std::vector<int> first_block, last_block;      // [unit]: of those that apply its parameters
};

// blocks[b]: the parameters of block b. The first block is the embedding and the last the head; a name that stands in
// both is tied. Errors: a name with two shapes; a model of fewer than two blocks.
[[nodiscard]] UnitPlan plan_units(std::span<const std::vector<ParameterSpec>> blocks, const UnitOptions&);

// Layers a unit: enough for 30M elements, but at least four units, so that stage 3 saves memory.
[[nodiscard]] int automatic_blocks_per_unit(int64_t elements_per_layer, int layers);

// Slots of a pool, and which of them each unit uses.
struct SlotPlan {
  std::vector<int> slot_of_unit;
  std::vector<int64_t> slot_count;            // elements, of the largest unit
  [[nodiscard]] bool shared(int unit) const;  // another unit has the same slot
};
enum class SlotsFor : uint8_t { weights, gradients };  // gradients: frozen units have none, their slot is -1
// few: layers share two slots; ends share one, or two where frozen and trainable ones meet; else each unit has its own.
[[nodiscard]] SlotPlan plan_slots(const UnitPlan&, bool few, SlotsFor);

// The lowest block with a parameter that is trained: those below have no backward. As many as there are blocks if none.
[[nodiscard]] int first_trainable_block(const UnitPlan&);

}  // namespace partita
