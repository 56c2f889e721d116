// Groups parameters into units that are gathered and reduced together. Pure.
//
// Units: the matrices of k neighboring layers; the embedding; the head (one unit with the embedding if tied); all
// vectors (biases, norms) and adapters of the model. k is chosen so that a collective moves about 30M elements. Frozen
// parameters get units of their own, which have no gradient and are never rewritten; so does a table that two pipeline
// stages hold, so that it has the same layout on both.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/shard/layout.h"
#include "partita/shard/sharding.h"
#include "partita/shard/states_place.h"

namespace partita::internal {

// Which units may share buffers in turn (shard/slots.h).
enum class BufferPool : uint8_t { layers, embedding_and_head, persistent };

struct Unit {
  std::string name;
  Layout layout;
  DType weight = DType::fp32;
  DType gradient = DType::fp32;      // as written by blocks
  DType gradient_sum = DType::fp32;  // as accumulated over ranks and micro-batches
  BufferPool pool = BufferPool::layers;
  bool trainable = true;
  ParameterSpec::Copy stage_copy = ParameterSpec::Copy::none;  // of its parameter, which is the only one
  StatesPlace states = StatesPlace::device;                    // see place_states
  StatesPlace weights = StatesPlace::device;                   // of this rank's slice: see place_weights
  bool shares_gradient_buffer = false;  // its gradient leaves the device as soon as it is complete
  bool adds_on_host = false;            // gradients of micro-batches are added in host memory: see place_gradient_sums

  [[nodiscard]] bool on_host() const { return states != StatesPlace::device; }  // or on disk
};

struct Placement {  // unit of a parameter, and its index there
  int unit, parameter;
};

struct UnitOptions {
  int ranks = 1;                        // over which units are sharded
  DType weight = DType::fp32;           // as gathered and used in compute
  DType matrix_gradient = DType::fp32;  // of layer units; all others use fp32
  DType matrix_gradient_sum = DType::fp32;
  int tensor_ranks = 1;     // that share each layer: all of them have the same units
  int layers_per_unit = 0;  // 0: automatic
};

struct UnitPlan {
  std::vector<Unit> units;                       // in forward order; vectors last
  std::vector<std::vector<Placement>> blocks;    // [block][parameter of the block]
  std::vector<std::vector<int>> units_of_block;  // [block]: distinct units, ascending
  std::vector<int> first_block, last_block;      // [unit]: range of blocks that use its parameters
};

struct BlockParameters {
  BlockKind kind = BlockKind::layer;
  std::vector<ParameterSpec> parameters;
  int chunk = 0;  // of the pipeline stage's blocks: units of layers do not span chunks
};

// A name listed by both an embedding and a head is tied. Errors: no blocks; a name with two shapes.
[[nodiscard]] UnitPlan plan_units(std::span<const BlockParameters> blocks, const UnitOptions&);

// Layers per unit: enough for 30M elements, but at least four units, so that ZeRO-3 saves memory.
[[nodiscard]] int automatic_layers_per_unit(int64_t elements_per_layer, int layers);

// The lowest block with a trainable parameter, or the number of blocks if there is none. Blocks below it have no
// backward.
[[nodiscard]] int first_trainable_block(const UnitPlan&);

}  // namespace partita::internal
