#include "partita/comm/device_communicator.h"

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include <c10/cuda/CUDAFunctions.h>

#include "partita/comm/cuda/nccl_communicator.h"
#endif

namespace partita {

std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> group, c10::Device device,
                                        std::chrono::milliseconds timeout) {
  if (device.is_cpu()) return group;
#ifdef PARTITA_CUDA
  return std::make_unique<NcclCommunicator>(std::move(group), NcclCommunicator::Options{.timeout = timeout});
#else
  (void)timeout;
  fail("no code for device {} in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed", device.str());
#endif
}

c10::Device device_of_rank(bool cuda, int local_rank) {
  if (!cuda) return c10::Device(c10::kCPU);
#ifdef PARTITA_CUDA
  const int count = c10::cuda::device_count();
  if (local_rank >= count)
    fail("rank {} of this machine has no GPU: {} were found, start at most so many ranks", local_rank, count);
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(local_rank));
  c10::cuda::set_device(device.index());
  return device;
#else
  (void)local_rank;
  fail("no code for GPUs in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed");
#endif
}

}  // namespace partita
