#include "partita/module/module_state.h"

#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <vector>

#include "partita/base/error.h"
#include "partita/device/scalar_type.h"
#include "partita/device/stream.h"

namespace partita::internal {
namespace {

std::vector<std::string> keys_of(const ShardedParameters& parameters, const std::string& name) {
  std::vector<std::string> keys{name};
  for (const std::string& state : parameters.optimizer_state_names()) keys.push_back(name + "/" + state);
  return keys;
}

// The place of a box in a tensor of the whole parameter.
at::Tensor place_of(const at::Tensor& whole, const Box& box) {
  const Box all = whole_box(whole.sizes());
  return whole.view({all.rows, all.columns}).narrow(0, box.row, box.rows).narrow(1, box.column, box.columns);
}

}  // namespace

at::Tensor elements_of(const at::Tensor& whole, const Box& box) {
  return place_of(whole.contiguous(), box).reshape({-1});
}

void gather_state(const ShardedParameters& parameters, DType dtype, Communicator& data, bool sliced, StateDict& state) {
  const std::vector<OwnedBox> owned = parameters.owned_boxes();
  const size_t values = 1 + parameters.optimizer_state_names().size();
  CpuStream host;
  for (const ParameterSpec& spec : parameters.specs()) {
    const std::vector<std::string> keys = keys_of(parameters, spec.name);
    for (size_t v = 0; v < values; ++v) {
      const at::Tensor whole = at::zeros(spec.shape, at::TensorOptions(scalar_type(dtype)));
      for (const OwnedBox& box : owned)
        if (box.parameter->name == spec.name)
          place_of(whole, box.box).copy_(box.values[v].view({box.box.rows, box.box.columns}));
      // Bytes of which all ranks but one have zero: their sum is that of the one, bit for bit.
      if (sliced && whole.numel() > 0) data.all_reduce(whole.view({-1}).view(at::kByte), Reduce::sum, host).wait();
      if (data.rank() == 0) state[keys[v]] = whole;
    }
  }
}

size_t require_state(const ShardedParameters& parameters, const StateDict& state) {
  size_t count = 0;
  for (const ParameterSpec& spec : parameters.specs())
    for (const std::string& key : keys_of(parameters, spec.name)) {
      const auto found = state.find(key);
      if (found == state.end()) fail("ZeroOptimizer: the state has no {}", key);
      if (found->second.sizes() != at::IntArrayRef(spec.shape))
        fail("ZeroOptimizer: {} has shape [{}] in the state, expected [{}]", key,
             fmt::join(found->second.sizes(), ", "), fmt::join(spec.shape, ", "));
      ++count;
    }
  return count;
}

void take_state(const ShardedParameters& parameters, const StateDict& state) {
  for (const OwnedBox& owned : parameters.owned_boxes()) {
    const std::vector<std::string> keys = keys_of(parameters, owned.parameter->name);
    for (size_t v = 0; v < keys.size(); ++v) owned.values[v].copy_(elements_of(state.at(keys[v]), owned.box));
  }
}

}  // namespace partita::internal
