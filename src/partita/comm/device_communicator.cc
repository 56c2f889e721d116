#include "partita/comm/device_communicator.h"

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include "partita/comm/cuda/nccl_communicator.h"
#endif

namespace partita::internal {

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

}  // namespace partita::internal
