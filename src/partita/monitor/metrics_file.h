// Metrics as JSON lines: one line per step in metrics.jsonl, one per validation in validation.jsonl.
//
//   MetricsFile file(run / "metrics.jsonl", resumed_step);   // removes entries after that step
//   file.append(to_json(step));    // {"step":1,"consumed_samples":32,"loss":8.3179...,"grad_norm":...,"lr":...,
//                                  //  "tokens_per_second":...,"seconds":...,"skipped_steps":0,"nan_steps":0,
//                                  //  "memory_peak":null}
//   for (const StepMetrics& step : read_steps(run / "metrics.jsonl")) ...
//
// Numbers are the shortest that read back to the same double. Values that JSON lacks are null: NaN, infinity, and the
// device memory where there is none.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "partita/base/file.h"
#include "partita/monitor/metrics.h"

namespace partita::internal {

[[nodiscard]] std::string to_json(const StepMetrics& step);
[[nodiscard]] std::string to_json(const EvalMetrics& eval);

class MetricsFile {
 public:
  // Opens for appending. Keeps only entries up to `resumed_step`, so that a resumed run leaves the same file as an
  // uninterrupted one; a line truncated by a crash is dropped. Malformed lines are moved to PATH.damaged with a
  // warning.
  MetricsFile(std::filesystem::path path, int64_t resumed_step);

  // Writes one line in a single write, so readers see it immediately and whole.
  void append(const std::string& json);
  // Makes the lines written so far durable.
  void sync();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

// null reads as NaN; a memory_peak that is null or absent reads as 0. Malformed lines are skipped with one warning that
// gives their number and names the first; an unterminated last line (still being written) is skipped too. Error: the
// file cannot be read.
[[nodiscard]] std::vector<StepMetrics> read_steps(const std::filesystem::path& path);
[[nodiscard]] std::vector<EvalMetrics> read_evals(const std::filesystem::path& path);

}  // namespace partita::internal
