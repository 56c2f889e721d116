// What the tensor-parallel ranks of an engine's model divide, from a plan by names of parameters. Pure.
//
//   divide_model(gpt2_small(), {{"embedding", TensorRole::replicate}, {"layers.0.attention", TensorRole::replicate}})
//
// By default, every linear of a layer is divided, by column where it reads the residual stream and by row where it
// writes it, and so are the tables of the embedding and the head, by vocabulary. What is replicated instead is on every
// rank, which saves exchanges where a matrix is small, and needs no heads to divide.
#pragma once
#include <string>
#include <vector>

#include "partita/models/config.h"
#include "partita/nn/tensor_role.h"

namespace partita {

// Attention, and the MLP, of a layer: divided, or replicated on every rank.
struct LayerDivision {
  bool attention = true, mlp = true;
  friend bool operator==(const LayerDivision&, const LayerDivision&) = default;
};

struct TensorDivision {
  bool embedding = true, head = true;  // a tied head: as the embedding
  std::vector<LayerDivision> layers;   // one per layer of the model; empty: all are divided

  [[nodiscard]] LayerDivision layer(int64_t index) const {
    return layers.empty() ? LayerDivision{} : layers.at(static_cast<size_t>(index));
  }
  friend bool operator==(const TensorDivision&, const TensorDivision&) = default;
};

struct NamedRole {
  // Of names of parameters, "layers.3.mlp.up.weight", or of what they belong to, "layers.3.mlp". '*' stands for any
  // characters but a point, '**' for any characters (base/name_pattern.h).
  std::string pattern;
  TensorRole role = TensorRole::replicate;
};
using DivisionPlan = std::vector<NamedRole>;

// The first pattern that matches a parameter counts; biases and adapters follow their matrix. Errors: a pattern that
// matches nothing, with the nearest names; a role that a parameter cannot have; a column without its row.
[[nodiscard]] TensorDivision divide_model(const ModelConfig&, const DivisionPlan&);

}  // namespace partita

namespace partita::internal {

// "embedding, attention of layers 0-2, MLP of layer 5": what is replicated; empty: nothing.
[[nodiscard]] std::string replicated_text(const TensorDivision&);

}  // namespace partita::internal
