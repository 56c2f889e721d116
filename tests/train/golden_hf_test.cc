// Against transformers and PEFT: tests/golden/make_hf.py saved small random models with their libraries, with logits,
// loss and every gradient, computed in fp64.
#include <ATen/ops/from_blob.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "partita/base/file.h"
#include "partita/checkpoint/safetensors.h"
#include "partita/comm/world.h"
#include "partita/engine/engine.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/model_source.h"
#include "partita/models/model.h"

namespace partita::internal {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(PARTITA_SOURCE_DIR) / "tests/golden/hf";

template <class T>
std::vector<T> read(const SafetensorsFile& file, const std::string& name) {
  const auto bytes = file.bytes(file.at(name));
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// "layers.1.attention.q.lora_a" as PEFT calls it.
std::string peft_name(const std::string& ours, ModelKind kind) {
  for (const LoraTarget& target : lora_targets(kind))
    for (const auto& [suffix, theirs] :
         {std::pair(".lora_a", ".lora_A.weight"), std::pair(".lora_b", ".lora_B.weight")}) {
      const size_t layer = std::string("layers.").size(), dot = ours.find('.', layer);
      if (ours.substr(dot + 1) != std::string(target.part) + suffix) continue;
      const std::string layers = kind == ModelKind::gpt2 ? "transformer.h." : "model.layers.";
      return "base_model.model." + layers + ours.substr(layer, dot - layer) + "." + std::string(target.hugging_face) +
             theirs;
    }
  return "";
}

struct Case {
  std::string model;
  int stage = 0;
  Recompute recompute = Recompute::none;
  bool adapters = false;
};

class GoldenHf : public testing::TestWithParam<Case> {
 protected:
  GoldenHf() {
    const Case& c = GetParam();
    if (c.adapters) {
      adapters_ = std::make_unique<SafetensorsFile>(kFolder / (c.model + "_lora") / "adapter_model.safetensors");
      lora_ = {.rank = 4,
               .alpha = 8,
               .targets = model().kind == ModelKind::gpt2 ? "c_attn,c_proj,c_fc"
                                                          : "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"};
    }
    tokens_ = read<int32_t>(golden_, "tokens");
    labels_ = read<int32_t>(golden_, "labels");
    const auto& shape = golden_.at("tokens").shape;
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i) positions_.push_back(static_cast<int32_t>(i % shape[1]));
    const auto view = [&](std::vector<int32_t>& v) { return at::from_blob(v.data(), {shape[0], shape[1]}, at::kInt); };
    batch_ = {.tokens = view(tokens_), .labels = view(labels_), .positions = view(positions_), .samples = {0, 1}};
    EngineOptions options{.shape = {.samples = shape[0], .length = shape[1]},
                          .width = model().hidden_size,
                          .recompute = c.recompute,
                          .layers_per_unit = 1,
                          .optimizer = {.beta1 = 0.9},
                          .poison = true};
    if (c.adapters) options.frozen = [](const ParameterSpec& p) { return !p.adapter; };
    engine_ = std::make_unique<Engine>(make_blocks(model(), DType::fp32, lora_), make_zero(c.stage, *self_, *self_),
                                       *self_, options);
    std::vector<ParameterSpec> base = engine_->parameters();
    std::erase_if(base, [](const ParameterSpec& p) { return p.adapter; });
    source_.weights->check(base);
    engine_->set_weights(from_host([&](const ParameterSpec& p, const Box& box, std::span<float> out) {
      if (!p.adapter) return source_.weights->read(p, box, out);
      const std::vector<float> all = read<float>(*adapters_, peft_name(p.name, model().kind));
      ASSERT_EQ(box.columns, whole_box(p.shape).columns);
      std::copy_n(all.begin() + offset_in(whole_box(p.shape), box), out.size(), out.begin());
    }));
  }

  [[nodiscard]] const ModelConfig& model() const { return source_.model; }

  // The gradient of a parameter of ours, put together from theirs.
  std::vector<float> expected_gradient(const ParameterSpec& p) const {
    if (p.adapter) return read<float>(golden_, "gradient/" + peft_name(p.name, model().kind));
    std::vector<float> all(static_cast<size_t>(p.count()));
    for (const HfParameter& ours : hf_parameters(model())) {
      if (ours.name != p.name) continue;
      const int64_t columns = p.shape.size() > 1 ? p.shape[1] : 1;
      for (const HfPiece& piece : ours.pieces) {
        const std::vector<float> values = read<float>(golden_, "gradient/" + piece.name);
        for (int64_t r = 0; r < piece.rows; ++r)
          for (int64_t c = 0; c < columns; ++c)
            all[static_cast<size_t>((piece.row + r) * columns + c)] =
                values[static_cast<size_t>(piece.transposed ? c * piece.rows + r : r * columns + c)];
      }
    }
    return all;
  }

  // Within `tolerance` of the largest element: an element near zero is the difference of larger ones.
  static void expect_near(const at::Tensor& found, double scale, std::span<const float> expected,
                          const std::string& name) {
    double largest = 0;
    for (float e : expected) largest = std::max(largest, static_cast<double>(std::abs(e)));
    ASSERT_GT(largest, 0) << name;
    ASSERT_EQ(static_cast<size_t>(found.numel()), expected.size()) << name;
    for (int64_t i = 0; i < found.numel(); ++i)
      ASSERT_NEAR(scale * found.data_ptr<float>()[i], expected[static_cast<size_t>(i)], 1e-5 * largest)
          << name << " at " << i;
  }

  ModelSource source_ = open_model(kFolder / GetParam().model);
  SafetensorsFile golden_{kFolder / (GetParam().model + (GetParam().adapters ? "_lora" : "") + ".safetensors")};
  std::unique_ptr<SafetensorsFile> adapters_;
  LoraConfig lora_;
  World world_ = World::connect({});
  std::unique_ptr<Communicator> self_ = world_.self();
  std::unique_ptr<Engine> engine_;
  std::vector<int32_t> tokens_, labels_, positions_;
  Batch batch_;
};

TEST_P(GoldenHf, LogitsAndLoss) {
  const EvalResult r = engine_->evaluate(batch_);
  EXPECT_NEAR(r.loss_sum / static_cast<double>(r.tokens), read<double>(golden_, "loss")[0], 1e-5);
  // Of every position: the last one of each prefix.
  const std::vector<float> logits = read<float>(golden_, "logits");
  const int64_t length = batch_.shape().length, vocabulary = model().vocab_size;
  for (int64_t end = 1; end <= length; ++end) {
    const auto prefix = [&](const at::Tensor& t) { return t.narrow(1, 0, end).contiguous(); };
    const Batch batch{.tokens = prefix(batch_.tokens),
                      .labels = {},
                      .positions = prefix(batch_.positions),
                      .samples = batch_.samples};
    const at::Tensor found = engine_->logits(batch, vocabulary);
    for (int64_t sample = 0; sample < 2; ++sample)
      expect_near(found[sample], 1,
                  std::span(logits).subspan(static_cast<size_t>((sample * length + end - 1) * vocabulary),
                                            static_cast<size_t>(vocabulary)),
                  "logits of " + std::to_string(end) + " tokens");
  }
}

// A step that changes nothing leaves a tenth of the gradient in Adam's first moment.
TEST_P(GoldenHf, EveryGradient) {
  const StepResult r = engine_->step(std::span(&batch_, 1), {.step = 0, .learning_rate = 0});
  EXPECT_NEAR(r.loss, read<double>(golden_, "loss")[0], 1e-5);
  std::map<std::string, std::vector<float>> expected;
  for (const OwnedBox& run : engine_->owned_boxes()) {
    if (!run.parameter->trainable) continue;
    auto& all = expected.try_emplace(run.parameter->name, expected_gradient(*run.parameter)).first->second;
    expect_near(run.values[1], 10,
                std::span(all).subspan(static_cast<size_t>(offset_in(whole_box(run.parameter->shape), run.box)),
                                       static_cast<size_t>(run.box.count())),
                run.parameter->name);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenHf,
                         testing::Values(Case{"gpt2_tied", 0, Recompute::none}, Case{"gpt2_untied", 3, Recompute::full},
                                         Case{"llama_mha", 0, Recompute::none}, Case{"llama_mha", 3, Recompute::full},
                                         Case{"llama_gqa_tied", 2, Recompute::selective},
                                         Case{"llama_rope_scaled", 3, Recompute::full},
                                         Case{"gpt2_tied", 0, Recompute::none, true},
                                         Case{"gpt2_tied", 3, Recompute::full, true},
                                         Case{"llama_gqa_tied", 0, Recompute::selective, true},
                                         Case{"llama_gqa_tied", 3, Recompute::full, true}));

}  // namespace
}  // namespace partita::internal
