// Where the states of a ZeroOptimizer may be: checks before anything is allocated.
#pragma once
#include "partita/comm/communicator.h"
#include "partita/engine/offload.h"

namespace partita::internal {

// Errors, by name: fractions out of range, or of more than 1 together; a share on disk without a folder, or with an
// optimizer of torch, whose states are its own; what only an Engine has: activations, weights, sums of gradients, early
// updates. Pure.
void require_possible(const Offload&, bool of_torch);

// Creates the folder if it is missing. Error, on all ranks: it cannot be written on one of them. Collective.
void require_writable(const std::filesystem::path& disk_folder, Communicator& world);

}  // namespace partita::internal
