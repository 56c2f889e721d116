// Pipeline parallelism for a model that is a list of parts (pipeline_part.h): the ranks of a group compute consecutive
// parts, its stages, of several micro-batches at the same time.
//
//   // mesh: of sizes {.pipeline = world.size()}
//   const std::vector<PipelinePart> parts{pipeline_part("first", layer), pipeline_part("second", layer)};
//   Pipeline pipeline(parts, mesh, {.schedule = PipelineSchedule::one_f_one_b, .micro_batches = 8});
//   ZeroOptimizer optimizer(pipeline.parameters(), mesh, {.micro_batches = pipeline.passes()});
//   const double loss = pipeline.step(
//       optimizer, [](int micro_batch) { return std::vector<at::Tensor>{at::ones({4, 8})}; },
//       [](const std::vector<at::Tensor>& outputs, int micro_batch) { return outputs[0].square().mean(); });
//   optimizer.step();
//
// Any schedule of pipeline/shape.h, with any number of micro-batches. The parts of other ranks are not called. Their
// parameters take memory all the same, unless they are constructed lazily (lazy_construction.h). Random numbers, as of
// dropout, are drawn on each rank in the order of its passes; before_each_part can seed them, so that they do not
// depend on the stages. Checkpoints of all stages: save_module(optimizer, pipeline.untrained(), mesh, ...) of
// train/module_checkpoint.h. Whole runs: train/module_trainer.h.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "partita/comm/mesh.h"
#include "partita/module/pipeline_part.h"
#include "partita/module/zero_optimizer.h"
#include "partita/pipeline/shape.h"

namespace partita {

struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;    // of a step
  int virtual_stages = 0;   // stages of a rank; 0: what the schedule needs (interleaved ones: 2)
  std::vector<int> stages;  // parts of each stage, in order; empty: of equal time, by PipelinePart::time
  // Schedules with zero bubbles: most micro-batches whose weight gradients wait at the same time; -1: as many as the
  // schedule has. The gradients of linears wait, those of other operations are computed with the inputs'.
  int open_weights = -1;
};

class Pipeline {
 public:
  // Collective over the pipeline; the mesh must outlive this object. Parameters that the first and the last stage share
  // begin as the first rank has them. Errors: fewer parts than stages; stages that do not fit; virtual stages that the
  // schedule does not have; a parameter of two ranks that are not those of the first and the last stage; two parameters
  // or two buffers of one name.
  Pipeline(std::vector<PipelinePart> parts, const Mesh& mesh, const PipelineOptions& options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Of the parts that this rank computes, each once.
  [[nodiscard]] std::vector<NamedParameter> parameters() const;
  [[nodiscard]] Untrained untrained() const;  // their buffers, and those of the parameters that require no gradient
  [[nodiscard]] int micro_batches() const;    // of a step
  [[nodiscard]] int passes() const;  // backward passes of a step on this rank: ZeroOptimizerOptions::micro_batches
  [[nodiscard]] int first_part(int stage) const;  // of all parts; for the number of stages: the number of parts
  [[nodiscard]] bool has_first_stage() const;
  [[nodiscard]] bool has_last_stage() const;

  // What the first part takes; called on the rank that has the first stage.
  using Inputs = std::function<std::vector<at::Tensor>(int micro_batch)>;
  // A scalar of what the last part returns; called on the rank that has the last stage.
  using Loss = std::function<at::Tensor(const std::vector<at::Tensor>& outputs, int micro_batch)>;

  // Forward and backward passes of all micro-batches. Gradients are those of the mean of their losses, which is
  // returned on every rank. Collective over the pipeline. The optimizer must be one of parameters(). Errors: those of
  // the parts; a loss that is no scalar.
  double step(ZeroOptimizer& optimizer, const Inputs& inputs, const Loss& loss);
  // The mean of the losses, without gradients.
  double evaluate(const Inputs& inputs, const Loss& loss);

  // What is called from now on before each forward pass of a part on this rank, such as to seed torch's generators.
  using BeforePart = std::function<void(int part, int micro_batch)>;  // part: of all parts
  void before_each_part(BeforePart);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
