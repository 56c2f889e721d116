// Shared by all kinds of transformer layers: options, parameters, dropout site ids, and attention with or without a KV
// cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "partita/base/context_split.h"
#include "partita/nn/block.h"
#include "partita/nn/context_parallel.h"
#include "partita/nn/split.h"
#include "partita/ops/attention.h"
#include "partita/ops/dropout.h"
#include "partita/ops/norm.h"

namespace partita::internal {

struct LayerOptions {
  int64_t index;   // layer number, for parameter names and dropout sites
  int64_t layers;  // of the model; scales the initial residual projections
  int64_t width, ffn_width;
  double norm_epsilon = 1e-5, init_std = 0.02;
  float entry_dropout = 0;  // applied to the input: embedding dropout in layer 0, else residual dropout
  float residual_dropout = 0, attention_dropout = 0;
  DType dtype = DType::fp32;
  bool fp8 = false;              // fp8 matmuls in the layer's linears, where sizes permit
  bool leaves_operands = false;  // BlockTraits::leaves_operands, which takes more memory for input gradients
  TensorSplit tensor;
  // Whether tensor-parallel ranks divide attention and the MLP. Otherwise each of them has all matrices of it, and
  // computes all rows.
  bool divides_attention = true, divides_mlp = true;
  ContextSplit context;
};

// What a rank of a tensor-parallel group computes of a layer.
struct LocalLayer {
  Heads heads;
  int64_t first_head;  // of the model's query heads
  int64_t ffn_width;

  [[nodiscard]] int64_t query_width() const { return heads.heads * heads.head_width; }
  [[nodiscard]] int64_t qkv_width() const { return query_width() + 2 * heads.kv_heads * heads.head_width; }
};
// `heads`: of the model. Error, of what is divided: fewer query heads, or channels of the MLP, than ranks.
[[nodiscard]] LocalLayer local_layer(const LayerOptions&, const Heads& heads);

// "layers.3.mlp.down.weight"
[[nodiscard]] std::string layer_parameter(int64_t layer, std::string_view suffix);

// A parameter of the layer; matrices decay.
[[nodiscard]] ParameterSpec layer_spec(const LayerOptions&, std::string_view suffix, std::vector<int64_t> shape, Init);
// For the two projections of a layer that add to the residual stream: keeps the scale of their sum independent of
// depth.
[[nodiscard]] Init residual_init(const LayerOptions&);

// Dropout sites of a layer, each with its own masks.
enum class DropoutSite : uint8_t { entry, attention, residual };
[[nodiscard]] uint32_t dropout_site(int64_t layer, DropoutSite);
// Dropout site of adapter number `adapter` of the layer.
[[nodiscard]] uint32_t adapter_dropout_site(int64_t layer, int64_t adapter);

// Dropout of all rows at a site in training; none otherwise.
[[nodiscard]] Dropout dropout_at(float p, uint32_t site, const Context&);
// Dropout of this rank's rows of the residual stream.
[[nodiscard]] Dropout stream_dropout(float p, uint32_t site, const Context&);
// Dropout at a place of the layer, with the probability from its options; of attention: for heads from `first_head` on.
[[nodiscard]] Dropout layer_dropout(const LayerOptions&, DropoutSite, const Context&, int64_t first_head = 0);

[[nodiscard]] inline at::Tensor rows_of(const at::Tensor& matrix, const RowRun& run) {
  return matrix.narrow(0, run.begin, run.count);
}

// Rows of the micro-batch, on all ranks of the tensor-parallel group.
[[nodiscard]] inline int64_t all_rows(const Context& context) { return context.batch->shape().rows(); }

// add_norm_backward of the rows of the stream on this rank. If it has all of them although there are several ranks,
// only an equal part of the rows contributes to the gradients of vectors: the ranks' sum is the gradient, in the same
// bits as with sequence parallelism.
void stream_norm_backward(const AddNormBackward&, const Context&);

// Scratch of attention: memory for the keys and values of all context-parallel ranks. None for one rank.
struct AttentionMemory {
  at::Tensor whole, by_rank;
};
void add_attention_scratch(const Shape&, const LayerOptions&, const Heads& local, std::vector<BufferSpec>&);

// out [samples, length, heads * head_width] from qkv [samples, length, ...]: attention within the batch; for inference
// with a cache, also over the cached tokens before it; with context parallelism, over the keys of whole sequences.
void attend(at::Tensor out, at::Tensor log_sum, at::Tensor qkv, int64_t layer, Heads, const Dropout&,
            const AttentionMemory&, Context&);
// Before the gradients that a layer computes first, under which the keys of other ranks arrive.
[[nodiscard]] ContextParallel::Gathering start_keys(const at::Tensor& qkv, Heads, const AttentionMemory&,
                                                    const Context&);
void attend_backward(at::Tensor d_qkv, at::Tensor d_out, at::Tensor out, at::Tensor log_sum, at::Tensor qkv, Heads,
                     const Dropout&, const AttentionMemory&, const ContextParallel::Gathering& keys, Context&);

}  // namespace partita::internal
