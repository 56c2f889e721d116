// Tensor parallelism for a torch::nn::Module, in place: its linears and embeddings are divided over ranks by a plan of
// names, and the module is called as before.
//
//   // module: a torch::nn::Module, the same on every rank; mesh: of sizes {.data = world.size() / 2, .tensor = 2}
//   parallelize(named(module), mesh, llama_plan(/*head_size=*/16, /*heads=*/4, /*kv_heads=*/2));
//   ZeroOptimizer optimizer(named(module), mesh, {.stage = 1});       // over the data-parallel ranks
//
// An operation `linear` or `embedding` on a parameter that is divided is computed by all ranks of the tensor-parallel
// group. Between a linear of role column and the one of role row that follows, a rank has a part of the features; code
// there takes their number from the tensor (view({batch, length, -1, head_size})) or from tensor_share. Everything else
// is computed by every rank of the group, on the same samples: so seed torch's generators with the position in
// mesh.position().data, and draw dropout on divided features by divided_dropout.
//
// Divide a module last: clone() of a divided module, or to(device, dtype), gives parameters that are parts and are
// taken for the whole.
//
// Gradients are right after backward as ZeroOptimizer takes them; an own optimizer would also have to sum those of
// parameters of role replicate_sum, and count the others once in a norm.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "partita/comm/mesh.h"
#include "partita/module/parameter_group.h"
#include "partita/module/tensor_plan.h"

namespace partita {

// Parameters of a module on the mesh's device. What is divided keeps this rank's part, of the values that the first
// rank of the tensor-parallel group has; the others take these values whole. Call it when the module is on its final
// device, before its first forward and before ZeroOptimizer, which gives units and optimizer states to the parts. The
// mesh must outlive the module. Collective. Errors: those of internal::divide; a parameter that is divided already, or
// belongs to a ZeroOptimizer. Other operations on a part than linear and embedding fail when they are
// called, except, where autograd does not record them, copies and what looks at values (norms, sums).
void parallelize(const std::vector<NamedParameter>&, const Mesh&, const TensorPlan&);

// Of `count` things that a rule divides with its quantum of one thing, such as heads: the number on this rank.
[[nodiscard]] int64_t tensor_share(int64_t count, const Mesh&);

// Cross entropy, as torch::nn::functional::cross_entropy, of logits [rows, part] whose columns are divided like the
// parameter `head`: the weight [vocabulary, width] of a linear of role vocabulary whose rule has gather false. No rank
// has all logits. The mean over rows whose label is not `ignored`.
[[nodiscard]] at::Tensor vocabulary_cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                                                  const at::Tensor& head, int64_t ignored = -100);

// Dropout of features that are divided over the ranks: other masks on each rank. The generator of torch, from which the
// ranks draw the same number, says which; so recompute() repeats them.
[[nodiscard]] at::Tensor divided_dropout(const at::Tensor& x, double probability, bool training, const Mesh&);

}  // namespace partita
