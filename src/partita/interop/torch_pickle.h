// Reads the pickle inside torch.save files without executing it (pickle_machine.h).
//
//   for (const PickledTensor& t : unpickle_tensors(bytes, "pytorch_model.bin"))
//     ...   // t.name [t.shape] is in the storage t.storage
//
// Accepted are dictionaries, tuples, lists, numbers, strings, storages by persistent id, and calls of
// collections.OrderedDict(), torch._utils._rebuild_tensor_v2 and _rebuild_parameter. (Calls: torch/_utils.py.)
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/pickle_machine.h"

namespace partita::internal {

// A pickle that may hold tensors; for readers of torch.save files that hold more than a dictionary of them.
class TorchPickle : public PickleMachine {
 public:
  using PickleMachine::PickleMachine;

 protected:
  [[nodiscard]] PickleUse use_of(std::string_view name) const override;
  PickleId call(const std::string& name, const std::vector<PickleId>& arguments) override;
  // ("storage", torch.FloatStorage, key, device, elements). With a type of storage that is opaque, so is the storage.
  PickleId persistent(PickleId id) override;

 private:
  PickleId tensor_of(const std::vector<PickleId>& arguments);
  void require_empty(PickleId id, std::string_view what);
};

// In dictionary order. A tensor's shape and strides are not checked against its storage. Error: an unknown opcode or
// name (with its position), a damaged pickle, a dictionary of anything but tensors, a duplicate name. `path` is for the
// message.
[[nodiscard]] std::vector<PickledTensor> unpickle_tensors(std::span<const std::byte> pickle,
                                                          const std::filesystem::path& path);

// The pickle of a single tensor, which has no name. Errors: as above, with anything but a tensor.
[[nodiscard]] PickledTensor unpickle_tensor(std::span<const std::byte> pickle, const std::filesystem::path& path);

}  // namespace partita::internal
