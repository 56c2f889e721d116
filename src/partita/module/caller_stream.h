// Orders the compute stream with the stream that is current where a user's program calls us, which may be another one.
//
//   CallerStream caller(device, compute);         // compute: the current stream, in a Stream
//   caller.run([&] { target.copy_(gradient); });  // on compute: after what the caller has issued, before what follows
//
// In a backward pass the current stream is that on which autograd has computed the gradient. On the CPU, and as long as
// the current stream is `compute`, this costs a comparison.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "partita/device/device_stream.h"

namespace partita::internal {

class CallerStream {
 public:
  // `compute` must outlive this object, and be the stream that is current now.
  CallerStream(c10::Device device, Stream& compute) : device_(device), compute_(compute), own_(current()) {}

  template <class Work>
  void run(const Work& work) const {
    if (current() == own_) return work();
    const std::unique_ptr<Stream> caller = make_stream(device_, StreamUse::compute);
    compute_.wait(caller->record());
    compute_.run(work);
    caller->wait(compute_.record());
  }

 private:
  [[nodiscard]] c10::Stream current() const { return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_); }

  c10::Device device_;
  Stream& compute_;
  c10::Stream own_;
};

}  // namespace partita::internal
