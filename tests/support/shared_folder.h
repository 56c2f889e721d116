// Rank 0's temporary folder, on all ranks.
//
//   const SharedFolder folder(mesh.world());           // collective, and so is its end
#pragma once
#include <filesystem>

#include "partita/comm/communicator.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal {

class SharedFolder {
 public:
  explicit SharedFolder(Communicator& world) : world_(world), path_(gather_strings(world, own_.path().string())[0]) {}
  ~SharedFolder() { world_.barrier(); }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  Communicator& world_;
  TemporaryDirectory own_;
  std::filesystem::path path_;
};

}  // namespace partita::internal
