// Streams of a rank's device.
//
//   std::unique_ptr<Stream> compute = make_stream(device, StreamUse::compute);
//   std::unique_ptr<Stream> communication = make_stream(device, StreamUse::concurrent);
#pragma once
#include <c10/core/Device.h>

#include <memory>

#include "partita/device/stream.h"

namespace partita::internal {

// compute: the stream that runs kernels. concurrent: another one, which runs at the same time, with priority over it.
// background: another one, without priority.
enum class StreamUse : uint8_t { compute, concurrent, background };

// Error: a device that this build does not support.
[[nodiscard]] std::unique_ptr<Stream> make_stream(c10::Device, StreamUse);

}  // namespace partita::internal
