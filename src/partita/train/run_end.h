// The closing message of a run: what was done, where it is stored, and what to do next.
//
//   for (const std::string& line : closing_lines(run_end(view, seconds))) log::info("{}", line);
//
//   Finished step 60 of 60: 60 steps, 7.7k tokens in 0:05, training loss 3.214, validation loss 3.301
//   Checkpoint: runs/my/checkpoints/step-00000060
//   Next: partita plot runs/my; partita generate runs/my --prompt TEXT; partita eval runs/my --data FILE
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "partita/monitor/hooks.h"

namespace partita::internal {

struct RunEnd {
  int64_t first_step = 0, step = 0, total = 0;  // this process resumed after first_step
  int64_t tokens = 0;                           // processed by this process; 0: a model of something else
  double seconds = 0;
  double loss = 0, validation_loss = 0;  // latest of each; NaN: none
  std::filesystem::path checkpoint;      // the last saved; empty: none
  std::filesystem::path run;
  bool of_text = true;  // a model that generates text, not a user's module
  bool interrupted = false;
  std::string reason{};  // of an interrupt that was not a signal
};

[[nodiscard]] std::vector<std::string> closing_lines(const RunEnd&);

// `seconds`: duration of the run in this process.
[[nodiscard]] RunEnd run_end(const TrainerView&, double seconds);

}  // namespace partita::internal
