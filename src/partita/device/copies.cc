#include "partita/device/copies.h"

#include "partita/base/error.h"
#include "partita/device/device_stream.h"
#ifdef PARTITA_CUDA
#include "partita/base/cuda_error.h"
#include "partita/device/cuda/stream.h"
#endif

namespace partita::internal {
namespace {

class DeviceCopies final : public Copies {
 public:
  explicit DeviceCopies(c10::Device device)
      : down_(make_stream(device, StreamUse::concurrent)), up_(make_stream(device, StreamUse::concurrent)) {}

  Event down(at::Tensor host, at::Tensor device, const Event& after) override {
    return copy(*down_, host, device, after);
  }
  Event up(at::Tensor device, at::Tensor host, const Event& after) override { return copy(*up_, device, host, after); }

 private:
  static Event copy(Stream& stream, at::Tensor& to, const at::Tensor& from, const Event& after) {
    PARTITA_CHECK(to.is_contiguous() && from.is_contiguous() && to.scalar_type() == from.scalar_type() &&
                      to.numel() == from.numel(),
                  "a copy of {} {} into {} {}: expected contiguous tensors of one dtype and size", from.numel(),
                  at::toString(from.scalar_type()), to.numel(), at::toString(to.scalar_type()));
    stream.wait(after);
#ifdef PARTITA_CUDA
    if (to.is_cuda() || from.is_cuda()) {
      PARTITA_CUDA_CHECK(cudaMemcpyAsync(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(), cudaMemcpyDefault,
                                         static_cast<CudaStream&>(stream).stream()));
      return stream.record();
    }
#endif
    to.copy_(from);
    return stream.record();
  }

  std::unique_ptr<Stream> down_, up_;
};

}  // namespace

std::unique_ptr<Copies> make_copies(c10::Device device) { return std::make_unique<DeviceCopies>(device); }

}  // namespace partita::internal
