// Times calls of several candidates on a device with events around each call; the host does not wait.
//
//   CallTimes times;
//   times.measure(candidate, stream, [&] { launch(); });
//   ...                                                       // a step later
//   std::vector<std::vector<float>> ms = times.take();        // [candidate][call]
#pragma once
#include <cuda_runtime_api.h>

#include <vector>

namespace partita::internal::cuda {

class CallTimes {
 public:
  template <class Call>
  void measure(int candidate, cudaStream_t stream, const Call& call) {
    const cudaEvent_t begin = record(stream);
    call();
    open_.push_back({candidate, begin, record(stream)});
  }
  [[nodiscard]] bool empty() const { return open_.empty(); }
  // Waits for the measured calls.
  [[nodiscard]] std::vector<std::vector<float>> take();

 private:
  struct Call {
    int candidate;
    cudaEvent_t begin, end;
  };
  static cudaEvent_t record(cudaStream_t stream);

  std::vector<Call> open_;
};

}  // namespace partita::internal::cuda
