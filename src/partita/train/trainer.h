// A training run from configuration to last checkpoint: data, engine, schedule, validation, checkpoints, hooks.
//
//   train(config, world);
//   Hooks mine;
//   mine.add(std::make_unique<Sampler>());        // monitor/hooks.h
//   train(config, world, std::move(mine));
//
// All ranks call it. It resumes by itself (checkpoint.resume = "auto") and ends by itself: after the last step, on
// Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 after the present step with a checkpoint saved, or by an Error.
#pragma once
#include "partita/comm/world.h"
#include "partita/config/config.h"
#include "partita/monitor/hooks.h"

namespace partita {

struct TrainOutcome {
  int64_t step = 0;          // the last one done
  bool interrupted = false;  // asked to stop before the end
};

// `config` must have passed validate(config, world.size()); model.vocab_size may be 0 (the tokenizer's). `extra` hooks
// run on every rank, beside the built-in ones of rank 0.
TrainOutcome train(Config config, World& world, Hooks extra = {});

// Where a run keeps its checkpoints.
[[nodiscard]] std::filesystem::path checkpoints_folder(const std::filesystem::path& run);

}  // namespace partita
