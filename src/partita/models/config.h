// The shape of a model: plain numbers without torch, read from configuration files and stored in checkpoints.
//
//   ModelConfig model{.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50257, .max_length = 1024};
//   validate(model);
//   int64_t n = parameter_count(model);   // 124439808: GPT-2 small
#pragma once
#include <cstdint>

#include "partita/base/enum_names.h"

namespace partita {

// gpt2: layer norm, learned positions, GELU (tanh), biases (A. Radford et al., "Language models are unsupervised
// multitask learners", 2019). llama: RMS norm, rotary positions, SwiGLU, grouped-query attention, no biases (H. Touvron
// et al., "Llama 2", 2023; A. Grattafiori et al., "The Llama 3 herd of models", 2024).
enum class ModelKind : uint8_t { gpt2, llama };
template <>
struct EnumNames<ModelKind> {
  static constexpr std::array kNames = {"gpt2", "llama"};
};

enum class TiedHead : uint8_t { automatic, yes, no };  // automatic: gpt2 yes, llama no
template <>
struct EnumNames<TiedHead> {
  static constexpr std::array kNames = {"auto", "true", "false"};
};

struct ModelConfig {
  ModelKind kind = ModelKind::gpt2;
  int64_t layers = 12;
  int64_t hidden_size = 768;
  int64_t heads = 12;
  int64_t kv_heads = 0;         // llama: key and value heads, shared by groups of query heads; 0: equal to heads
  int64_t head_width = 0;       // llama: channels per head; 0: hidden_size / heads
  int64_t ffn_hidden_size = 0;  // inner width of the MLP; 0: gpt2 4 x, llama 8/3 x hidden_size rounded up to 256s
  int64_t vocab_size = 0;       // 0: the tokenizer's, filled in before the model is built
  int64_t max_length = 1024;    // maximum number of positions
  TiedHead tied_head = TiedHead::automatic;  // tied: the head's matrix is the token table
  double dropout = 0;                        // of branches, before the residual add
  double embedding_dropout = 0;
  double attention_dropout = 0;  // of the attention probabilities
  double init_std = 0.02;        // std of normal initial weights; output projections use init_std / sqrt(2 layers)
  double norm_epsilon = 1e-5;
  double rope_theta = 10000;  // llama: base of the rotary frequencies
  // llama: Llama 3's scaling of rotary frequencies for longer contexts. Frequencies with fewer than rope_low_frequency
  // turns within rope_original_length positions are divided by rope_factor, those with more than rope_high_frequency
  // are unchanged, with smooth interpolation in between. rope_factor 1: no scaling.
  double rope_factor = 1, rope_low_frequency = 1, rope_high_frequency = 4;
  int64_t rope_original_length = 8192;

  [[nodiscard]] int64_t ffn_size() const;
  [[nodiscard]] int64_t head_size() const { return head_width > 0 ? head_width : hidden_size / heads; }
  [[nodiscard]] int64_t key_value_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  [[nodiscard]] bool has_tied_head() const {
    return tied_head == TiedHead::yes || (tied_head == TiedHead::automatic && kind == ModelKind::gpt2);
  }

  bool operator==(const ModelConfig&) const = default;
};

// Errors, in one line with values that would work, unless the model can be built: "hidden_size 100 is not divisible by
// 12 heads: use 96 or 108". Accepts a vocab_size of 0 (not known yet).
void validate(const ModelConfig& model);

// Number of parameters, counting tied ones once; without adapters.
[[nodiscard]] int64_t parameter_count(const ModelConfig& model);

// FLOPs of forward and backward per token of a sequence of `length` tokens, a multiply-add counted as two: 6 per matmul
// weight (including the head), plus attention scores and values over the causal half, 6 x layers x heads x head_size x
// length. Recomputation is not counted, so this is the numerator of MFU (Megatron-LM counts the same since core 0.12;
// the full attention square would add up to a few percent). Without weight gradients (a frozen model with small
// adapters) it is 4 per weight.
[[nodiscard]] double flops_per_token(const ModelConfig& model, int64_t length, bool weight_gradients = true);

}  // namespace partita
