#include "partita/device/graph_runner.h"

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace partita::internal {
namespace {

class EagerRunner final : public GraphRunner {
 public:
  void run(const std::function<void()>& work) override { work(); }
  void invalidate() override {}
};

#ifdef PARTITA_CUDA
class Graph final : public GraphRunner {
 public:
  void run(const std::function<void()>& work) override {
    if (runs_ < kBefore) {
      ++runs_;
      return work();
    }
    if (!graph_) {
      auto graph = std::make_unique<at::cuda::CUDAGraph>();
      graph->capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
      try {
        work();
      } catch (...) {
        try {
          graph->capture_end();            // the stream must not stay in capture
        } catch (const std::exception&) {  // the first error is the one that matters
        }
        throw;
      }
      graph->capture_end();
      graph_ = std::move(graph);
    }
    graph_->replay();
  }
  void invalidate() override {
    graph_.reset();
    runs_ = 0;
  }

 private:
  static constexpr int kBefore = 2;
  int runs_ = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};
#endif

}  // namespace

std::unique_ptr<GraphRunner> make_graph_runner(c10::Device device) {
  if (device.is_cpu()) return std::make_unique<EagerRunner>();
#ifdef PARTITA_CUDA
  if (device.is_cuda()) {
    PARTITA_CHECK(c10::cuda::getCurrentCUDAStream(device.index()) != c10::cuda::getDefaultCUDAStream(device.index()),
                  "the default stream of {} cannot be recorded", device.str());
    return std::make_unique<Graph>();
  }
#endif
  fail("no code for device {} in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed", device.str());
}

void leave_default_stream(c10::Device device) {
#ifdef PARTITA_CUDA
  if (device.is_cuda() &&
      c10::cuda::getCurrentCUDAStream(device.index()) == c10::cuda::getDefaultCUDAStream(device.index()))
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index()));
#endif
  static_cast<void>(device);
}

}  // namespace partita::internal
