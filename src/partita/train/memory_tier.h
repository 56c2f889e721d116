// Checkpoints of a run in memory, which outlive its ranks: in the folder of `partita launch --restarts`
// (comm/memory_folder.h), from where ranks that are started anew resume.
//
//   const fs::path from = start_with_memory(config, prepare_start(config), require_usable);  // at a start, on rank 0
//   ...
//   MemoryTier tier({.run = config.run.directory, .every = 5, .local_ranks = 2}, world);
//   tier.count(step);                                                                        // after each step
//   if (tier.is_due(step)) tier.save(step, contents);
//
// FOLDER/RUN/step-00000055 is a checkpoint as on disk (checkpoint/checkpoint.h). RUN names the folder of the run as it
// is since its last rewind, so that nothing of before is found there.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "partita/checkpoint/communicator_peers.h"
#include "partita/checkpoint/contents.h"
#include "partita/comm/communicator.h"
#include "partita/comm/memory_folder.h"
#include "partita/config/config.h"

namespace partita::internal {

// Bytes of memory that checkpoints of so many bytes, over all ranks, take at most: the old one is there until the new
// one is complete.
[[nodiscard]] inline int64_t memory_tier_bytes(int64_t checkpoint_bytes) { return 2 * checkpoint_bytes; }

// Why checkpoints of so many bytes are not kept in memory; empty: they are. held: bytes that those of before take.
// free: memory of the machine, of which they may take half. free_folder: of the file system in memory. Pure.
[[nodiscard]] std::string memory_tier_problem(int64_t checkpoint_bytes, int64_t held, int64_t free,
                                              int64_t free_folder);

// The same, as it is now for a run whose checkpoints have so many bytes over all ranks; also empty without
// checkpoint.memory_every, or a folder for it.
[[nodiscard]] std::string memory_tier_warning(const Config&, int64_t checkpoint_bytes);

// The folder of a run's checkpoints in memory; empty: this process is not under `partita launch --restarts`.
[[nodiscard]] std::filesystem::path memory_root(const std::filesystem::path& run);

// Whether a checkpoint is one in memory.
[[nodiscard]] bool is_in_memory(const std::filesystem::path& checkpoint);

// Where the run starts: at `on_disk` (empty: at its first step), or at a newer checkpoint of this run in memory. Others
// in memory are removed; so are those for which require_usable(checkpoint) throws, with a warning. If the folder in
// memory cannot be read, that is a warning, too.
[[nodiscard]] std::filesystem::path start_with_memory(
    const Config&, const std::filesystem::path& on_disk,
    const std::function<void(const std::filesystem::path&)>& require_usable);

// For a checkpoint in memory that could not be loaded: removes it with a warning.
void discard_in_memory(const std::filesystem::path& checkpoint, const std::string& problem);

class MemoryTier {
 public:
  struct Options {
    std::filesystem::path run;
    int64_t every = 0;    // steps; 0: none
    int local_ranks = 1;  // of this machine
  };
  // Warns if there is no folder, or not all ranks are on this machine: is_due() is then always false. Collective;
  // `ranks` must outlive this object.
  MemoryTier(const Options&, Communicator& ranks);

  // Tells the launcher that so many steps are done.
  void count(int64_t step) {
    if (counter_) counter_->set(step);
  }
  [[nodiscard]] bool is_due(int64_t step) const { return !root_.empty() && step % every_ == 0; }
  // Replaces the checkpoint in memory. A failure, or a lack of memory, is a warning, and leaves the one before.
  // Collective.
  void save(int64_t step, const CheckpointContents&);

 private:
  void tell(const std::string& problem);

  CommunicatorPeers peers_;
  int64_t every_;
  std::optional<StepCounter> counter_;  // on rank 0
  std::filesystem::path root_;          // empty: none are made
  bool fails_ = false;                  // the last one was not made
  bool told_ = false;                   // that they are made
};

}  // namespace partita::internal
