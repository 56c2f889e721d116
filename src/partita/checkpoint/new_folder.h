// A folder that appears under its name only once everything in it is written.
//
//   NewFolder folder("out/gpt2");                          // error if the folder exists and is not empty
//   write_file(folder.path() / "config.json", text);       // "out/gpt2.partial" until published
//   folder.publish();                                      // otherwise the destructor removes what was written, and
//                                                          // the parent folders created for it
#pragma once
#include <filesystem>
#include <memory>

#include "partita/base/made_folders.h"
#include "partita/base/owner_lock.h"

namespace partita::internal {

class NewFolder {
 public:
  // Error: something other than an empty folder has that name; the folder cannot be created; another process is writing
  // it. A partial folder left by a killed process is replaced.
  explicit NewFolder(std::filesystem::path target);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return partial_; }
  // Durable. Write nothing after it.
  void publish();

 private:
  std::filesystem::path target_, partial_;
  std::unique_ptr<MadeFolders> above_;  // outlives the lock, which is inside the folder
  std::unique_ptr<OwnerLock> lock_;
  bool published_ = false;
};

}  // namespace partita::internal
