#include "partita/checkpoint/new_folder.h"

#include <utility>

#include "partita/base/error.h"
#include "partita/base/output_check.h"
#include "partita/base/removal.h"
#include "partita/checkpoint/folders.h"

namespace partita::internal {

namespace fs = std::filesystem;

NewFolder::NewFolder(fs::path target) : target_(std::move(target)) {
  if (!target_.has_filename()) target_ = target_.parent_path();  // "out/gpt2/"
  require_new_folder(target_);
  // A link to an empty folder stays; its target is filled.
  target_ = fs::is_symlink(target_) ? fs::canonical(target_) : fs::absolute(target_);
  partial_ = partial_path(target_);
  fs::path lock = partial_;
  lock += ".lock";
  above_ = std::make_unique<MadeFolders>(target_.parent_path());
  lock_ = std::make_unique<OwnerLock>(lock,
                                      OwnerLock::Options{.what = target_.string(), .advice = "choose another folder"});
  add_removal(lock);
  require_new_folder(target_);  // another process may have created it in the meantime
  add_removal(partial_);
  std::error_code error;
  fs::remove_all(partial_, error);
  if (!error) fs::create_directories(partial_, error);
  if (error) fail("cannot make the folder {}: {}", partial_.string(), error.message());
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!published_) fs::remove_all(partial_, ignored);
  drop_removal(partial_);
  fs::path lock = partial_;
  lock += ".lock";
  drop_removal(lock);
}

void NewFolder::publish() {
  lock_->require();
  internal::publish(partial_, target_);
  published_ = true;
}

}  // namespace partita::internal
