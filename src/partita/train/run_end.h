// What a run says when it ends: what was done, where it is, and what to do next.
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
  int64_t first_step = 0, step = 0, total = 0;  // this process began behind first_step
  int64_t tokens = 0;                           // of its steps
  double seconds = 0;
  double loss = 0, validation_loss = 0;  // the last of each; NaN: none
  std::filesystem::path checkpoint;      // the last saved; empty: none
  std::filesystem::path run;
  bool interrupted = false;
  std::string reason{};  // of an interrupt, where it was not a signal's
};

[[nodiscard]] std::vector<std::string> closing_lines(const RunEnd&);

// Of a run that took so long in this process.
[[nodiscard]] RunEnd run_end(const TrainerView&, double seconds);

}  // namespace partita::internal
