#include "partita/checkpoint/new_folder.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/checkpoint/folders.h"

namespace partita {

namespace fs = std::filesystem;

NewFolder::NewFolder(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "out/gpt2/"
  std::error_code error;
  if (fs::exists(target_, error) && !(fs::is_directory(target_, error) && fs::is_empty(target_, error)))
    fail("{} is there already: nothing is overwritten, choose another name or remove it", target_.string());
  target_ = fs::absolute(target_);
  partial_ = partial_path(target_);
  error.clear();
  fs::remove_all(partial_, error);
  if (!error) fs::create_directories(partial_, error);
  if (error) fail("cannot make the folder {}: {}", partial_.string(), error.message());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!published_) fs::remove_all(partial_, ignored);
}

void NewFolder::publish() {
  partita::publish(partial_, target_);
  published_ = true;
}

}  // namespace partita
