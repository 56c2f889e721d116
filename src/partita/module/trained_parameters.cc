#include "partita/module/trained_parameters.h"

#include <fmt/ranges.h>

#include <map>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/gradient_hooks.h"

namespace partita::internal {
namespace {

void require_defined(const NamedParameter& p, c10::Device device) {
  if (!p.tensor.defined()) fail("ZeroOptimizer: parameter {} is undefined", p.name);
  if (p.tensor.device() != device)
    fail("ZeroOptimizer: parameter {} is on {}, the mesh is on {}: move the model to the mesh's device first", p.name,
         p.tensor.device().str(), device.str());
}

void require_trainable(const NamedParameter& p) {
  const at::ScalarType type = p.tensor.scalar_type();
  if (!p.tensor.is_leaf()) fail("ZeroOptimizer: {} is not a parameter, but the result of an operation", p.name);
  if (type != at::kFloat && type != at::kBFloat16 && type != at::kHalf)
    fail("ZeroOptimizer: parameter {} is {}, expected fp32, bf16 or fp16", p.name, at::toString(type));
  if (GradientHooks::is_taken(p.tensor))
    fail("ZeroOptimizer: parameter {} belongs to another ZeroOptimizer already", p.name);
}

void require_memory_apart(const std::vector<ParameterGroup>& groups) {
  std::multimap<const char*, const NamedParameter*> by_address;
  for (const ParameterGroup& group : groups)
    for (const NamedParameter& p : group.parameters)
      if (p.tensor.numel() > 0) by_address.emplace(static_cast<const char*>(p.tensor.const_data_ptr()), &p);
  const char* end = nullptr;
  const NamedParameter* before = nullptr;
  for (const auto& [address, p] : by_address) {
    if (before != nullptr && address < end)
      fail("ZeroOptimizer: parameters {} and {} share memory", before->name, p->name);
    end = address + p->tensor.nbytes();
    before = p;
  }
}

}  // namespace

std::vector<NamedParameter> take_trained(std::vector<ParameterGroup>& groups, c10::Device device) {
  std::vector<NamedParameter> frozen;
  std::set<const void*> seen;
  std::set<std::string> names;
  bool trains = false;
  for (ParameterGroup& group : groups)
    for (const NamedParameter& p : std::exchange(group.parameters, {})) {
      require_defined(p, device);
      if (!seen.insert(p.tensor.unsafeGetTensorImpl()).second) continue;
      if (p.tensor.requires_grad()) require_trainable(p);
      if (!names.insert(p.name).second) fail("ZeroOptimizer: two parameters are called {}", p.name);
      trains = trains || p.tensor.requires_grad();
      (p.tensor.requires_grad() ? group.parameters : frozen).push_back(p);
    }
  if (!trains) fail("ZeroOptimizer: no parameter requires a gradient");
  require_memory_apart(groups);
  return frozen;
}

void require_equal_on_ranks(const std::vector<ParameterGroup>& groups, const std::string& options,
                            Communicator& ranks) {
  for (const std::string& other : gather_strings(ranks, options))
    if (other != options) fail("ZeroOptimizer: options differ between ranks: {}, and {}", options, other);
  std::string mine;
  for (const ParameterGroup& group : groups) {
    mine += "group\n";
    for (const NamedParameter& p : group.parameters)
      if (p.tensor.defined())
        mine += fmt::format("{} {} {} {}\n", p.name, at::toString(p.tensor.scalar_type()),
                            fmt::join(p.tensor.sizes(), " "), p.tensor.requires_grad());
  }
  const std::vector<std::string> all = gather_strings(ranks, mine);
  for (size_t r = 0; r < all.size(); ++r)
    if (all[r] != all[0])
      fail("ZeroOptimizer: the parameters of rank {} are not those of rank 0: all ranks need the same model", r);
}

}  // namespace partita::internal
