#include "partita/interop/new_file.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/base/output_check.h"

namespace partita::internal {

namespace fs = std::filesystem;

NewFile::NewFile(fs::path path, int64_t bytes)
    : path_(std::move(path)), bytes_(bytes), above_(fs::absolute(path_).parent_path()) {
  check_new_file(path_);
  require_free_bytes(path_, bytes_);
  file_.emplace(path_);
}

void NewFile::publish() {
  PARTITA_CHECK(size() == bytes_, "{}: {} bytes written, {} planned", path_.string(), size(), bytes_);
  file_->sync();
  if (!file_->publish_new())
    fail("{} already exists: nothing is overwritten, give another name or remove it", path_.string());
}

}  // namespace partita::internal
