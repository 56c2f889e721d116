// The folder of a run, for the process that writes to it: created, locked, and cleaned of partial files left by killed
// processes.
//
//   RunFolder folder("runs/a");            // Error: runs/a is in use by process 1234 on node5 ...
//   folder.lock().require();               // before a save
//
// A folder created here is removed again if the run writes nothing into it.
#pragma once
#include <filesystem>
#include <memory>

#include "partita/base/made_folders.h"
#include "partita/base/owner_lock.h"

namespace partita::internal {

class RunFolder {
 public:
  // Errors: the path is a file or a dangling link; the folder cannot be created or written; another process holds it.
  explicit RunFolder(std::filesystem::path path);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] OwnerLock& lock() { return *lock_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<MadeFolders> made_;  // outlives the lock, which is inside the folder
  std::unique_ptr<OwnerLock> lock_;
};

}  // namespace partita::internal
