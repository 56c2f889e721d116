// The folder of a run, for the process that writes into it: made, locked, and cleared of what a process that was killed
// left half written.
//
//   RunFolder folder("runs/a");            // Error: runs/a is in use by process 1234 on node5 ...
//   folder.lock().require();               // before a save
//
// A folder that was made for a run that then wrote nothing into it is removed again.
#pragma once
#include <filesystem>
#include <memory>

#include "partita/base/made_folders.h"
#include "partita/base/owner_lock.h"

namespace partita::internal {

class RunFolder {
 public:
  // Errors: the path is a file or a link that leads nowhere; the folder cannot be made or written; another process has it.
  explicit RunFolder(std::filesystem::path path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] OwnerLock& lock() { return *lock_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<MadeFolders> made_;  // outlives the lock, which is in it
  std::unique_ptr<OwnerLock> lock_;
};

}  // namespace partita::internal
