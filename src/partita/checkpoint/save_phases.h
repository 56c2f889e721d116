// A save in phases, of which the long ones are local and may run on any thread, while training goes on:
//
//   SavePhases save(root, step, contents, peers, options);      // collective: agrees on a plan, makes the folder
//   save.write(contents);                                       // this rank's files
//   save.gather(peers);                                         // collective: everybody has written
//   save.publish();                                             // rank 0: manifest, rename, removal of old ones
//   save.finish(peers);                                         // collective: it is durable
//
// or all of them while the caller waits: save.run(contents, peers).
//
// A phase that fails is reported by the next collective one, on all ranks and with the same message. Until finish() the
// folder is partial; if it is not reached, rank 0 removes the folder.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/save_plan.h"

namespace partita::internal {

class SavePhases {
 public:
  // Errors: those of save_checkpoint that are raised before the first byte is written.
  SavePhases(std::filesystem::path root, int64_t step, const CheckpointContents&, Peers&, SaveOptions);
  ~SavePhases();
  SavePhases(const SavePhases&) = delete;
  SavePhases& operator=(const SavePhases&) = delete;

  // `contents` has the pieces of the plan, in the same order, in the same or in other memory.
  void write(const CheckpointContents&);
  void gather(Peers&);
  void publish();
  void finish(Peers&);
  // Collective. Writes in turns, in a thread, so that ranks whose disk is slow keep no other in a collective for long.
  void run(const CheckpointContents&, Peers&);

  // From another thread: write() stops soon, with an error.
  void give_up() { given_up_ = true; }
  [[nodiscard]] bool is_given_up() const { return given_up_; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] int64_t bytes() const;  // of all ranks' files

 private:
  // Keeps the error for the next collective phase.
  void attempt(const std::function<void()>& work);
  void rethrow();

  std::filesystem::path root_, folder_, partial_, previous_;
  SaveOptions options_;
  bool leader_;
  std::vector<RankFile> files_;
  std::vector<nlohmann::json> ranks_;  // descriptions
  Manifest manifest_;
  PieceSums sums_;
  std::exception_ptr error_;
  std::atomic<bool> given_up_ = false;
  bool named_ = false;  // the folder has its name; what is partial now is an older checkpoint, or nothing
};

}  // namespace partita::internal
