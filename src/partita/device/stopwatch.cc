#include "partita/device/stopwatch.h"

#include <chrono>

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include <c10/cuda/CUDAStream.h>

#include "partita/base/cuda_error.h"
#endif

namespace partita::internal {
namespace {

class HostStopwatch final : public Stopwatch {
 public:
  void mark() override { marks_.push_back(std::chrono::steady_clock::now()); }
  std::vector<double> take() override {
    std::vector<double> seconds;
    for (const auto& mark : marks_) seconds.push_back(std::chrono::duration<double>(mark - marks_.front()).count());
    marks_.clear();
    return seconds;
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

#ifdef PARTITA_CUDA
class DeviceStopwatch final : public Stopwatch {
 public:
  ~DeviceStopwatch() override {
    for (const cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  void mark() override {
    cudaEvent_t event = nullptr;
    PARTITA_CUDA_CHECK(cudaEventCreate(&event));
    events_.push_back(event);
    PARTITA_CUDA_CHECK(cudaEventRecord(event, c10::cuda::getCurrentCUDAStream().stream()));
  }
  std::vector<double> take() override {
    std::vector<double> seconds;
    if (!events_.empty()) PARTITA_CUDA_CHECK(cudaEventSynchronize(events_.back()));
    for (const cudaEvent_t event : events_) {
      float milliseconds = 0;
      PARTITA_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, events_.front(), event));
      seconds.push_back(milliseconds * 1e-3);
    }
    for (const cudaEvent_t event : events_) PARTITA_CUDA_CHECK(cudaEventDestroy(event));
    events_.clear();
    return seconds;
  }

 private:
  std::vector<cudaEvent_t> events_;
};
#endif

}  // namespace

std::unique_ptr<Stopwatch> make_stopwatch(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<HostStopwatch>();
#ifdef PARTITA_CUDA
  if (device.is_cuda()) return std::make_unique<DeviceStopwatch>();
#endif
  fail("no code for device {} in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed", device.str());
}

}  // namespace partita::internal
