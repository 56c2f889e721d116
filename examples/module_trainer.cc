// module_trainer RUN [FILE]: an MLP of torch::nn as a whole run, with schedule, logs, checkpoints and resume. The table
// [memory] of FILE, in TOML, says where the optimizer's states are.
#include <partita/partita.h>
#include <torch/torch.h>

using namespace partita;

int main(int count, char** arguments) try {
  if (count < 2 || count > 3) fail("usage: module_trainer RUN [FILE]");
  World world = World::connect({});  // rank from mpirun, srun, torchrun or `partita launch`; otherwise single
  configure_threads(world);
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  torch::nn::Sequential model(torch::nn::Linear(8, 64), torch::nn::GELU(), torch::nn::Linear(64, 1));
  model->to(mesh.device());
  const Offload offload = count == 3 ? read_offload(arguments[2]) : Offload();
  ZeroOptimizer optimizer(named(*model), mesh, {.stage = 2, .micro_batches = 2, .offload = offload});
  ModuleTrainer trainer(optimizer, untrained(*model), mesh,
                        {.run = {.directory = arguments[1]},
                         .steps = 300,
                         .global_batch = 96,  // samples of a step, over all ranks and micro-batches
                         .schedule = {.kind = ScheduleKind::cosine, .max = 5e-3, .min = 5e-4, .warmup = 20},
                         .checkpoint = {.every = 100},
                         .log = {.every = 50}});
  // Random numbers are a function of the seed, the step, the micro-batch and the rank: a resumed run draws the same.
  const TrainOutcome outcome = trainer.run([&](const MicroBatch& batch) {
    const torch::Tensor x = torch::rand({batch.samples, 8}, mesh.device());
    return torch::mse_loss(model->forward(x).squeeze(1), x.square().sum(1));
  });
  return outcome.interrupted ? 75 : 0;
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());  // the other ranks end, too
}
