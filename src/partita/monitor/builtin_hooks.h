// The hooks of every run: metrics files, TensorBoard, log lines, expected time, progress. All of them write for the
// whole job, so that rank 0 has them and the others none.
//
//   Hooks hooks = builtin_hooks(config, info);
//
// In the run's directory: metrics.jsonl, validation.jsonl and TensorBoard's event files, which are there so that
// TensorBoard names the run by that directory. A run that resumes cuts what was written beyond the step it resumes
// from.
#pragma once
#include <memory>

#include "partita/monitor/hooks.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Hook> metrics_hook(const RunInfo& info);      // priority 10
[[nodiscard]] std::unique_ptr<Hook> tensorboard_hook(const RunInfo& info);  // priority 20
[[nodiscard]] std::unique_ptr<Hook> log_line_hook(int64_t every);           // priority 30
[[nodiscard]] std::unique_ptr<Hook> pace_hook();                            // priority 35
[[nodiscard]] std::unique_ptr<Hook> progress_hook();                        // priority 40

// What the configuration asks for.
[[nodiscard]] Hooks builtin_hooks(const Config& config, const RunInfo& info);

}  // namespace partita::internal
