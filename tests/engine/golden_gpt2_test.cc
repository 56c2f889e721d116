// Against PyTorch: tests/golden/make_gpt2.py wrote the model, its loss, logits and gradients (computed in fp64), and
// the weights after three AdamW steps.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "partita/checkpoint/safetensors.h"
#include "partita/comm/world.h"
#include "partita/engine/engine.h"
#include "partita/models/model.h"

namespace partita::internal {
namespace {

class Golden : public testing::TestWithParam<std::tuple<int, Recompute>> {
 protected:
  Golden() {
    const auto settings = nlohmann::json::parse(file_.metadata().at("settings"));
    const ModelConfig model{.layers = settings.at("layers"),
                            .hidden_size = settings.at("width"),
                            .heads = settings.at("heads"),
                            .vocab_size = settings.at("vocab"),
                            .max_length = settings.at("positions"),
                            .dropout = 0,
                            .embedding_dropout = 0,
                            .attention_dropout = 0};
    const auto [stage, recompute] = GetParam();
    const auto& shape = file_.at("tokens").shape;
    engine_ = std::make_unique<Engine>(
        make_blocks(model, DType::fp32), make_zero(stage, *self_, *self_), *self_,
        EngineOptions{.shape = {.samples = shape[0], .length = shape[1]},
                      .width = model.hidden_size,
                      .recompute = recompute,
                      .layers_per_unit = 1,
                      .optimizer = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
                      .poison = true});
    for (const OwnedBox& run : engine_->owned_boxes()) {
      const std::vector<float> values = read<float>("weight/" + run.parameter->name);
      std::memcpy(run.values[0].data_ptr(), values.data() + offset_in(whole_box(run.parameter->shape), run.box),
                  static_cast<size_t>(run.box.count()) * sizeof(float));
    }
    engine_->publish_weights();
    tokens_ = read<int32_t>("tokens");
    labels_ = read<int32_t>("labels");
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) positions_.push_back(static_cast<int32_t>(i % shape[1]));
    const auto view = [&](std::vector<int32_t>& v) { return at::from_blob(v.data(), {shape[0], shape[1]}, at::kInt); };
    batch_ = {.tokens = view(tokens_), .labels = view(labels_), .positions = view(positions_), .samples = {0, 1}};
  }

  template <class T>
  std::vector<T> read(const std::string& name) const {
    const auto bytes = file_.bytes(file_.at(name));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  // Within `tolerance` of the largest element: an element near zero is the difference of larger ones.
  void expect_near(const at::Tensor& found, double scale, const std::string& name, int64_t begin,
                   double tolerance) const {
    const std::vector<float> expected = read<float>(name);
    double largest = 0;
    for (float e : expected) largest = std::max(largest, static_cast<double>(std::abs(e)));
    ASSERT_GT(largest, 0) << name;
    for (int64_t i = 0; i < found.numel(); ++i)
      ASSERT_NEAR(scale * found.data_ptr<float>()[i], expected[static_cast<size_t>(begin + i)], tolerance * largest)
          << name << " at " << begin + i;
  }

  SafetensorsFile file_{std::filesystem::path(PARTITA_SOURCE_DIR) / "tests/golden/gpt2.safetensors"};
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> tokens_, labels_, positions_;
  Batch batch_;
};

TEST_P(Golden, LossAndLogits) {
  const EvalResult r = engine_->evaluate(batch_);
  EXPECT_NEAR(r.loss_sum, read<double>("loss.sum")[0], 1e-5 * r.loss_sum);
  EXPECT_NEAR(r.loss_sum / static_cast<double>(r.tokens), read<double>("loss.mean")[0], 1e-5);
  const at::Tensor logits = engine_->logits(batch_, 61);
  const int64_t length = batch_.shape().length;
  for (int64_t sample = 0; sample < 2; ++sample)
    expect_near(logits[sample], 1, "logits", ((sample + 1) * length - 1) * 61, 1e-5);
}

// A step that changes nothing leaves a tenth of the gradient in Adam's first moment.
TEST_P(Golden, EveryGradient) {
  const StepResult r = engine_->step(std::span(&batch_, 1), {.step = 0, .learning_rate = 0});
  EXPECT_NEAR(r.loss, read<double>("loss.mean")[0], 1e-5);
  for (const OwnedBox& run : engine_->owned_boxes())
    expect_near(run.values[1], 10, "gradient/" + run.parameter->name,
                offset_in(whole_box(run.parameter->shape), run.box), 1e-5);
}

TEST_P(Golden, ThreeClippedSteps) {
  const auto losses = read<double>("step.loss"), norms = read<double>("step.norm");
  for (size_t step = 0; step < 3; ++step) {
    const StepResult r = engine_->step(
        std::span(&batch_, 1),
        {.step = static_cast<int64_t>(step), .update = static_cast<int64_t>(step), .learning_rate = 1e-3F, .clip = 1});
    EXPECT_NEAR(r.loss, losses[step], 1e-5 * losses[step]);
    EXPECT_NEAR(r.grad_norm, norms[step], 1e-5 * norms[step]);
  }
  // Adam's first steps are the learning rate times the sign of the gradient. Where that is zero but for rounding (the
  // bias of the keys: softmax does not see it), the sign is noise, and the element moves by up to three such steps.
  double largest = 0;
  for (const OwnedBox& run : engine_->owned_boxes())
    for (float g : read<float>("gradient/" + run.parameter->name))
      largest = std::max(largest, static_cast<double>(std::abs(g)));
  int noise = 0;
  for (const OwnedBox& run : engine_->owned_boxes()) {
    const auto expected = read<float>("after/" + run.parameter->name),
               gradient = read<float>("gradient/" + run.parameter->name);
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool lost = std::abs(gradient[i]) < 1e-6 * largest;
      noise += lost ? 1 : 0;
      ASSERT_NEAR(run.values[0].data_ptr<float>()[i], expected[i], lost ? 3.1e-3 : 1e-5)
          << run.parameter->name << " at " << i;
    }
  }
  EXPECT_EQ(noise, 2 * 24 + 2 * 24);  // the keys' biases of two layers, and the two positions that no sample reaches
  EXPECT_NEAR(engine_->evaluate(batch_).loss_sum / static_cast<double>(engine_->evaluate(batch_).tokens),
              read<double>("after.loss")[0], 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Stages, Golden,
                         testing::Values(std::tuple(0, Recompute::none), std::tuple(2, Recompute::selective),
                                         std::tuple(3, Recompute::full)));

}  // namespace
}  // namespace partita::internal
