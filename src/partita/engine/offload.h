// What is kept in host memory or on disk instead of device memory: of an engine (EngineOptions), and of what a
// ZeroOptimizer trains (ZeroOptimizerOptions).
//
//   const Offload offload{.optimizer = 0.6, .disk = 0.3, .disk_folder = "/nvme/scratch"};
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "partita/device/copies.h"

namespace partita {

// On the CPU the same copies are made within host memory.
struct Offload {
  // Fraction of master weights, optimizer states and gradients, updated by the host: of whole units (place_states).
  double optimizer = 0;
  double disk = 0;  // the same, with master weights and optimizer states in a file in disk_folder
  std::filesystem::path disk_folder;
  // Fractions of the weights in the compute dtype that are in host memory and in a file (place_weights). At every ZeRO
  // stage full weights of such units exist only around their use.
  double weights = 0, weights_disk = 0;
  bool gradients = false;  // gradients of micro-batches are added in host memory: of units that the host updates
  // The host updates a unit as soon as its gradient has arrived, under the backward pass of others, with the clipping
  // factor of StepInput::previous_norm.
  bool early_updates = false;
  int activations = 0;                                        // offload saved activations of the first N layers
  std::function<std::unique_ptr<internal::Copies>()> copies;  // copy implementation; empty: make_copies of the device
};

}  // namespace partita

namespace partita::internal {

// Errors, by name, beginning with who has the offload: fractions out of range, or of more than 1 together; a share on
// disk without a folder. Pure.
void check_shares(const Offload&, std::string_view who);

}  // namespace partita::internal
