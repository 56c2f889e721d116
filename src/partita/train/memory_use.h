// A rank's memory as it was planned before the run and as it was measured until the end.
//
//   const MemoryUse use{.planned = forecast.device_bytes(), .measured = peak.bytes()};
//   log::info("{}", memory_use_text(use));     // Memory per rank: 238.4 MiB planned, 241.0 MiB measured (1.1% more)
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace partita::internal {

// Bytes. On GPUs, of the device; on CPUs, of host memory that the process has gained since before its engine was built.
struct MemoryUse {
  int64_t planned = 0;
  int64_t measured = 0;  // GPUs: allocated by torch. 0: not available
  int64_t reserved = 0;  // GPUs: taken from the driver; CPUs: 0
  int64_t saving = 0;    // CPUs: beyond the plan, what checkpoints took: copies, buffers of the writer
  int64_t margin = 0;    // CPUs: see memory_margin

  friend bool operator==(const MemoryUse&, const MemoryUse&) = default;
};

// By how much a run on CPUs may exceed its plan: buffers of libraries for matmuls and messages, threads, logs. Measured
// with libtorch 2.11 on one and two threads, in runs of 220 MiB to 1.7 GiB: 9 to 30 MiB.
[[nodiscard]] int64_t memory_margin(int64_t planned, int threads);

// Of the rank that exceeds its plan most; where none was measured, of the first.
[[nodiscard]] const MemoryUse& worst_of(std::span<const MemoryUse> ranks);

[[nodiscard]] std::string memory_use_text(const MemoryUse&);
// {"planned":...,"measured":...,"reserved":...,"saving":...,"margin":...}; what is not available is null.
[[nodiscard]] std::string to_json(const MemoryUse&);
[[nodiscard]] MemoryUse parse_memory_use(const std::string& json);

}  // namespace partita::internal
