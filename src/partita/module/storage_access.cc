#include "partita/module/storage_access.h"

#include <utility>

namespace partita::internal {
namespace {

// torch sets this flag for tensors without data and has no function that clears it. An explicit instantiation may name
// private members.
template <auto member>
struct PrivateMember {
  friend bool& fails_on_access(c10::StorageImpl& storage) { return storage.*member; }
};
bool& fails_on_access(c10::StorageImpl&);
template struct PrivateMember<&c10::StorageImpl::throw_on_immutable_data_ptr_>;

}  // namespace

void forbid_access(const c10::Storage& storage, std::string message) {
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(std::move(message));
}

void allow_access(const c10::Storage& storage, at::DataPtr&& memory) {
  fails_on_access(*storage.unsafeGetStorageImpl()) = false;
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(memory));
}

}  // namespace partita::internal
