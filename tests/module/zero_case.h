// What tests of ZeroOptimizer share: the mesh of all ranks, and the single process that they are compared with.
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "partita/module/zero_optimizer.h"
#include "tests/module/small_module.h"
#include "tests/module/test_device.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

inline constexpr int64_t kSamples = 3;  // of a rank and a pass
inline constexpr int64_t kUnit = 100;   // elements: several units
// Relative to the largest of a parameter, after up to ten steps; GPUs add in other orders than the CPU.
inline const double kTolerance = std::getenv("PARTITA_TEST_DEVICE") == nullptr ? 1e-6 : 1e-5;

// All ranks, data parallel.
inline const Mesh& mesh() {
  static Mesh& all = KeptMeshes::keep(std::make_unique<Mesh>(test_world(), test_device()));
  return all;
}

inline std::vector<torch::Tensor> trained(SmallModule& module) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& p : module->parameters()) {
    const auto same = [&](const torch::Tensor& other) { return other.is_same(p); };
    if (p.requires_grad() && std::none_of(all.begin(), all.end(), same)) all.push_back(p);
  }
  return all;
}

// One process that AdamW of PyTorch trains. What has no gradient is not decayed by torch, but its gradient is zero for
// ours: it begins with one.
class Whole {
 public:
  explicit Whole(double learning_rate)
      : parameters_(trained(module)),
        optimizer_(parameters_, torch::optim::AdamWOptions(learning_rate).weight_decay(0.01)) {
    for (const torch::Tensor& p : parameters_) p.mutable_grad() = torch::zeros_like(p);
  }
  // A step with the gradients that `backward` adds.
  void step(const std::function<void()>& backward) {
    optimizer_.zero_grad(/*set_to_none=*/false);
    backward();
    optimizer_.step();
  }
  SmallModule module{1};

 private:
  std::vector<torch::Tensor> parameters_;
  torch::optim::AdamW optimizer_;
};

inline void expect_same(SmallModule& found, SmallModule& expected, double tolerance, const std::string& what) {
  const auto all = expected->named_parameters();
  for (const auto& item : found->named_parameters()) {
    if (item.value().numel() == 0) continue;
    const torch::Tensor& e = all[item.key()];
    const double largest = e.detach().abs().max().item<double>();
    EXPECT_LE((item.value().detach().to(torch::kCPU, torch::kFloat) - e).abs().max().item<double>(),
              tolerance * largest)
        << what << ", " << item.key();
  }
}

}  // namespace partita::internal::test
