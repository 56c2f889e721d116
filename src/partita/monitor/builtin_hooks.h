// The hooks of every run: metrics files, TensorBoard, log lines, time estimate, progress. They report for the whole
// job, so only rank 0 has them.
//
//   Hooks hooks = builtin_hooks(config, info);
//
// Metrics go to metrics.jsonl and validation.jsonl in the run's directory. TensorBoard's event files are directly in
// that directory too, so that TensorBoard shows its name. A resumed run removes entries after the step it resumes from.
#pragma once
#include <memory>

#include "partita/monitor/hooks.h"

namespace partita::internal {

[[nodiscard]] std::unique_ptr<Hook> metrics_hook(const RunInfo& info);      // priority 10
[[nodiscard]] std::unique_ptr<Hook> tensorboard_hook(const RunInfo& info);  // priority 20
[[nodiscard]] std::unique_ptr<Hook> log_line_hook(int64_t every);           // priority 30
[[nodiscard]] std::unique_ptr<Hook> pace_hook();                            // priority 35
[[nodiscard]] std::unique_ptr<Hook> progress_hook();                        // priority 40

// The hooks enabled in the configuration.
[[nodiscard]] Hooks builtin_hooks(const Config& config, const RunInfo& info);

}  // namespace partita::internal
