#include "partita/device/device_stream.h"

#include <thread>

#include "partita/base/error.h"
#include "partita/device/stream_delay.h"
#ifdef PARTITA_CUDA
#include "partita/device/cuda/stream.h"
#endif

namespace partita::internal {
namespace {

// Delays the thread that issues the work.
class LateCpuStream final : public Stream {
 public:
  [[nodiscard]] Event record() override {
    std::this_thread::sleep_for(next_stream_delay());
    return {};
  }
  void wait(const Event& event) override {
    std::this_thread::sleep_for(next_stream_delay());
    event.wait();
  }
  void run(const std::function<void()>& work) override { work(); }
};

}  // namespace

std::unique_ptr<Stream> make_stream(c10::Device device, StreamUse use) {
  if (device.is_cpu()) {
    if (has_stream_delays()) return std::make_unique<LateCpuStream>();
    return std::make_unique<CpuStream>();
  }
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    if (use == StreamUse::compute) return std::make_unique<CudaStream>(c10::cuda::getCurrentCUDAStream(device.index()));
    const bool goes_first = use == StreamUse::concurrent;
    return std::make_unique<CudaStream>(c10::cuda::getStreamFromPool(goes_first, device.index()));
  }
#endif
  (void)use;
  fail("no code for device {} in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed", device.str());
}

}  // namespace partita::internal
