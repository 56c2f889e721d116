#include <partita/partita.h>
using namespace partita;

int main(int count, char** arguments) try {  // train PREFIX: trains on PREFIX.bin and PREFIX.idx
  if (count != 2) fail("usage: train PREFIX");
  World world = World::connect({});  // rank from mpirun, srun or torchrun; otherwise single
  configure_threads(world);
  Mesh mesh(world, select_device(DeviceRequest::automatic, world));
  const ModelConfig model{.layers = 4, .hidden_size = 128, .heads = 4, .vocab_size = 4096};  // or gpt2_small()
  const auto tokens = std::make_shared<const IndexedDataset>(arguments[1]);
  const auto samples = std::make_shared<const GptDataset>(tokens, SequenceRange{0, tokens->sequences()},
                                                          GptIndexSpec{.sequence_length = 64, .samples = 100 * 8});
  BatchLoader loader(samples, {.global_batch = 8, .micro_batch = 2}, mesh.data());
  const auto engine = make_engine(model, mesh, /*zero_stage=*/3,
                                  {.shape = {.samples = 2, .length = 64}, .micro_batches = loader.micro_batches()});
  for (int64_t i = 0; i < 100; ++i) {
    const StepResult r = engine->step(loader.read(i * 8), {.step = i, .update = i, .learning_rate = 1e-3, .clip = 1});
    if (world.rank() == 0) log::info("step {}: loss {:.3f}", i, r.loss);
  }
  save_engine(*engine, {model}, mesh, "runs/example", {.step = 100, .consumed_samples = 800});
} catch (const std::exception& error) {
  log::error("{}", error.what());
  World::abort(1, error.what());  // the other ranks end, too
}
