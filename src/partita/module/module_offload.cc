#include "partita/module/module_offload.h"

#include "partita/base/error.h"
#include "partita/device/scratch_file.h"
#include "partita/module/module_state.h"

namespace partita::internal {
void require_possible(const Offload& offload, bool of_torch) {
  check_shares(offload, "ZeroOptimizer");
  if (offload.disk > 0 && of_torch)
    fail(
        "ZeroOptimizer: offload.disk {} with an optimizer of torch, which keeps its states in memory: use "
        "offload.optimizer, or OptimizerOptions::kind instead of torch_optimizer",
        offload.disk);
  if (offload.activations != 0)
    fail(
        "ZeroOptimizer: offload.activations {}, expected 0: activations are autograd's; recompute() "
        "(module/recompute.h) makes them fewer",
        offload.activations);
  const bool more = offload.weights != 0 || offload.weights_disk != 0 || offload.gradients || offload.early_updates;
  if (more)
    fail(
        "ZeroOptimizer: offload.weights, weights_disk, gradients and early_updates are an Engine's: leave them out; "
        "stage 3 divides weights and gradients over the ranks");
}

void require_writable(const std::filesystem::path& disk_folder, Communicator& world) {
  require_on_all(world, [&] { const ScratchFile probe(disk_folder, 0); });
}

}  // namespace partita::internal
