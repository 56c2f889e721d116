#include "partita/base/output_check.h"

#include <algorithm>

#include "partita/base/error.h"
#include "partita/base/file.h"

namespace partita::internal {
namespace fs = std::filesystem;
namespace {

void make_folder_of(const fs::path& path) {
  if (!path.has_parent_path()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) fail("cannot make the folder {} for {}: {}", path.parent_path().string(), path.string(), error.message());
}

}  // namespace

void check_output_file(const fs::path& path, std::span<const fs::path> inputs) {
  std::error_code ignored;
  if (path.empty() || !path.has_filename() || fs::is_directory(path, ignored))
    fail("{} is a folder: give the name of a file to write", path.empty() ? "\"\"" : path.string());
  for (const fs::path& input : inputs)
    if (fs::equivalent(path, input, ignored))
      fail("{} is an input and would be replaced: give another output", path.string());
  make_folder_of(path);
  const AtomicFile writable(path);  // removed right away
}

void check_new_file(const fs::path& path, std::span<const fs::path> inputs) {
  std::error_code ignored;
  const bool input =
      std::ranges::any_of(inputs, [&](const fs::path& other) { return fs::equivalent(path, other, ignored); });
  if (!input && fs::is_regular_file(path, ignored))
    fail("{} already exists: nothing is overwritten, give another name or remove it", path.string());
  check_output_file(path, inputs);
}

void check_output_prefix(const fs::path& prefix) {
  std::error_code ignored;
  if (prefix.empty() || !prefix.has_filename() || fs::is_directory(prefix, ignored))
    fail("{} is a folder: give the beginning of a file name too, such as {}", prefix.empty() ? "\"\"" : prefix.string(),
         (prefix / "corpus").string());
  make_folder_of(prefix);
}

void require_new_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    fail("{} is a file: give the name of a folder to write to", folder.string());
  if (fs::is_directory(folder, error) && !fs::is_empty(folder, error))
    fail("{} already exists and is not empty: choose another folder, or remove it", folder.string());
}

void check_output_folder(const fs::path& folder) {
  require_new_folder(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("cannot make the folder {}: {}", folder.string(), error.message());
}

}  // namespace partita::internal
