#include "partita/module/trained_parameters.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "partita/base/error.h"
#include "partita/module/gradient_hooks.h"
#include "partita/module/lazy_operations.h"
#include "partita/module/lazy_storage.h"
#include "partita/module/operand_watch.h"

namespace partita::internal {

void require_on_device(const NamedParameter& p, c10::Device device, std::string_view caller) {
  if (!p.tensor.defined()) fail("{}: parameter {} is undefined", caller, p.name);
  if (p.tensor.device() != device)
    fail("{}: parameter {} is on {}, the mesh is on {}: move the model to the mesh's device first", caller, p.name,
         p.tensor.device().str(), device.str());
}

namespace {

bool has_trainable_dtype(const at::Tensor& tensor) {
  const at::ScalarType type = tensor.scalar_type();
  return type == at::kFloat || type == at::kBFloat16 || type == at::kHalf;
}

void require_trainable(const NamedParameter& p) {
  if (!p.tensor.is_leaf()) fail("ZeroOptimizer: {} is not a parameter, but the result of an operation", p.name);
  if (!has_trainable_dtype(p.tensor))
    fail("ZeroOptimizer: parameter {} is {}, expected fp32, bf16 or fp16", p.name,
         at::toString(p.tensor.scalar_type()));
  if (GradientHooks::is_taken(p.tensor))
    fail("ZeroOptimizer: parameter {} belongs to another ZeroOptimizer already", p.name);
}

// Where a parameter's memory is. That of a lazy one will be its storage's own.
struct Extent {
  const void* storage;  // null: not lazy
  size_t begin, end;    // bytes: of the storage; addresses
  const NamedParameter* parameter;
};
Extent extent_of(const NamedParameter& p) {
  const bool lazy = is_lazy(p.tensor);
  const size_t begin = lazy ? static_cast<size_t>(p.tensor.storage_offset()) * p.tensor.element_size()
                            : reinterpret_cast<size_t>(p.tensor.const_data_ptr());
  return {lazy ? p.tensor.storage().unsafeGetStorageImpl() : nullptr, begin, begin + p.tensor.nbytes(), &p};
}

using Pair = std::pair<const NamedParameter*, const NamedParameter*>;

// Pairs that share memory, so that each parameter which shares any is in one of them. Those of another optimizer have
// their own.
std::vector<Pair> sharing(const std::vector<const NamedParameter*>& parameters) {
  std::vector<Extent> extents;
  for (const NamedParameter* p : parameters)
    if (p->tensor.numel() > 0 && !OperandWatch::has(p->tensor)) extents.push_back(extent_of(*p));
  std::ranges::stable_sort(extents, {}, [](const Extent& e) { return std::tuple(e.storage, e.begin); });
  std::vector<Pair> pairs;
  const Extent* last = nullptr;  // of those before: the one that ends last
  for (const Extent& e : extents) {
    const bool together = last != nullptr && e.storage == last->storage;
    if (together && e.begin < last->end) pairs.emplace_back(last->parameter, e.parameter);
    if (!together || e.end > last->end) last = &e;
  }
  return pairs;
}

std::vector<const NamedParameter*> pointers(const std::vector<ParameterGroup>& groups) {
  std::vector<const NamedParameter*> all;
  for (const ParameterGroup& group : groups)
    for (const NamedParameter& p : group.parameters) all.push_back(&p);
  return all;
}

}  // namespace

std::vector<NamedParameter> take_trained(std::vector<ParameterGroup>& groups, c10::Device device) {
  if (makes_lazy_tensors())
    fail("ZeroOptimizer: called within the life of a LazyConstruction, expected after it: end its scope before");
  std::vector<NamedParameter> frozen;
  std::map<const void*, const ParameterGroup*> seen;
  std::set<std::string> names;
  bool trains = false;
  for (ParameterGroup& group : groups)
    for (const NamedParameter& p : std::exchange(group.parameters, {})) {
      require_on_device(p, device, "ZeroOptimizer");
      const auto [first, is_new] = seen.emplace(p.tensor.unsafeGetTensorImpl(), &group);
      if (!is_new && first->second != &group && p.tensor.requires_grad())
        fail(
            "ZeroOptimizer: parameter {} is in two groups, expected one: put a tied parameter, which has several "
            "names, into the group whose hyperparameters it shall have",
            p.name);
      if (!is_new) continue;
      if (p.tensor.requires_grad()) require_trainable(p);
      if (!names.insert(p.name).second) fail("ZeroOptimizer: two parameters are called {}", p.name);
      trains = trains || p.tensor.requires_grad();
      (p.tensor.requires_grad() ? group.parameters : frozen).push_back(p);
    }
  if (!trains) fail("ZeroOptimizer: no parameter requires a gradient");
  for (const auto& [a, b] : sharing(pointers(groups)))
    fail("ZeroOptimizer: parameters {} and {} share memory", a->name, b->name);
  return frozen;
}

std::vector<NamedParameter> take_dividable(std::vector<NamedParameter>& frozen,
                                           const std::vector<ParameterGroup>& trained) {
  std::vector<NamedParameter> whole, candidates, dividable;
  for (NamedParameter& p : std::exchange(frozen, {}))
    (has_trainable_dtype(p.tensor) && !OperandWatch::has(p.tensor) ? candidates : whole).push_back(std::move(p));
  std::vector<const NamedParameter*> all = pointers(trained);
  for (const std::vector<NamedParameter>* list : {&candidates, &whole})
    for (const NamedParameter& p : *list) all.push_back(&p);
  std::set<const NamedParameter*> shared;
  for (const auto& [a, b] : sharing(all)) shared.insert({a, b});
  for (const NamedParameter& p : candidates) (shared.contains(&p) ? whole : dividable).push_back(p);
  frozen = std::move(whole);
  return dividable;
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
