// Which parameters are gathered and reduced together. Pure.
//
// A unit is: the matrices of k neighboring layers; the embedding; the head (one unit with the embedding if tied); all
// vectors (biases, norms) and adapters of the model. Collectives want some 30M elements, models have the layers they
// have: k bridges the two. Frozen parameters are in units of their own, which have no gradient and are never rewritten.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/shard/layout.h"
#include "partita/shard/sharding.h"

namespace partita::internal {

// Which units may take turns in the same buffers (shard/slots.h).
enum class BufferPool : uint8_t { layers, embedding_and_head, persistent };

struct Unit {
  std::string name;
  Layout layout;
  DType weight = DType::fp32;
  DType gradient = DType::fp32;      // as blocks write it
  DType gradient_sum = DType::fp32;  // as it is summed over ranks and micro-batches
  BufferPool pool = BufferPool::layers;
  bool trainable = true;
};

struct Placement {  // where a block's parameter is
  int unit, parameter;
};

struct UnitOptions {
  int ranks = 1;                        // over which units are cut
  DType weight = DType::fp32;           // as it is gathered and computed with
  DType matrix_gradient = DType::fp32;  // of layers; that of all other units is fp32
  DType matrix_gradient_sum = DType::fp32;
  int layers_per_unit = 0;  // 0: automatic
};

struct UnitPlan {
  std::vector<Unit> units;                       // in the order of forward; vectors last
  std::vector<std::vector<Placement>> blocks;    // [block][parameter of the block]
  std::vector<std::vector<int>> units_of_block;  // [block]: distinct units, ascending
  std::vector<int> first_block, last_block;      // [unit]: of the blocks that apply its parameters
};

struct BlockParameters {
  BlockKind kind = BlockKind::layer;
  std::vector<ParameterSpec> parameters;
};

// A name that an embedding and a head both list is tied. Errors: no blocks; a name with two shapes.
[[nodiscard]] UnitPlan plan_units(std::span<const BlockParameters> blocks, const UnitOptions&);

// Layers per unit: enough for 30M elements, but at least four units, so that ZeRO-3 saves memory.
[[nodiscard]] int automatic_layers_per_unit(int64_t elements_per_layer, int layers);

// The lowest block with a parameter that is trained: the blocks below it have no backward. The number of blocks if none
// is.
[[nodiscard]] int first_trainable_block(const UnitPlan&);

}  // namespace partita::internal
