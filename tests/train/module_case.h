// What tests of training a user's module share: a module with running statistics and dropout, samples, runs of it.
#pragma once
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partita/base/log.h"
#include "partita/data/shuffled_samples.h"
#include "partita/train/module_trainer.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"

namespace partita::internal::test {

inline constexpr int64_t kSamples = 37, kClasses = 5;

// Sizes that do not divide; a frozen parameter, and buffers of types that checkpoints have and have not.
struct ConvolutionImpl : torch::nn::Module {
  explicit ConvolutionImpl(int64_t seed, bool normalizes = true, double dropout = 0.2) : normalizes_(normalizes) {
    torch::manual_seed(seed);
    convolution = register_module("convolution", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 7, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(7));
    dropout_ = register_module("dropout", torch::nn::Dropout(dropout));
    head = register_module("head", torch::nn::Linear(7 * 9, kClasses));
    scale = register_parameter("scale", torch::ones({}));
    empty = register_parameter("empty", torch::empty({0, 5}));
    frozen = register_parameter("frozen", torch::randn({kClasses}), /*requires_grad=*/false);
    switches = register_buffer("switches", torch::rand({3}) < 0.5);
    precise = register_buffer("precise", torch::rand({2, 3}, torch::kDouble));
  }
  torch::Tensor forward(const torch::Tensor& images) {
    torch::Tensor x = convolution(images);
    if (normalizes_) x = norm(x);
    x = dropout_(torch::relu(x)).flatten(1);
    return head(x) * scale + frozen + empty.sum();
  }

  torch::nn::Conv2d convolution{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear head{nullptr};
  torch::Tensor scale, empty, frozen, switches, precise;

 private:
  torch::nn::Dropout dropout_{nullptr};
  bool normalizes_;
};
TORCH_MODULE(Convolution);

// Images [count, 1, 3, 3] and classes of a data set of kSamples.
inline std::pair<torch::Tensor, torch::Tensor> samples_of(const std::vector<size_t>& indices) {
  torch::Tensor images = torch::empty({std::ssize(indices), 1, 3, 3}),
                classes = torch::empty({std::ssize(indices)}, torch::kLong);
  for (int64_t i = 0; i < std::ssize(indices); ++i) {
    const auto number = static_cast<int64_t>(indices[static_cast<size_t>(i)]);
    images[i].copy_(torch::sin(torch::arange(9) * (number + 1) * 0.7).view({1, 3, 3}));
    classes[i] = number % kClasses;
  }
  return {images, classes};
}

// The loss of a micro-batch of this rank.
inline torch::Tensor loss_of(Convolution& module, const MicroBatch& batch, const Mesh& mesh) {
  ShuffledSamples order(
      {.samples = kSamples, .rank = mesh.data().rank(), .ranks = mesh.data().size(), .first = batch.first_sample});
  const auto [images, classes] = samples_of(order.next(static_cast<size_t>(batch.samples)).value());
  return torch::nn::functional::cross_entropy(module->forward(images), classes);
}

// All ranks, data parallel.
inline const Mesh& mesh() {
  static auto* all = new Mesh(test_world());  // as long as the world
  return *all;
}

// Rank 0's temporary folder, on all ranks.
class SharedFolder {
 public:
  SharedFolder() { path_ = gather_strings(mesh().world(), own_.path().string())[0]; }
  ~SharedFolder() { mesh().world().barrier(); }
  [[nodiscard]] std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  TemporaryDirectory own_;
  std::filesystem::path path_;
};

// What the log lines say, instead of showing them.
inline std::string quietly(const std::function<void()>& work) {
  struct Quiet {
    explicit Quiet(std::string& text) : said(text) {
      log::set_level(log::Level::error);
      testing::internal::CaptureStdout();
    }
    ~Quiet() {
      said = testing::internal::GetCapturedStdout();
      log::set_level(log::Level::info);
    }
    std::string& said;
  };
  std::string said;
  {
    const Quiet quiet(said);
    work();
  }
  return said;
}

class StopAt final : public Hook {
 public:
  explicit StopAt(int64_t step) : step_(step) {}
  [[nodiscard]] int priority() const override { return 50; }
  void after_step(TrainerView& view) override {
    if (view.step.step == step_) view.stop_reason = "the test";
  }

 private:
  int64_t step_;
};

inline Hooks stop_at(int64_t step) {
  Hooks hooks;
  hooks.add(std::make_unique<StopAt>(step));
  return hooks;
}

inline void expect_same_state(const StateDict& found, const StateDict& expected, double tolerance,
                              const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [key, value] : expected) {
    if (tolerance == 0) {
      EXPECT_TRUE(found.at(key).equal(value)) << what << ", " << key;
    } else if (value.numel() > 0 && value.scalar_type() == torch::kFloat) {
      const double largest = value.abs().max().item<double>();
      EXPECT_LE((found.at(key) - value).abs().max().item<double>(), tolerance * largest) << what << ", " << key;
    }
  }
}

inline void expect_same_buffers(const Convolution& found, const Convolution& expected, const std::string& what) {
  const auto all = expected->named_buffers();
  for (const auto& item : found->named_buffers())
    EXPECT_TRUE(item.value().equal(all[item.key()])) << what << ", " << item.key();
}

}  // namespace partita::internal::test
