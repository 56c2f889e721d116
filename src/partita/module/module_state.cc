#include "partita/module/module_state.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
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

namespace {

// Bytes of which all ranks but one have zero: their sum is that of the one, bit for bit.
void merge(const at::Tensor& whole, const StateRanks& ranks) {
  CpuStream host;
  if (whole.numel() == 0) return;
  for (Communicator* group : ranks.groups)
    group->all_reduce(whole.view({-1}).view(at::kByte), Reduce::sum, host).wait();
}

}  // namespace

StateRanks state_ranks(const Mesh& mesh, bool sliced) {
  StateRanks ranks{.groups = {}, .receives = mesh.data().rank() == 0 && mesh.tensor().rank() == 0};
  if (sliced) ranks.groups.push_back(&mesh.data());
  if (mesh.tensor().size() > 1) ranks.groups.push_back(&mesh.tensor());
  return ranks;
}

at::Tensor held_elements(const at::Tensor& held, const ParameterSpec& spec, const Box& box) {
  const bool vector = spec.shape.size() < 2;
  int64_t before = 0;  // rows of the stack; elements of a vector
  for (const LocalBox& local : spec.local) {
    if (contains(local.box, box)) {
      Box inner{box.row - local.box.row, box.rows, box.column - local.box.column, box.columns};
      (vector ? inner.column : inner.row) += before;
      return elements_of(held, inner);
    }
    before += vector ? local.box.columns : local.box.rows;
  }
  return elements_of(held, box);
}

at::Tensor gather_whole(const at::Tensor& held, const ParameterSpec& spec, const StateRanks& ranks) {
  if (spec.local.empty()) return held.detach().to(at::TensorOptions(at::kCPU), /*non_blocking=*/false, /*copy=*/true);
  at::Tensor whole = at::zeros(spec.shape, at::TensorOptions(held.scalar_type()));
  for (const LocalBox& local : spec.local)
    if (local.primary)
      place_of(whole, local.box)
          .copy_(held_elements(held.detach(), spec, local.box).view({local.box.rows, local.box.columns}));
  merge(whole, ranks);
  return whole;
}

void gather_state(const ShardedParameters& parameters, DType dtype, const StateRanks& ranks, StateDict& state) {
  const std::vector<OwnedBox> owned = parameters.owned_boxes();
  const size_t values = 1 + parameters.optimizer_state_names().size();
  for (const ParameterSpec& spec : parameters.specs()) {
    const std::vector<std::string> keys = keys_of(parameters, spec.name);
    for (size_t v = 0; v < values; ++v) {
      const at::Tensor whole = at::zeros(spec.shape, at::TensorOptions(scalar_type(dtype)));
      for (const OwnedBox& box : owned)
        if (box.primary && box.parameter->name == spec.name)
          place_of(whole, box.box).copy_(box.values[v].view({box.box.rows, box.box.columns}));
      merge(whole, ranks);
      if (ranks.receives) state[keys[v]] = whole;
    }
  }
}

namespace {

// Of one rank, on all: those of others are made here.
std::vector<NamedParameter> broadcast(Communicator& group, int root, const std::vector<NamedParameter>& own) {
  CpuStream host;
  nlohmann::json mine = nlohmann::json::array();
  for (const NamedParameter& p : own)
    mine.push_back({p.name, static_cast<int>(p.tensor.scalar_type()), p.tensor.sizes().vec()});
  std::vector<NamedParameter> result;
  for (const auto& of_root : nlohmann::json::parse(gather_strings(group, mine.dump())[static_cast<size_t>(root)])) {
    NamedParameter p{.name = of_root[0]};
    const auto type = static_cast<at::ScalarType>(of_root[1].get<int>());
    const std::vector<int64_t> shape = of_root[2];
    p.tensor =
        group.rank() == root ? own[result.size()].tensor.contiguous() : at::empty(shape, at::TensorOptions(type));
    if (p.tensor.numel() > 0) group.broadcast(p.tensor.view({-1}).view(at::kByte), root, host).wait();
    result.push_back(p);
  }
  return result;
}

}  // namespace

void gather_stages(Communicator& pipeline, StateDict& state) {
  std::vector<NamedParameter> own;
  for (const auto& [key, value] : state) own.push_back({key, value});
  for (int root = 1; root < pipeline.size(); ++root)
    for (const NamedParameter& p : broadcast(pipeline, root, own))
      if (pipeline.rank() == 0) state.try_emplace(p.name, p.tensor);
  if (pipeline.rank() > 0) state.clear();
}

std::vector<NamedParameter> all_stages(Communicator& pipeline, std::vector<NamedParameter> own) {
  if (pipeline.size() == 1) return own;
  std::vector<NamedParameter> all;
  std::set<std::string> names;
  for (int root = 0; root < pipeline.size(); ++root)
    for (NamedParameter& p : broadcast(pipeline, root, own))
      if (names.insert(p.name).second) all.push_back(std::move(p));
  return all;
}

size_t distinct_keys(Communicator& pipeline, const std::vector<std::string>& own) {
  std::set<std::string> keys;
  for (const std::string& of_rank : gather_strings(pipeline, nlohmann::json(own).dump()))
    for (const auto& key : nlohmann::json::parse(of_rank)) keys.insert(key);
  return keys.size();
}

void require_on_all(Communicator& ranks, const std::function<void()>& check) {
  std::string error;
  try {
    check();
  } catch (const std::exception& found) {
    error = found.what();
  }
  for (const std::string& of_rank : gather_strings(ranks, error))
    if (!of_rank.empty()) fail("{}", of_rank);
}

std::vector<std::string> require_state(const ShardedParameters& parameters, const StateDict& state) {
  std::vector<std::string> keys;
  for (const ParameterSpec& spec : parameters.specs())
    for (const std::string& key : keys_of(parameters, spec.name)) {
      const auto found = state.find(key);
      if (found == state.end()) fail("ZeroOptimizer: the state has no {}", key);
      if (found->second.sizes() != at::IntArrayRef(spec.shape))
        fail("ZeroOptimizer: {} has shape [{}] in the state, expected [{}]", key,
             fmt::join(found->second.sizes(), ", "), fmt::join(spec.shape, ", "));
      keys.push_back(key);
    }
  return keys;
}

void take_state(const ShardedParameters& parameters, const StateDict& state) {
  for (const OwnedBox& owned : parameters.owned_boxes()) {
    const std::vector<std::string> keys = keys_of(parameters, owned.parameter->name);
    for (size_t v = 0; v < keys.size(); ++v) owned.values[v].copy_(elements_of(state.at(keys[v]), owned.box));
  }
}

}  // namespace partita::internal
