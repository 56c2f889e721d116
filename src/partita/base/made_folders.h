// Folders that are made for an output, and taken back where nothing comes into them.
//
//   const MadeFolders made("runs/new");        // makes runs/ and runs/new, if they do not exist
//   ...                                        // an Error here leaves neither behind
//
// The destructor removes those that it made and that are empty then; so does a signal (removal.h).
#pragma once
#include <filesystem>
#include <vector>

namespace partita::internal {

class MadeFolders {
 public:
  // Makes `folder` and those above it. Error: it cannot be made.
  explicit MadeFolders(const std::filesystem::path& folder);
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  ~MadeFolders();

 private:
  void take_back();

  std::vector<std::filesystem::path> made_;  // the deepest first; absolute
};

}  // namespace partita::internal
