#include "partita/train/run_folder.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/base/file.h"

namespace partita::internal {

namespace fs = std::filesystem;

namespace {

void check_place(const fs::path& path) {
  std::error_code error;
  const fs::file_status named = fs::symlink_status(path, error), meant = fs::status(path, error);
  if (named.type() == fs::file_type::symlink && meant.type() == fs::file_type::not_found)
    fail("run.directory {} is a symbolic link to {}, which does not exist: make that folder, or choose another",
         path.string(), fs::read_symlink(path, error).string());
  if (fs::exists(meant) && !fs::is_directory(meant))
    fail("run.directory {} is a file: expected a folder", path.string());
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(fs::absolute(std::move(path)).lexically_normal()) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // "runs/a/"
  check_place(path_);
  made_ = std::make_unique<MadeFolders>(path_);
  lock_ = std::make_unique<OwnerLock>(path_ / "run.lock", OwnerLock::Options{.what = "run.directory " + path_.string(),
                                                                             .advice = "choose another run.directory"});
  remove_all_abandoned(path_);
}

}  // namespace partita::internal
