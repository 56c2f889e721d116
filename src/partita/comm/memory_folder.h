// The folder in memory of a job under `partita launch --restarts`. It belongs to the launcher, so that it outlives
// the ranks, which keep checkpoints there and the number of steps that they have come to.
//
//   StepCounter counter(memory_folder_of_job(), "a");   // on rank 0 of run a
//   counter.set(57);                                    // after each step
//   steps_reached(folder)                               // in the launcher, of all runs: 57
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace partita::internal {

// Names the folder to the ranks.
inline constexpr const char* kMemoryFolder = "PARTITA_MEMORY_FOLDER";

// Empty: this process is not a rank of such a job.
[[nodiscard]] std::filesystem::path memory_folder_of_job();

// Keeps the largest number that it was given, also in an earlier start. Costs a system call per step. If its file
// cannot be written, it counts nothing.
class StepCounter {
 public:
  // folder empty: counts nothing. run: a name that no other run of the job has.
  StepCounter(const std::filesystem::path& folder, const std::string& run);
  ~StepCounter();
  StepCounter(const StepCounter&) = delete;
  StepCounter& operator=(const StepCounter&) = delete;
  void set(int64_t step);

 private:
  int file_ = -1;
  int64_t most_ = 0;
};

// The sum over all counters in the folder.
[[nodiscard]] int64_t steps_reached(const std::filesystem::path& folder);

}  // namespace partita::internal
