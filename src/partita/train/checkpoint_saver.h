// Saves the checkpoints of a run: in the background, where there is memory for a copy of what is saved, or at once.
//
//   CheckpointSaver saver({.root = checkpoints_folder(run), .device = device}, world);
//   saver.begin(step, contents, [&](Event copied) { engine.hold_updates(copied); });
//   after each step:
//     if (all ranks say saver.is_idle())
//       if (auto saved = saver.advance()) log::info("saved {}", saved->folder.string());
//   at the end:
//     saver.finish(); saver.save_now(step, contents);
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "partita/base/timer.h"
#include "partita/checkpoint/background_save.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/config/config.h"
#include "partita/device/stream.h"
#include "partita/monitor/metrics.h"

namespace partita::internal {

[[nodiscard]] inline Retention retention_of(const CheckpointConfig& c) {
  return {.keep_last = static_cast<int>(c.keep_last), .keep_every = c.keep_every, .keep_hours = c.keep_hours};
}

// Whether a copy of what a rank saves is made. free: bytes that it can allocate, without those of the other ranks of
// its machine. Pure.
[[nodiscard]] bool fits_in_background(Switch background, int64_t snapshot_bytes, int64_t free);

// The turn of a rank among those of its machine, of which `writers` write at the same time (0: all). Pure.
[[nodiscard]] int writer_turn(int local_rank, int64_t writers);

class CheckpointSaver {
 public:
  struct Options {
    std::filesystem::path root;
    CheckpointConfig checkpoint;
    at::Device device = at::kCPU;  // whose memory is copied
    int local_rank = 0, local_ranks = 1;
  };
  // `ranks` must outlive this object. Collective.
  CheckpointSaver(Options, Communicator& ranks);
  ~CheckpointSaver();  // gives up a running save; its event has then happened

  // All that follow are collective, but for is_idle. Errors: those of save_checkpoint, the same on all ranks; the save
  // is then over.

  // Begins a save, after the last one is complete. hold_updates(event): what `contents` refer to must not change until
  // the event. `since`: when training stopped for it. Returns the checkpoint if it is complete on return.
  std::optional<SaveMetrics> begin(int64_t step, CheckpointContents contents,
                                   const std::function<void(Event)>& hold_updates, const Timer& since = {});
  [[nodiscard]] bool is_running() const { return running_ != nullptr; }
  [[nodiscard]] bool is_idle() const;
  // Goes on with the running save, if there is one, when all ranks are idle. Returns it once it is complete.
  std::optional<SaveMetrics> advance();
  // Waits for the running save.
  std::optional<SaveMetrics> finish();
  SaveMetrics save_now(int64_t step, const CheckpointContents& contents, const Timer& since = {});

  // Host memory that saves have taken: of the copy, and of what is on its way to the disk.
  [[nodiscard]] int64_t memory_bytes() const { return snapshot_bytes() + buffer_bytes_; }

 private:
  struct Running;
  [[nodiscard]] SaveOptions save_options() const;
  [[nodiscard]] int64_t snapshot_bytes() const { return memory_.defined() ? memory_.numel() : 0; }
  void count_buffers(const CheckpointContents&);
  // Memory for a copy, or none on all ranks.
  [[nodiscard]] bool prepare_memory(const CheckpointContents&);
  [[nodiscard]] std::optional<SaveMetrics> go_on(const std::function<bool()>& phase);

  Options options_;
  CommunicatorPeers peers_;
  int turns_ = 1;
  at::Tensor memory_;  // bytes
  int64_t buffer_bytes_ = 0;
  bool told_ = false;  // why saves are not in the background
  std::shared_ptr<Running> running_;
};

}  // namespace partita::internal
