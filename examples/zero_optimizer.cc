// ZeRO for a torch::nn::Module: the loop that PyTorch's users write, in which the ranks share the optimizer's states.
#include <partita/partita.h>
#include <torch/torch.h>

using namespace partita;

int main() try {
  World world = World::connect({});  // rank from mpirun, srun or torchrun; otherwise single
  configure_threads(world);
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  torch::nn::Sequential model(torch::nn::Linear(8, 64), torch::nn::GELU(), torch::nn::Linear(64, 1));
  model->to(mesh.device());
  ZeroOptimizer optimizer(named(*model), mesh, {.stage = 2, .learning_rate = 3e-3});

  torch::manual_seed(1 + world.rank());  // each rank has samples of its own
  for (int step = 0; step <= 300; ++step) {
    const torch::Tensor x = torch::rand({32, 8}, mesh.device());
    const torch::Tensor loss = torch::mse_loss(model->forward(x).squeeze(1), x.square().sum(1));
    loss.backward();                      // gradients are reduced while it runs
    const ZeroStep r = optimizer.step();  // clips them to norm 1, updates, and gives all ranks the new weights
    if (world.rank() == 0 && step % 50 == 0)
      log::info("step {}: loss {:.3f}, gradient norm {:.3f}", step, loss.item<double>(), r.grad_norm);
  }
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());  // the other ranks end, too
}
