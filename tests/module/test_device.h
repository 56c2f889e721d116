// The device of tests of modules on several ranks: the CPU, or with PARTITA_TEST_DEVICE=cuda a GPU of each rank
// (tests/gpu/run.sh). With PARTITA_TEST_DELAYS=N streams are late by up to N microseconds. And the meshes that tests
// share.
#pragma once
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/device.h"
#include "partita/comm/mesh.h"
#include "partita/device/stream_delay.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

inline at::Device test_device() {
  static const at::Device device = [] {
    if (std::getenv("PARTITA_TEST_DEVICE") == nullptr) return at::Device(at::kCPU);
    if (const char* delays = std::getenv("PARTITA_TEST_DELAYS"))
      set_stream_delays(std::atoi(delays), static_cast<uint64_t>(test_world().rank()));
    at::globalContext().setAllowTF32CuDNN(false);  // convolutions in fp32, to be compared with the CPU's
    return select_device(DeviceRequest::cuda, test_world());
  }();
  return device;
}

// Until the last test has ended: before the world does.
class KeptMeshes final : public testing::Environment {
 public:
  static Mesh& keep(std::unique_ptr<Mesh> mesh) { return *all.emplace_back(std::move(mesh)); }
  void TearDown() override { all.clear(); }

 private:
  inline static std::vector<std::unique_ptr<Mesh>> all;
};
inline testing::Environment* const kept_meshes = testing::AddGlobalTestEnvironment(new KeptMeshes);

}  // namespace partita::internal::test
