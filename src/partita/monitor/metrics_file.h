// The run's figures as JSON lines: metrics.jsonl, a line a step, and validation.jsonl, a line a validation.
//
//   MetricsFile file(run / "metrics.jsonl", resumed_step);   // cuts what a run behind that step had written
//   file.append(to_json(step));    // {"step":1,"consumed_samples":32,"loss":8.3179...,"grad_norm":...,"lr":...,
//                                  //  "tokens_per_second":...,"seconds":...,"skipped_steps":0,"nan_steps":0,"memory_peak":null}
//   for (const StepMetrics& step : read_steps(run / "metrics.jsonl")) ...
//
// Numbers are the shortest that read back to the same double. JSON has no NaN or infinity: they are null, as is the memory
// of a device where there is none.
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
  // Opens for appending. Of an existing file the lines of steps up to `resumed_step` stay, so that a run that resumes
  // leaves the file that a run without a stop would have left; a line cut short by a crash goes, too. Lines that are no
  // figures are moved to PATH.damaged, with a warning.
  MetricsFile(std::filesystem::path path, int64_t resumed_step);

  // One line in one write: a reader sees it at once, and whole.
  void append(const std::string& json);
  // Makes the lines so far durable.
  void sync();

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
};

// null reads as NaN; a memory_peak that is null or absent as 0. Lines that are not such figures are left out, with a warning
// that counts them and names the first; a last line without its end (being written) is left out too. Error: the file cannot
// be read.
[[nodiscard]] std::vector<StepMetrics> read_steps(const std::filesystem::path& path);
[[nodiscard]] std::vector<EvalMetrics> read_evals(const std::filesystem::path& path);

}  // namespace partita::internal
