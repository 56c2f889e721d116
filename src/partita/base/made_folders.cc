#include "partita/base/made_folders.h"

#include <unistd.h>

#include "partita/base/error.h"
#include "partita/base/removal.h"

namespace partita::internal {

namespace fs = std::filesystem;

MadeFolders::MadeFolders(const fs::path& folder) {
  std::error_code error;
  fs::path whole = fs::absolute(folder);
  if (!whole.has_filename()) whole = whole.parent_path();  // "runs/a/"
  for (fs::path path = whole; !fs::exists(path, error) && path != path.parent_path(); path = path.parent_path())
    if (path.has_filename()) made_.push_back(path);
  for (const fs::path& path : made_) add_removal_if_empty(path);
  fs::create_directories(whole, error);
  if (!error) return;
  take_back();
  fail("cannot make the folder {}: {}", folder.string(), error.message());
}

MadeFolders::~MadeFolders() { take_back(); }

void MadeFolders::take_back() {
  for (const fs::path& path : made_) {
    ::rmdir(path.c_str());  // removes only empty folders
    drop_removal(path);
  }
}

}  // namespace partita::internal
