// The most memory that this process has had since a moment, in bytes, whoever allocated it.
//
//   ResidentMemory memory;
//   ...
//   EXPECT_LE(memory.growth(), 24 << 20);
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace partita::internal {

class ResidentMemory {
 public:
  ResidentMemory() : before_((std::ofstream("/proc/self/clear_refs") << "5", read("VmRSS:"))) {}  // 5: the peak
  [[nodiscard]] int64_t growth() const { return read("VmHWM:") - before_; }

 private:
  static int64_t read(const std::string& key) {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
      if (word == key) {
        int64_t kibibytes = 0;
        status >> kibibytes;
        return kibibytes * 1024;
      }
    return 0;
  }
  int64_t before_;
};

}  // namespace partita::internal
