// Runs work that is identical in every step at the cost of a single launch: on CUDA it is recorded as a graph.
//
//   std::unique_ptr<GraphRunner> forward_and_backward = make_graph_runner(device);
//   for (...) forward_and_backward->run([&] { ... kernels that read varying values from device memory ... });
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <memory>

namespace partita::internal {

class GraphRunner {
 public:
  virtual ~GraphRunner() = default;
  // Runs `work` eagerly the first few times, so that libraries build their plans and memory reaches its final size;
  // then records it, and from then on replays it without calling it, on the same addresses with their current contents.
  // `work` must use only the current stream and streams that it makes wait for it and waits for again, wait for nothing
  // else, and leave host state unchanged.
  virtual void run(const std::function<void()>& work) = 0;
  // Discards the recording, because addresses or shapes have changed.
  virtual void invalidate() = 0;
};

// On the CPU, work simply runs. On CUDA, the current stream must not be the device's default stream
// (leave_default_stream), which cannot be captured.
[[nodiscard]] std::unique_ptr<GraphRunner> make_graph_runner(c10::Device);

// If the device's default stream is current on this thread, makes another one current.
void leave_default_stream(c10::Device);

}  // namespace partita::internal
