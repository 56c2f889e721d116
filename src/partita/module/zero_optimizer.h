// ZeRO for any torch::nn::Module: data-parallel training in which the ranks share the optimizer's states, gradients
// from stage 2 on, and weights with stage 3.
//
//   // module: a torch::nn::Module, the same on every rank
//   ZeroOptimizer optimizer(named(module), mesh, {.stage = 2, .learning_rate = 1e-3});
//   for (int64_t step = 0; step < steps; ++step) {
//     at::Tensor loss = module.loss(step);              // of this rank's samples
//     loss.backward();                                  // reduces gradients while it runs
//     const ZeroStep r = optimizer.step();              // clips, updates, and gives all ranks the weights
//   }
//
// Stages 0 (plain data parallelism) to 3 (shard/sharding.h). Weights begin as rank 0 has them. Gradients are averaged
// over the ranks. They belong to the optimizer as soon as they are computed: a parameter's grad() is undefined after
// backward, and nothing may be done to it. After a step they are gone; zero_grad is not needed.
//
// With stage 3 a rank keeps a slice of every parameter, also of frozen ones. An operation of torch that reads a
// parameter, or a view of one, gathers it first, with the others of its unit, in forward, in backward or elsewhere; up
// to three units of each group and dtype, and of what is frozen, are there at once, the next one in the last step's
// order ahead. So:
// - All ranks use the parameters in the same order, also in reads between steps.
// - Code that reads memory itself (data_ptr, kernels of your own) must be an operator that is registered with torch.
// - torch::save of the module fails: save what weights() or state_dict() returns, and copies of frozen parameters,
//   which all ranks make (parameter.detach().clone()).
// - One thread at a time uses the module.
// - After the optimizer's end the parameters have no values.
// Backward passes within passes are not supported with any stage: for activation checkpointing use recompute().
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/comm/mesh.h"
#include "partita/engine/offload.h"
#include "partita/module/module_state.h"
#include "partita/module/parameter_group.h"
#include "partita/module/torch_optimizer.h"
#include "partita/optim/optimizer_options.h"

namespace partita {

namespace internal {
struct OptimizerAccess;  // module/optimizer_access.h
}

struct ZeroOptimizerOptions {
  int stage = 1;  // 0 to 3
  OptimizerOptions optimizer{.beta2 = 0.999, .weight_decay = 0.01};
  double learning_rate = 1e-3;
  double max_norm = 1;   // gradients with a larger norm, over all parameters and ranks, are scaled to it; 0: never
  double norm_type = 2;  // p of the norm: 1, 2, or infinity for the largest element
  // Backward passes of a step whose gradients are added. With stages 0 and 1 only the last one communicates. A step may
  // have fewer.
  int micro_batches = 1;
  DType optimizer_dtype = DType::fp32;  // of master weights and states; or that of the parameters
  bool overlap = true;                  // reduce gradients while backward goes on
  int64_t unit_elements = 30'000'000;   // parameters are reduced in units of about this many elements
  // What is in host memory or on disk, and updated by the CPU: master weights, states and gradients, of whole units, of
  // each group and dtype the last ones that are registered, and at least one. With all on the CPU no bit of the
  // training changes. `activations` must be 0.
  //   .offload = {.optimizer = 0.6, .disk = 0.3, .disk_folder = "/nvme/scratch"}
  Offload offload = {};
  // Not empty: this optimizer updates the weights instead, on every rank those of its slices (torch_optimizer.h); its
  // hyperparameters are its own. The rest is as usual: clipping, and steps with gradients that are not finite.
  // Hyperparameters of groups are not used. What offload keeps in host memory it updates there; with disk it is an
  // error.
  //   .torch_optimizer = [](const auto& groups) { return std::make_shared<torch::optim::RMSprop>(groups[0]); }
  MakeTorchOptimizer torch_optimizer = {};
  bool poison = false;  // fill gradient memory that is about to be used again with NaN
};

struct ZeroStep {
  double grad_norm = 0;  // of the averaged gradient, before clipping: with p of norm_type
  bool skipped = false;  // it was not finite: nothing changed
};

class ZeroOptimizer {
 public:
  // Collective; the mesh must outlive this object. It may have tensor and pipeline parallelism (parallelize.h,
  // pipeline.h): stages are over the data-parallel ranks, and the norm is that of the whole model. Parameters that
  // occur twice are trained once; those that do not require a gradient are not, but begin as rank 0 has them, too, and
  // values that are written into them are kept. With stage 3 they are divided, except where they share memory with
  // another parameter, have a dtype that is not trained, or belong to another ZeroOptimizer. The parameters' storage
  // moves into the optimizer's: create it when the model has its final device and dtype. A module that was constructed
  // lazily (lazy_construction.h) gets the memory of one parameter at a time. Errors,
  // with the parameter's name: a dtype other than fp32, bf16 and fp16; a device other than the mesh's; parameters
  // that share memory; a parameter in two groups, or of another ZeroOptimizer; ranks whose parameters differ. Errors of
  // offload: fractions that are none, or more than 1 together; no disk_folder; on all ranks: that of one cannot be
  // written, or has less space than its file takes. After an error the parameters are as they were.
  ZeroOptimizer(std::vector<NamedParameter>, const Mesh&, const ZeroOptimizerOptions& = {});
  // Each group has hyperparameters of its own instead of those of the options.
  ZeroOptimizer(std::vector<ParameterGroup>, const Mesh&, const ZeroOptimizerOptions& = {});
  ~ZeroOptimizer();
  ZeroOptimizer(const ZeroOptimizer&) = delete;
  ZeroOptimizer& operator=(const ZeroOptimizer&) = delete;

  // The next backward pass gives gradients to none but these parameters. With stages 2 and 3 it then reduces no others,
  // as in a pipeline, whose passes are of some parameters each. The same on all data-parallel ranks.
  void expect_gradients(const std::vector<at::Tensor>& parameters);

  // One update from the gradients of the backward passes since the last one. Collective. Errors: no backward pass; a
  // parameter was moved, or has a gradient that did not come from backward.
  ZeroStep step();
  // The same after the closure, which computes the loss and calls backward.
  ZeroStep step(const std::function<void()>& closure);
  // Drops what backward passes since the last step have added. Collective.
  void zero_grad();

  // Master weights, states of the optimizer and numbers of steps, whole and in host memory, on rank 0; empty on the
  // others. Frozen parameters, buffers, learning rates, and the states of an optimizer of torch are not in it: such an
  // optimizer is saved on each rank, and fits the same ranks, stage and units only. Collective.
  [[nodiscard]] StateDict state_dict();
  // Goes on from it, whatever number of ranks and stage it comes from; each rank passes the same. Errors: a key is
  // missing or unknown, or has another shape; then nothing has changed. Collective.
  void load_state_dict(const StateDict&);

  // All trained parameters, whole, copied into host memory. Collective with stage 3, and with tensor or
  // pipeline parallelism.
  [[nodiscard]] std::vector<NamedParameter> weights() const;

  void set_learning_rate(double);  // of all groups
  void set_learning_rate(size_t group, double);
  [[nodiscard]] double learning_rate(size_t group = 0) const;  // unused with an optimizer of torch

  struct Memory {  // bytes on this rank, the most of a step: slices of gradients exist only from backward to update
    int64_t weights = 0, gradients = 0, master = 0, optimizer = 0;  // on the device
    int64_t host = 0, disk = 0;                                     // of offload: master weights, states, gradients
  };
  [[nodiscard]] Memory memory() const;

  [[nodiscard]] int micro_batches() const;  // as the options have it
  [[nodiscard]] size_t groups() const;

 private:
  friend struct internal::OptimizerAccess;
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
