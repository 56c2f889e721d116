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

#include <memory>
#include <type_traits>

#include "partita/device/device_stream.h"

namespace partita::internal {

class CallerStream {
 public:
  // `compute` must outlive this object, and be the stream that is current now.
  CallerStream(c10::Device device, Stream& compute) : device_(device), compute_(compute), own_(current()) {}

  // Returns what work returns: nothing, or what can be made without arguments.
  template <class Work>
  std::invoke_result_t<Work> run(const Work& work) const {
    if (current() == own_) return work();
    const std::unique_ptr<Stream> caller = make_stream(device_, StreamUse::compute);
    compute_.wait(caller->record());
    if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
      compute_.run(work);
      caller->wait(compute_.record());
    } else {
      std::invoke_result_t<Work> result;
      compute_.run([&] { result = work(); });
      caller->wait(compute_.record());
      return result;
    }
  }

 private:
  [[nodiscard]] c10::Stream current() const { return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_); }

  c10::Device device_;
  Stream& compute_;
  c10::Stream own_;
};

}  // namespace partita::internal
