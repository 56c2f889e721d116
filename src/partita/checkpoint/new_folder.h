// A folder that appears under its name when everything in it is written, or not at all.
//
//   NewFolder folder("out/gpt2");                          // refuses a folder that holds anything
//   write_file(folder.path() / "config.json", text);       // "out/gpt2.partial" until then
//   folder.publish();                                      // without it the destructor removes what was written, and
//                                                          // the folders above that were made for it
#pragma once
#include <filesystem>
#include <memory>

#include "partita/base/made_folders.h"
#include "partita/base/owner_lock.h"

namespace partita::internal {

class NewFolder {
 public:
  // Error: there is something of that name that is no empty folder; the folder cannot be made; another process is writing
  // it. A partial one that was left by a process that was killed is replaced.
  explicit NewFolder(std::filesystem::path target);
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder();

  [[nodiscard]] const std::filesystem::path& path() const { return partial_; }
  // Durably. Nothing is written after it.
  void publish();

 private:
  std::filesystem::path target_, partial_;
  std::unique_ptr<MadeFolders> above_;  // outlives the lock, which is in it
  std::unique_ptr<OwnerLock> lock_;
  bool published_ = false;
};

}  // namespace partita::internal
