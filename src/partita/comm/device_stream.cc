#include "partita/comm/device_stream.h"

#include "partita/base/error.h"
#ifdef PARTITA_CUDA
#include "partita/comm/cuda/stream.h"
#endif

namespace partita {

std::unique_ptr<Stream> make_stream(c10::Device device, StreamUse use) {
  if (device.is_cpu()) return std::make_unique<CpuStream>();
#ifdef PARTITA_CUDA
  if (device.is_cuda())
    return std::make_unique<CudaStream>(use == StreamUse::compute
                                            ? c10::cuda::getCurrentCUDAStream(device.index())
                                            : c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device.index()));
#endif
  (void)use;
  fail("no code for device {} in this build: configure with -DPARTITA_CUDA=ON where nvcc is installed", device.str());
}

}  // namespace partita
