// A linear of a layer, y = x W^T (+ bias), with optional low-rank adapters (E. Hu et al., "LoRA: low-rank adaptation of
// large language models", 2021). A linear packs several matrices of a layer (q, k, v; gate, up), so each adapter covers
// rows [begin, begin + rows) of W:
//
//   y[:, begin .. begin + rows) += scale * dropout(x) A^T B^T         A [rank, in], B [rows, rank]
//
// x A^T is saved from forward to backward. A layer lists the parameters and buffers of its linears after its own:
//
//   LinearIndices next{.parameter = kParameters, .slot = kSlots, .scratch = kScratch};
//   Linear qkv({.weight = kQkv, .in = width, .parts = attention_parts(heads)}, layer, lora, next);
//   qkv.add_parameters(list);
//   qkv.forward(weights, y, x, context, saved);
//   qkv.backward(weights, d_x, d_y, x, context, saved, grads);
//
// Tensor parallelism: W is split by rows (each rank computes its columns of y from all of x) or by columns (each rank
// has its columns of x, and y is the sum over ranks). x and d_x of the former, y and d_y of the latter are rows of the
// residual stream: with sequence parallelism each rank has a part of them, and the linear gathers and sums. Or every
// rank has all of W (LinearSpec::replicated): what is inside its layer has all rows on every rank, what is in the
// residual stream has those of this rank, nothing is summed but gradients. Each rank adds the terms of an equal part of
// the rows to the gradients of W, bias and adapters, so that these have the same bits on all ranks.
//
// With fp8, the three matmuls of W run in fp8 where sizes permit (fp8_linear.h); adapters do not. If possible the
// kernel that produces x or d_y also measures its amax:
//
//   begin_scales(context, saved[kScales]);                    // at the start of each forward
//   add_norm_forward({..., .amax = qkv.input_amax(context, saved, rows)});
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/nn/block.h"
#include "partita/nn/fp8_linear.h"
#include "partita/nn/split.h"
#include "partita/nn/tensor_parallel.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct LoraOptions {
  int64_t rank = 0;  // 0: no adapters
  float scale = 1;   // alpha / rank
  float dropout = 0;
  std::vector<std::string> parts;  // parts with adapters
};

struct LinearSpec {
  int weight;            // indices in the layer's parameters
  int bias = -1;         // -1: none, or added by another kernel
  bool measured = true;  // the kernel that produces x measures its amax
  int64_t in;
  Split split = Split::rows;         // of W; columns: y is summed over the ranks, without bias
  bool replicated = false;           // instead of split, which only says which side is in the residual stream
  std::vector<ParameterPart> parts;  // cover all rows of W
  // Part "attention.q" may have an adapter with parameters "layers.3.attention.q.lora_a" and ".lora_b". Not null: a
  // single adapter of this name covers all of W.
  const char* adapter = nullptr;
};

// Next free indices in a layer's lists.
struct LinearIndices {
  int parameter, slot;
  int scratch;  // first of the temporaries shared by all linears of the layer
  int adapter = 0;
  bool fp8 = false;
  int scales = 0;  // the layer's slot for fp8 scales
  int linear = 0;  // index of the linear in its layer
  TensorSplit tensor;
};

class Linear {
 public:
  Linear(LinearSpec, int64_t layer, const LoraOptions&, LinearIndices& next);

  [[nodiscard]] int adapters() const { return static_cast<int>(adapters_.size()); }
  // Appends the adapters' parameters, and sets the split of this linear's weight, which is already in the list.
  void add_parameters(std::vector<ParameterSpec>&) const;
  // Splits a bias of y like y.
  void split_bias(ParameterSpec&) const;
  void add_saved(const Shape&, DType, std::vector<BufferSpec>&) const;
  // Whether each of several tensor-parallel ranks has all of W.
  [[nodiscard]] bool is_replicated() const { return spec_.replicated && tensor_.ranks > 1; }

  // Whether the matmuls of W run in fp8.
  [[nodiscard]] bool is_fp8(int64_t rows) const { return fp8_ && fp8_->fits(rows); }
  // BufferSpec::saved_up_to of x.
  [[nodiscard]] std::optional<Recompute> input_saved(int64_t rows) const {
    return keeps_transposed(rows) ? std::nullopt : std::optional(Recompute::none);
  }
  // Whether backward's input was saved: x transposed, or x in slot `input`.
  [[nodiscard]] bool kept_input(const Saved&, int input, int64_t rows) const;
  // Where the kernels that produce x and d_y write their amax; undefined if they need not measure. gradient_scale:
  // [kFp8Scale], which starts with the amax.
  [[nodiscard]] at::Tensor input_amax(const Context&, const Saved&, int64_t rows) const;
  [[nodiscard]] at::Tensor gradient_scale(const Context&, const Saved&, int64_t rows) const;
  [[nodiscard]] at::Tensor gradient_amax(const Context&, const Saved&, int64_t rows) const;

  // For Block::operands, of a linear without adapters: d_y and x, unless they stay in what its layer saved.
  void add_operands(int64_t rows, DType, bool trained, bool d_y_stays, bool x_stays, std::vector<BufferSpec>&) const;

  // The rows of the residual stream that W multiplies, for x of a row split or d_y of a column split: all of them.
  [[nodiscard]] at::Tensor gather_rows(at::Tensor stream, const Context&) const;
  // Calls use(run, rows) for runs that make up all rows: this rank's own first, while the others arrive. again: returns
  // all rows, for more than that.
  using UseRows = std::function<void(const RowRun&, const at::Tensor&)>;
  at::Tensor gather_rows(const at::Tensor& stream, const Context&, bool again, const UseRows& use) const;

  // y [N, out], x [N, in], of which a rank of several has its columns or rows. recomputing: with the scales of the
  // forward pass.
  void forward(Weights, at::Tensor y, at::Tensor x, Context&, Saved&, bool recomputing = false) const;
  // Recomputes what is saved in place of x.
  void keep_input(at::Tensor x, const Context&, Saved&) const;
  // Recomputes only what backward reads of the adapters, when y is not needed.
  void recompute(Weights, at::Tensor x, Context&, Saved&) const;
  // Overwrites d_x [N, in]. It may alias x if there are no adapters and no other tensor-parallel ranks, and if the
  // layer's operands need not stay (BlockTraits::leaves_operands). d_scale: scale of d_y with amax already measured;
  // undefined: measured here.
  void backward(Weights, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context&, Saved&, Grads&,
                at::Tensor d_scale = {}) const;

 private:
  struct Adapter {
    ParameterPart part;
    int64_t begin, rows;  // of this rank's rows of W
    int a, b;             // parameter indices
    int slot;             // holds x A^T
    uint32_t site;
  };
  // The boxes of W that a rank computes with, one per part, and columns of y.
  [[nodiscard]] std::vector<LocalBox> boxes(int rank) const;
  [[nodiscard]] static int64_t count_rows(const std::vector<LocalBox>&);
  // Whether fp8 matmuls take the part of W of every rank.
  [[nodiscard]] bool fits_fp8() const;
  [[nodiscard]] int64_t all_rows() const;                                        // of W, on all ranks
  [[nodiscard]] int64_t out() const { return count_rows(boxes(tensor_.rank)); }  // columns of y on this rank
  [[nodiscard]] bool by_rows() const { return spec_.split != Split::columns; }
  [[nodiscard]] TensorParallel::Gathering start_gather(const at::Tensor& stream, const Context&) const;
  // Where this rank's partial sum of a result [N, C] in the stream is written: `out` itself if it has all rows.
  [[nodiscard]] at::Tensor partial(const at::Tensor& out, int64_t rows, const Context&) const;
  // The sum of it over the ranks; null: this rank computes whole blocks.
  [[nodiscard]] std::optional<RowSum> start_sum(const at::Tensor& partial, const Context&) const;
  // Calls use(run) for runs that make up all rows: those of other ranks first, which are sent to them if `send`.
  void use_rows(int64_t rows, std::optional<RowSum>&, bool send, const Context&,
                const std::function<void(const RowRun&)>& use) const;
  [[nodiscard]] TensorSplit::Pieces pieces_of(int64_t rows, const Context&) const;
  // The matmuls of W in fp8, of which y and d_x are this rank's own terms. forward_fp8 returns x with all rows if there
  // are adapters; backward_fp8 gives x and d_y all rows.
  [[nodiscard]] at::Tensor forward_fp8(const at::Tensor& w, const at::Tensor& bias, const at::Tensor& y,
                                       const at::Tensor& x, std::optional<RowSum>&, const Context&, const Saved&,
                                       bool recomputing) const;
  void backward_fp8(const at::Tensor& w, const at::Tensor& d_x, at::Tensor& d_y, at::Tensor& x, std::optional<RowSum>&,
                    const Context&, const Saved&, Grads&, at::Tensor d_scale) const;
  // With all of W on each of several ranks: linear_replicated.cc. rows: of the micro-batch.
  [[nodiscard]] Split split() const { return is_replicated() ? Split::none : spec_.split; }
  // Calls use(out's rows, run) for runs of the micro-batch that fp8 matmuls take and that make up this rank's rows of
  // the residual stream; or once for all rows, of which these are copied to `out`.
  void own_rows_fp8(const at::Tensor& out, int64_t rows, const Context&,
                    const std::function<void(const at::Tensor&, const RowRun&)>& use) const;
  void forward_replicated(Weights, const at::Tensor& y, const at::Tensor& x, int64_t rows, Context&, Saved&,
                          bool recomputing) const;
  void backward_replicated(Weights, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x, int64_t rows,
                           Context&, Saved&, Grads&, at::Tensor d_scale) const;
  void backward_replicated_fp8(Weights, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x, int64_t rows,
                               const Context&, const Saved&, Grads&, at::Tensor d_scale) const;
  // Whether x transposed in fp8 is kept for backward, instead of x. Not where x is gathered from parts of its rows: a
  // rank keeps its part, and gathers again.
  [[nodiscard]] bool keeps_transposed(int64_t rows) const {
    return is_fp8(rows) && adapters_.empty() && !(by_rows() && tensor_.splits_rows(rows));
  }
  // Whether forward in fp8 writes x transposed.
  [[nodiscard]] bool saves_input(int64_t rows, const Context&, const Saved&, bool recomputing) const;
  // Dropout of an adapter's input, of which this rank may have some columns.
  [[nodiscard]] Dropout dropout_of(const Adapter&, const Context&) const;
  // first_row: of the micro-batch, at which x begins.
  [[nodiscard]] at::Tensor dropped(const Adapter&, at::Tensor x, Context&, int64_t first_row = 0) const;

  LinearSpec spec_;
  int64_t layer_;
  LoraOptions lora_;
  TensorSplit tensor_;
  int scratch_;
  std::optional<Fp8Linear> fp8_;
  std::vector<Adapter> adapters_;
};

// Scratch shared by the linears of a layer; none without adapters, sequence parallelism and fp8. Channels of the
// residual stream; maximum input channels, output channels and weight elements over these linears on this rank:
struct LinearSizes {
  int64_t stream, widest_in, widest_out, largest;
};
void add_linear_scratch(const LoraOptions&, const LinearIndices&, const Shape&, const LinearSizes&, DType,
                        std::vector<BufferSpec>&);

}  // namespace partita::internal
