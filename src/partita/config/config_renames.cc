#include "partita/config/config_renames.h"

#include <array>

namespace partita::internal {

std::span<const ConfigRename> config_renames() {
  static constexpr std::array kRenames = {
      ConfigRename{"train.precision", "precision.compute"},
      ConfigRename{"train.states", "precision.states"},
      ConfigRename{"train.fp8", "precision.fp8"},
      ConfigRename{"train.fp32_gradients", "precision.fp32_gradients"},
      ConfigRename{"train.recompute", "memory.recompute"},
      ConfigRename{"train.recompute_full_layers", "memory.recompute_full_layers"},
      ConfigRename{"train.offload_optimizer", "memory.optimizer", "host", "device"},
      ConfigRename{"memory.offload_optimizer", "memory.optimizer", "host", "device"},
      ConfigRename{"train.offload_activations", "memory.offload_activations"},
      ConfigRename{"train.cuda_graph", "kernels.cuda_graph"},
      ConfigRename{"train.tune_matmul", "kernels.tune_matmul"},
      ConfigRename{"train.tuning_file", "kernels.tuning_file"},
      ConfigRename{"train.deterministic", "kernels.deterministic"},
      ConfigRename{"parallel.blocks_per_unit", "parallel.layers_per_collective"},
  };
  return kRenames;
}

}  // namespace partita::internal
