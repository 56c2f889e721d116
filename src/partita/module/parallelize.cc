#include "partita/module/parallelize.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/device/device_stream.h"
#include "partita/module/gradient_hooks.h"
#include "partita/module/lazy_operations.h"
#include "partita/module/lazy_storage.h"
#include "partita/module/module_state.h"
#include "partita/module/tensor_functions.h"
#include "partita/module/tensor_placement.h"
#include "partita/module/trained_parameters.h"
#include "partita/nn/split.h"

namespace partita {
using namespace internal;
namespace {

void require_usable(const NamedParameter& p, c10::Device device) {
  require_on_device(p, device, "parallelize");
  if (GradientHooks::is_taken(p.tensor))
    fail("parallelize: parameter {} belongs to a ZeroOptimizer already: divide the module before", p.name);
  if (placement_of(p.tensor) != nullptr) fail("parallelize: parameter {} is divided already", p.name);
}

// Stacked by rows.
at::Tensor part_of(const at::Tensor& whole, const ParameterSpec& spec) {
  std::vector<at::Tensor> parts;
  for (const LocalBox& local : spec.local) parts.push_back(elements_of(whole, local.box));
  return at::cat(parts).view(spec.local_shape());
}

}  // namespace

void parallelize(const std::vector<NamedParameter>& parameters, const Mesh& mesh, const TensorPlan& plan) {
  const at::NoGradGuard none;
  if (makes_lazy_tensors())
    fail("parallelize: called within the life of a LazyConstruction, expected after it: end its scope before");
  Communicator& group = mesh.tensor();
  std::vector<NamedParameter> once;  // what occurs twice has the names of its first module
  std::vector<WholeParameter> whole;
  for (const NamedParameter& p : parameters) {
    const auto same = [&](const NamedParameter& other) { return other.tensor.is_same(p.tensor); };
    if (std::ranges::any_of(once, same)) continue;
    require_usable(p, mesh.device());
    once.push_back(p);
    whole.push_back({p.name, p.tensor.sizes().vec()});
  }
  const std::vector<TensorPart> parts = divide(plan, whole, group.rank(), group.size());
  if (group.size() == 1) return;
  const TensorRanks ranks{.group = &group};
  const auto stream = make_stream(mesh.device(), StreamUse::compute);
  for (size_t i = 0; i < once.size(); ++i) {
    at::Tensor values = copy_of_values(once[i].tensor, /*needed=*/group.rank() == 0);
    if (values.numel() > 0) stream->wait(group.broadcast(values, 0, *stream));
    const ParameterSpec& spec = parts[i].spec;
    TensorPlacement placement{.spec = spec, .ranks = ranks};
    if (const TensorRule* rule = parts[i].rule) {
      placement.role = rule->role;
      placement.gather = rule->gather.value_or(rule->role == TensorRole::vocabulary);
    }
    at::Tensor part;
    if (placement.divided())
      part = part_of(values, spec);
    else
      take_values(once[i].tensor, std::move(values));
    place(once[i].tensor, part, std::move(placement));
  }
}

int64_t tensor_share(int64_t count, const Mesh& mesh) {
  const ParameterSpec spec{.name = "tensor_share", .shape = {count}, .split = Split::rows};
  return local_boxes(spec, mesh.tensor().rank(), mesh.tensor().size()).front().box.columns;
}

at::Tensor vocabulary_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& head,
                                    int64_t ignored) {
  if (logits.dim() != 2 || labels.sizes() != logits.sizes().slice(0, 1))
    fail("vocabulary_cross_entropy: logits {} and labels {}, expected [rows, part] and [rows]",
         fmt::join(logits.sizes(), " x "), fmt::join(labels.sizes(), " x "));
  const TensorPlacement* placement = placement_of(head);
  if (placement == nullptr || !placement->divided())
    return at::cross_entropy_loss(logits.to(at::kFloat), labels, {}, at::Reduction::Mean, ignored);
  if (placement->role != TensorRole::vocabulary || logits.size(1) != head.size(0))
    fail(
        "vocabulary_cross_entropy: {} columns of logits for {}, expected this rank's {} of a linear of role vocabulary "
        "with gather false",
        logits.size(1), placement->spec.name, head.size(0));
  return divided_cross_entropy(logits, labels, ignored,
                               {.size = placement->spec.shape[0], .first = placement->spec.local.front().box.row},
                               placement->ranks)
             .sum() /
         labels.ne(ignored).sum();
}

at::Tensor divided_dropout(const at::Tensor& x, double probability, bool training, const Mesh& mesh) {
  if (!(probability >= 0 && probability < 1))
    fail("divided_dropout: probability {}, expected at least 0 and below 1", probability);
  if (!training || probability == 0) return x;
  const auto drawn =
      at::randint(std::numeric_limits<int64_t>::max(), {1}, at::TensorOptions(at::kLong)).item<int64_t>();
  at::Generator generator = at::globalContext().defaultGenerator(x.device()).clone();
  generator.set_current_seed(mix(static_cast<uint64_t>(drawn) ^ mix(static_cast<uint64_t>(mesh.tensor().rank()) + 1)));
  const at::Tensor mask = at::empty_like(x).bernoulli_(1 - probability, generator);
  return x * mask.div_(1 - probability);
}

}  // namespace partita
