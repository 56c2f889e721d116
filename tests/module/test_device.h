// The device of tests of modules on several ranks: the CPU, or with PARTITA_TEST_DEVICE=cuda a GPU of each rank
// (tests/gpu/run.sh).
#pragma once
#include <cstdlib>

#include "partita/comm/device.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

inline at::Device test_device() {
  static const at::Device device = std::getenv("PARTITA_TEST_DEVICE") != nullptr
                                       ? select_device(DeviceRequest::cuda, test_world())
                                       : at::Device(at::kCPU);
  return device;
}

}  // namespace partita::internal::test
