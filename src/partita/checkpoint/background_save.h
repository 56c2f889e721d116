// A save whose copying and writing overlap with training. What is saved is first copied to memory of the caller, and
// written from there.
//
//   std::optional<BackgroundSave> saving;
//   saving.emplace(root, step, contents, memory, peers);           // collective; memory: snapshot_bytes(contents)
//   ...
//   saving->wait_copied();                                         // before what `contents` refers to is changed
//   ...
//   if (every rank says saving->is_idle())                         // after any step; the same on all ranks
//     if (saving->advance(peers)) saving.reset();                  // collective; true: durable
//
// or, to wait: saving->finish(peers).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "partita/base/timer.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/save_phases.h"

namespace partita::internal {

// Of the copies of this rank's pieces.
[[nodiscard]] int64_t snapshot_bytes(const CheckpointContents&);

class BackgroundSave {
 public:
  // Collective. `memory`, of snapshot_bytes(contents), and what the contents refer to outlive this object. Errors:
  // those of save_checkpoint that are raised before the first byte is written.
  BackgroundSave(std::filesystem::path root, int64_t step, CheckpointContents, std::span<std::byte> memory, Peers&,
                 const SaveOptions& = {});
  ~BackgroundSave();  // gives up what is not complete
  BackgroundSave(const BackgroundSave&) = delete;
  BackgroundSave& operator=(const BackgroundSave&) = delete;

  [[nodiscard]] bool is_copied() const { return copied_; }
  void wait_copied() const;
  // Nothing of this rank runs in the background. Once that is so on all ranks, it is time for advance().
  [[nodiscard]] bool is_idle() const { return idle_; }
  // Goes on to the next phase. Returns true once the checkpoint is durable. Collective. Error: the save has failed on
  // some rank; the same on all ranks, and this object is of no more use.
  [[nodiscard]] bool advance(Peers&);
  // Waits until the checkpoint is durable. Collective. Error: as advance().
  void finish(Peers&);

  [[nodiscard]] const std::filesystem::path& folder() const { return save_.folder(); }
  // From the construction until the copy was made; after wait_copied().
  [[nodiscard]] double copy_seconds() const { return copy_seconds_; }
  // From the construction until the checkpoint was durable, as far as this rank knows; after advance() returned true.
  [[nodiscard]] double durable_seconds() const { return durable_seconds_; }
  [[nodiscard]] int64_t bytes() const { return save_.bytes(); }  // of all ranks' files

 private:
  void start(std::function<void()> work);
  void set(std::atomic<bool>& flag);
  void copy();
  void wait_idle() const;

  SavePhases save_;
  CheckpointContents contents_;  // as given; empty once they are copied
  CheckpointContents copies_;    // the same pieces in `memory`
  std::exception_ptr copy_error_;
  Timer timer_;
  double copy_seconds_ = 0, durable_seconds_ = 0;
  bool written_ = false;  // the files of all ranks are
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<bool> copied_ = false, idle_ = false;
  std::thread thread_;  // last: uses everything above
};

}  // namespace partita::internal
