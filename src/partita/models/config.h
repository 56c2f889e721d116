// The shape of a model: plain numbers, no torch. What a configuration file says and what a checkpoint remembers.
//
//   ModelConfig model{.layers = 12, .hidden_size = 768, .heads = 12, .vocab_size = 50257, .max_length = 1024};
//   validate(model);
//   int64_t n = parameter_count(model);   // 124439808: GPT-2 small
#pragma once
#include <cstdint>

namespace partita {

enum class ModelKind : uint8_t { gpt2 };

struct ModelConfig {
  ModelKind kind = ModelKind::gpt2;
  int64_t layers = 12;
  int64_t hidden_size = 768;
  int64_t heads = 12;
  int64_t ffn_hidden_size = 0;  // inner width of the MLP; 0: 4 x hidden_size
  int64_t vocab_size = 0;       // 0: the tokenizer's, filled in before the model is built
  int64_t max_length = 1024;    // positions that the model knows
  double dropout = 0.1;         // of the branches that are added to the residual
  double embedding_dropout = 0.1;
  double attention_dropout = 0.1;  // of the attention probabilities
  double init_std = 0.02;          // of normal initial weights; output projections take init_std / sqrt(2 layers)
  double norm_epsilon = 1e-5;

  [[nodiscard]] int64_t ffn_size() const { return ffn_hidden_size > 0 ? ffn_hidden_size : 4 * hidden_size; }
  [[nodiscard]] int64_t head_size() const { return hidden_size / heads; }

  bool operator==(const ModelConfig&) const = default;
};

// Error, in one line with what would work, unless the model can be built: "hidden_size 100 is not divisible by
// 12 heads: use 96 or 108". A vocab_size of 0 passes: it is not known yet.
void validate(const ModelConfig& model);

// Parameters, each tied one once: embedding, positions, layers, final norm.
[[nodiscard]] int64_t parameter_count(const ModelConfig& model);

// Floating-point operations of forward and backward for one token of a sequence of `length` tokens, a multiply-add
// counted as two: 6 for each matmul weight (the head's too), and attention scores and values over the causal half,
// 6 x layers x hidden_size x length. Recomputation is not counted, so this is the numerator of MFU (as Megatron-LM
// counts since core 0.12: the full square of attention would give up to a few per cent more).
[[nodiscard]] double flops_per_token(const ModelConfig& model, int64_t length);

}  // namespace partita
