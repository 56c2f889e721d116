// A folder in /dev/shm for the segments that MPI shares between ranks of this machine. Ranks that are killed leave
// theirs there for ever; here they are in a folder that a lock belongs to, which the system drops with its last holder:
// the next start removes folders of this user that nobody holds.
//
//   const SharedMemoryFolder folder("/dev/shm");
//   setenv("OMPI_MCA_btl_vader_backing_directory", folder.path().c_str(), 1);
#pragma once
#include <filesystem>

namespace partita::internal {

class SharedMemoryFolder {
 public:
  // Removes what is stale in `where`, and makes a folder there. Where that is not possible path() is empty.
  explicit SharedMemoryFolder(const std::filesystem::path& where);
  ~SharedMemoryFolder();  // removes it
  SharedMemoryFolder(const SharedMemoryFolder&) = delete;
  SharedMemoryFolder& operator=(const SharedMemoryFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // The lock: a child that keeps it open holds the folder too. -1: there is none.
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace partita::internal
