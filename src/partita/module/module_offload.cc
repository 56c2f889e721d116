#include "partita/module/module_offload.h"

#include "partita/base/error.h"
#include "partita/device/scratch_file.h"
#include "partita/module/module_state.h"

namespace partita::internal {
namespace {

constexpr double kRounding = 1e-9;  // 0.3 + 0.7 is all

void require_fraction(const char* name, double value) {
  if (!(value >= 0 && value <= 1))
    fail("ZeroOptimizer: offload.{} is {}, expected a fraction from 0 to 1", name, value);
}

}  // namespace

void require_possible(const Offload& offload, bool of_torch) {
  require_fraction("optimizer", offload.optimizer);
  require_fraction("disk", offload.disk);
  if (offload.optimizer + offload.disk > 1 + kRounding)
    fail("ZeroOptimizer: offload.optimizer {} and offload.disk {} are {} together, expected at most 1",
         offload.optimizer, offload.disk, offload.optimizer + offload.disk);
  if (offload.disk > 0 && offload.disk_folder.empty())
    fail("ZeroOptimizer: offload.disk {} without a folder: set offload.disk_folder to one on a fast local disk",
         offload.disk);
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
