// A complete training run of a torch::nn module, from a loss: learning-rate schedule, validation, checkpoints, hooks.
//
//   ZeroOptimizer optimizer(named(module), mesh, {.stage = 2});
//   ModuleTrainer trainer(optimizer, untrained(module), mesh,
//                         {.run = {.directory = "runs/mine"}, .steps = 1000, .global_batch = 64,
//                          .schedule = {.kind = ScheduleKind::cosine, .max = 1e-3, .min = 1e-4, .warmup = 50}});
//   TrainOutcome outcome = trainer.run([&](const MicroBatch& batch) { return module.loss(batch.step); });
//
// As `partita train`: the run owns its folder, resumes automatically (checkpoint.resume = "auto"), on any number of
// ranks and at any ZeRO stage, and ends after the last step, with an Error, or on Ctrl-C, SIGTERM, SIGHUP or SIGUSR1:
// it then finishes the current step and saves a checkpoint. In the folder are metrics.jsonl, validation.jsonl, event
// files of TensorBoard, and checkpoints (module_checkpoint.h). A step with gradients that are not finite is skipped;
// ten in a row are an error.
//
// A module that a pipeline trains (module/pipeline.h): the trainer takes the pipeline, too, and run what the first part
// takes and a loss of what the last one returns. On one rank or several stages, with tensor and data parallelism:
//
//   // pipeline: a Pipeline; pipelined: a ZeroOptimizer on its parameters()
//   ModuleTrainer staged(pipelined, pipeline, pipeline.untrained(), mesh,
//                        {.run = {.directory = "runs/staged"}, .global_batch = 64});
//   staged.run([](const MicroBatch& batch) { return std::vector<at::Tensor>{at::ones({batch.samples, 8})}; },
//              [](const std::vector<at::Tensor>& outputs, const MicroBatch&) { return outputs[0].square().mean(); });
//
// An interrupted run goes on bit for bit on the same ranks and stage, if the loss is a function of the micro-batch that
// it is given: ShuffledSamples (data/shuffled_samples.h) has its samples.
// torch's random generators are seeded before each call from the seed, the step, the micro-batch and the data-parallel
// rank; in a pipeline for its inputs and its loss alike, and before each part, with the number of the part as well, so
// that dropout does not depend on the stages. After each step all data-parallel ranks have the buffers of the first.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "partita/comm/mesh.h"
#include "partita/config/config.h"
#include "partita/module/pipeline.h"
#include "partita/module/zero_optimizer.h"
#include "partita/monitor/hooks.h"
#include "partita/optim/schedule.h"
#include "partita/train/module_checkpoint.h"
#include "partita/train/run_counts.h"
#include "partita/train/trainer.h"

namespace partita {

struct ModuleTraining {
  RunConfig run;             // its folder; fork and rewind as of `partita train`
  int64_t steps = 1000;      // of the whole run
  int64_t global_batch = 1;  // samples of a step, over all ranks and micro-batches, which must divide it
  // Of learning rates, in steps without the skipped ones; max 0: rates stay as the optimizer has them. length 0: the
  // whole run; wsd_decay 0: a tenth of the length. A group whose rate is k times that of the first keeps this factor.
  Schedule schedule;
  int64_t evaluate_every = 0;  // steps; 0: never
  CheckpointConfig checkpoint;
  LogConfig log;  // profile_steps is for models of Partita only
  int64_t seed = 1234;
};

struct MicroBatch {
  int64_t step = 0;          // from 0
  int number = 0;            // of the step's micro-batches
  int64_t first_sample = 0;  // counted over the run and all ranks: the micro-batch has this one and those after it
  int64_t samples = 0;       // of this rank; those of data-parallel rank r begin at first_sample + r * samples
};

class ModuleTrainer {
 public:
  // Takes the run's folder, and loads the checkpoint where the run goes on. `extra` hooks run on every
  // rank, in addition to the built-in ones on rank 0. Collective; optimizer and mesh must outlive this object. Errors:
  // options out of range; another process has the folder; a checkpoint of another model, or damaged without one before
  // it; an optimizer of torch, whose states no checkpoint has.
  ModuleTrainer(ZeroOptimizer&, Untrained, const Mesh&, const ModuleTraining&, Hooks extra = {});
  // Of a module that the pipeline trains, on the same mesh; the pipeline must outlive this object, which replaces its
  // before_each_part.
  ModuleTrainer(ZeroOptimizer&, Pipeline&, Untrained, const Mesh&, const ModuleTraining&, Hooks extra = {});
  ~ModuleTrainer();
  ModuleTrainer(const ModuleTrainer&) = delete;
  ModuleTrainer& operator=(const ModuleTrainer&) = delete;

  // Where the run begins, before run(): 0, or as its checkpoint has it.
  [[nodiscard]] const RunCounts& start() const;

  // The mean loss over this rank's samples of a micro-batch, with its graph: the trainer calls backward.
  using Loss = std::function<at::Tensor(const MicroBatch&)>;
  // Trains up to the last step; once. The loss that is reported is the mean over ranks and micro-batches. evaluate:
  // this rank's validation loss, called without gradients by all ranks; the mean over ranks is reported. Errors:
  // evaluate is missing though evaluate_every is set; the loss is not a single value with a graph.
  TrainOutcome run(const Loss&, const std::function<double()>& evaluate = {});

  // What the first part takes of this rank's samples, called on the ranks that have the first stage.
  using Inputs = std::function<std::vector<at::Tensor>(const MicroBatch&)>;
  // The mean loss over this rank's samples, of what the last part returns; called on the ranks that have the last
  // stage.
  using LossOfOutputs = std::function<at::Tensor(const std::vector<at::Tensor>& outputs, const MicroBatch&)>;
  // The same with a pipeline. evaluate: as above, by Pipeline::evaluate.
  TrainOutcome run(const Inputs&, const LossOfOutputs&, const std::function<double()>& evaluate = {});

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace partita
