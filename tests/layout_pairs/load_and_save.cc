// A rank of a job that loads a checkpoint into the engine of a configuration, and saves it again at the same step,
// without a step of training in between.
//
//   load_and_save CHECKPOINT OUT CONFIG [--section.key=value...]     // writes OUT/step-N
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "partita/base/log.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/config/config.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_checkpoint.h"

namespace partita::internal {
namespace {

void load_and_save(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                   const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  Config config = load_config(file, overrides);
  const std::chrono::seconds timeout(config.parallel.timeout_seconds);
  World world = World::connect({.timeout = timeout});
  log::configure(world.rank(), world.size());
  validate(config, world.size());
  configure_threads(world, config.train.threads);
  complete_model(config);
  Mesh mesh(world, mesh_sizes(config, world.size()), at::kCPU, timeout);
  const std::unique_ptr<Engine> engine = build_training_engine(config, mesh);
  const Part part = config.lora.rank > 0 ? Part::adapters : Part::all;
  CommunicatorPeers peers(mesh.world());
  const nlohmann::json scalars = load_checkpoint(checkpoint, wanted_contents(*engine, part), peers);
  engine->publish_weights();
  CheckpointContents contents = saved_contents(*engine, part);
  contents.scalars = scalars;
  save_checkpoint(out, scalars.at("step"), contents, peers);
}

}  // namespace
}  // namespace partita::internal

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) {
    std::fprintf(stderr, "usage: load_and_save CHECKPOINT OUT CONFIG [--section.key=value...]\n");
    return 2;
  }
  try {
    partita::internal::load_and_save(words[0], words[1], words[2], {words.begin() + 3, words.end()});
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    partita::World::abort(1, error.what());
  }
}
