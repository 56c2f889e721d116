// The last block: residual add, final norm, logits and cross-entropy loss, in chunks of rows, so that the logits of a
// batch are never stored whole. In training, forward saves the input and backward computes logits, loss and gradients:
// the loss of a step is known after backward.
//
// Tensor parallelism: each rank has the logits of some rows of the table. One exchange of three numbers per row, the
// largest logit, the sum of exponentials and the label's logit, gives every rank the loss; logits are never gathered.
// Or each rank has the whole table (HeadOptions::divided is false), and the logits of its rows of the residual stream.
#pragma once
#include "partita/nn/block.h"
#include "partita/nn/split.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

enum class NormKind : uint8_t { layer, rms };

struct HeadOptions {
  int64_t vocabulary, width;
  std::string weight_name = "head.weight";  // a tied head uses the name of the embedding table
  std::string entry_bias_name;              // bias of the last layer's branch; empty: none, as for Llama
  uint32_t entry_site = 0;                  // dropout site
  NormKind norm = NormKind::layer;
  double norm_epsilon = 1e-5, init_std = 0.02;
  float entry_dropout = 0;
  DType dtype = DType::fp32;
  int64_t chunk_bytes = int64_t{16} << 20;  // of logits per chunk
  TensorSplit tensor;
  bool divided = true;  // the table, over the tensor-parallel ranks
};

// Chunk size for a device: fits in the last-level cache of a CPU; on a GPU large enough for full matmul throughput
// (about 8000 rows with GPT-2's vocabulary).
[[nodiscard]] int64_t head_chunk_bytes(at::Device);
// Rows per chunk, in chunks of equal size.
[[nodiscard]] int64_t head_chunk_rows(int64_t rows, int64_t vocabulary, int64_t element_bytes, int64_t chunk_bytes);

class Head final : public Block {
 public:
  explicit Head(HeadOptions options) : options_(std::move(options)) {}
  [[nodiscard]] std::vector<ParameterSpec> parameters() const override;
  [[nodiscard]] BlockTraits traits() const override { return {.kind = BlockKind::head}; }
  [[nodiscard]] std::vector<BufferSpec> saved(const Shape&) const override;
  [[nodiscard]] std::vector<BufferSpec> scratch(const Shape&) const override;
  Residual forward(Weights, Residual, Context&, Saved&) const override;
  // A no-op since backward's inputs are all saved; also preserves what the last layer left in shared buffers.
  void recompute(Weights, Context&, Saved&) const override {}
  ResidualGrad backward(Weights, ResidualGrad, Context&, Saved&, Grads&) const override;

 private:
  enum Parameter : uint8_t { kTable, kNorm, kNormBias, kEntryBias };  // the last two only with layer norm
  enum Slot : uint8_t { kR, kMean, kRstd, kH };
  // kStatistics: of a chunk on this rank, then on all ranks; kPartial: with sequence parallelism. Of a head that is not
  // divided: the loss of this rank's rows, then of all ranks'.
  enum Scratch : uint8_t { kLogits, kDNormed, kStatistics, kAllStatistics, kPartial };
  enum WholeScratch : uint8_t { kLoss = kDNormed + 1, kAllLosses };

  [[nodiscard]] bool has_norm_bias() const { return options_.norm == NormKind::layer; }
  [[nodiscard]] bool has_entry_bias() const { return !options_.entry_bias_name.empty(); }
  // Undefined for norms without a mean.
  [[nodiscard]] at::Tensor mean(const Saved& saved) const { return has_norm_bias() ? saved[kMean] : at::Tensor(); }

  // Whether several ranks have the whole table.
  [[nodiscard]] bool is_replicated() const { return !options_.divided && options_.tensor.ranks > 1; }
  [[nodiscard]] ParameterSpec table() const;
  [[nodiscard]] Box table_rows(int rank) const;   // of the table, on a rank
  [[nodiscard]] int64_t most_table_rows() const;  // on any rank
  // h of all rows.
  [[nodiscard]] at::Tensor all_normed(const Context&, const Saved&) const;
  // Adds the loss of a chunk of rows, and turns its logits into their gradient.
  void chunk_loss(const at::Tensor& logits, const at::Tensor& labels, Context&, bool gradient) const;
  void write_logits(Weights, const at::Tensor& h, Context&) const;
  // In training: the loss of all rows, and the gradients of h and of this rank's rows of the table.
  void divided_loss(Weights, Context&, Saved&, Grads&) const;
  // is_replicated: the loss of all rows, from those of this rank, and in training the gradients of h and the table.
  void whole_loss(Weights, Context&, Saved&, Grads*) const;

  HeadOptions options_;
};

}  // namespace partita::internal
