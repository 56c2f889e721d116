// Bytes that torch's allocator for host memory gives out on this thread.
//
//   const CountedMemory counted;
//   ...
//   EXPECT_LE(counted.peak(), 4 << 20);     // more than at the beginning, at any time
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>

namespace partita::internal {

class CountedMemory {
 public:
  [[nodiscard]] int64_t now() const { return counts_->now; }
  [[nodiscard]] int64_t peak() const { return counts_->peak; }

 private:
  struct Counts final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device device) override {
      if (!device.is_cpu()) return;
      now += bytes;
      peak = std::max(peak, now);
    }
    [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
    int64_t now = 0, peak = 0;
  };
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counts_};
};

}  // namespace partita::internal
