// Creates folders for an output, and removes them if they stay empty.
//
//   const MadeFolders made("runs/new");        // creates runs/ and runs/new if they do not exist
//   ...                                        // an Error here removes both again
//
// The destructor removes the folders that it created if they are still empty; so does a signal (removal.h).
#pragma once
#include <filesystem>
#include <vector>

namespace partita::internal {

class MadeFolders {
 public:
  // Creates `folder` and its parents. Error: it cannot be created.
  explicit MadeFolders(const std::filesystem::path& folder);
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  ~MadeFolders();

 private:
  void take_back();

  std::vector<std::filesystem::path> made_;  // deepest first; absolute
};

}  // namespace partita::internal
