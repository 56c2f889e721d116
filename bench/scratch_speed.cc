// Speed of ScratchFile in the pattern of training: one unit is read ahead, one is worked on, one is written behind.
// bench/compare_scratch.py runs it beside fio.
//
//   scratch_speed --folder /nvme --mib 2048 --unit-mib 96 --rounds 3     # {"read": [GB/s of each round], ...}
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "partita/base/log.h"
#include "partita/device/host_memory.h"
#include "partita/device/scratch_file.h"

namespace partita {
namespace {

using internal::ScratchFile;

constexpr size_t kBuffers = 3;  // as HostStates has

struct Arguments {
  std::string folder = ".";
  int64_t mib = 2048, unit_mib = 96;
  int rounds = 3;
};

struct Buffer {
  at::Tensor memory;
  Event read, written;
};

// GB/s of the bytes that `work` moves.
double speed(int64_t bytes, const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return static_cast<double>(bytes) / 1e9 /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Passes over the file unit by unit.
class Passes {
 public:
  Passes(ScratchFile& file, int64_t unit) : file_(file), unit_(unit) {
    // Some disks are faster with zeros.
    for (Buffer& buffer : buffers_) buffer.memory = internal::host_zeros(unit, DType::uint8).random_(0, 256);
  }

  // `reads`: the next unit while one is worked on; `writes`: the one before. No work is done.
  void pass(bool reads, bool writes) {
    const int64_t units = file_.bytes() / unit_;
    if (reads) begin_read(0);
    for (int64_t u = 0; u < units; ++u) {
      if (reads && u + 1 < units) begin_read(u + 1);
      Buffer& buffer = buffer_of(u);
      buffer.read.wait();
      buffer.written.wait();
      if (writes) buffer.written = file_.write(memory(u), u * unit_, unit_);
    }
    for (Buffer& buffer : buffers_) buffer.written.wait();
  }

 private:
  Buffer& buffer_of(int64_t u) { return buffers_[static_cast<size_t>(u) % kBuffers]; }
  void* memory(int64_t u) { return buffer_of(u).memory.mutable_data_ptr(); }
  void begin_read(int64_t u) {
    buffer_of(u).written.wait();
    buffer_of(u).read = file_.read(memory(u), u * unit_, unit_);
  }

  ScratchFile& file_;
  int64_t unit_;
  std::array<Buffer, kBuffers> buffers_;
};

nlohmann::json measure(const Arguments& a) {
  const int64_t unit = a.unit_mib << 20, bytes = (a.mib << 20) / unit * unit;
  ScratchFile file(a.folder, bytes);
  Passes passes(file, unit);
  passes.pass(false, true);  // reserved blocks get their first content
  std::vector<double> read, write, both;
  for (int round = 0; round < a.rounds; ++round) {
    read.push_back(speed(bytes, [&] { passes.pass(true, false); }));
    write.push_back(speed(bytes, [&] { passes.pass(false, true); }));
    both.push_back(speed(2 * bytes, [&] { passes.pass(true, true); }));
  }
  return {{"read", read}, {"write", write}, {"both", both}, {"direct", file.is_direct()}, {"bytes", bytes}};
}

}  // namespace
}  // namespace partita

int main(int count, char** words) try {
  CLI::App app("Speed of files for states on disk, in GB/s");
  partita::Arguments a;
  app.add_option("--folder", a.folder, "of the file")->capture_default_str();
  app.add_option("--mib", a.mib, "MiB of the file")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--unit-mib", a.unit_mib, "MiB of a unit")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--rounds", a.rounds)->check(CLI::PositiveNumber)->capture_default_str();
  CLI11_PARSE(app, count, words);
  std::cout << partita::measure(a).dump() << std::endl;
} catch (const std::exception& error) {
  partita::log::error("{}", error.what());
  return 1;
}
