// A folder in /dev/shm for MPI's shared-memory segments on this machine. Killed ranks leave their segments behind; this
// folder is held by a lock that the system releases with its last holder, and the next start removes unlocked folders
// of this user.
//
//   const SharedMemoryFolder folder("/dev/shm");
//   setenv("OMPI_MCA_btl_vader_backing_directory", folder.path().c_str(), 1);
#pragma once
#include <filesystem>

namespace partita::internal {

class SharedMemoryFolder {
 public:
  // Removes stale folders in `where`, and creates a new one. If that fails, path() is empty.
  explicit SharedMemoryFolder(const std::filesystem::path& where);
  ~SharedMemoryFolder();  // removes the folder
  SharedMemoryFolder(const SharedMemoryFolder&) = delete;
  SharedMemoryFolder& operator=(const SharedMemoryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The lock: a child that inherits it holds the folder, too. -1: none.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace partita::internal
