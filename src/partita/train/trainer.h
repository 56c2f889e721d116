// A complete training run from a configuration: data, engine, schedule, validation, checkpoints, hooks.
//
//   train(config, world);
//   Hooks mine;
//   mine.add(std::make_unique<Sampler>());        // monitor/hooks.h
//   train(config, world, std::move(mine));
//
// Collective over all ranks. The run resumes automatically (checkpoint.resume = "auto") and ends after the last step,
// with an Error, or on Ctrl-C, SIGTERM, SIGHUP or SIGUSR1: it then finishes the current step and saves a checkpoint.
#pragma once
#include "partita/comm/world.h"
#include "partita/config/config.h"
#include "partita/monitor/hooks.h"

namespace partita {

struct TrainOutcome {
  int64_t step = 0;          // last completed step
  bool interrupted = false;  // stopped on request before the last step
};

// `config` must have passed validate(config, world.size()); model.vocab_size may be 0 (taken from the tokenizer).
// `extra` hooks run on every rank, in addition to the built-in ones on rank 0.
TrainOutcome train(Config config, World& world, Hooks extra = {});

// The folder of a run's checkpoints.
[[nodiscard]] std::filesystem::path checkpoints_folder(const std::filesystem::path& run);

}  // namespace partita
