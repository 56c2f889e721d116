// A linear of a layer, y = x W^T (+ bias), with the low-rank adapters that may stand beside it (E. Hu et al., "LoRA:
// low-rank adaptation of large language models", 2021). Each adapts rows [begin, begin + rows) of W, since a linear
// packs several of a layer's matrices (q, k, v; gate, up):
//
//   y[:, begin .. begin + rows) += scale * dropout(x) A^T B^T         A [rank, in], B [rows, rank]
//
// x A^T is kept from forward to backward. A layer lists the parameters and buffers of its linears behind its own:
//
//   LinearPlaces next{.parameter = kParameters, .slot = kSlots, .scratch = kScratch};
//   Linear qkv({.weight = kQkv, .in = width, .parts = attention_parts(heads)}, layer, lora, next);
//   qkv.add_parameters(list);
//   qkv.forward(weights, y, x, context, saved);
//   qkv.backward(weights, d_x, d_y, x, context, saved, grads);
//
// With fp8 the three products of W are in 8 bits (ops/fp8.h), where the sizes allow it; adapters are not. What backward
// needs of x is then x transposed, in 8 bits, kept in its place: x itself is kept only where adapters read it. Scales
// of x, W and d_y are kept too, so that what is quantized again gets the same bits. The kernel that makes x or d_y
// measures it, if it can:
//
//   begin_scales(context, saved[kScales]);                    // at the start of each forward
//   add_norm_forward({..., .amax = qkv.input_amax(context, saved, rows)});
//
// So it is with current scaling. Where Context::scales is there, these are the scales, and what rounds a tensor to 8
// bits measures it in passing, for the steps to come (delayed scaling).
#pragma once
#include <string>
#include <vector>

#include "partita/nn/block.h"
#include "partita/ops/dropout.h"

namespace partita::internal {

struct LoraOptions {
  int64_t rank = 0;  // 0: no adapters
  float scale = 1;   // alpha / rank
  float dropout = 0;
  std::vector<std::string> parts;  // that are adapted
};

struct LinearSpec {
  int weight;            // places in the layer's parameters
  int bias = -1;         // -1: none, or added by another kernel
  bool measured = true;  // the kernel that makes x measures it
  int64_t in;
  Split split = Split::rows;         // of W; columns: y is a sum over the ranks
  std::vector<ParameterPart> parts;  // all of the rows of W
  // A part "attention.q" may have an adapter with parameters "layers.3.attention.q.lora_a" and ".lora_b". Not null: all
  // of W has one, of this name.
  const char* adapter = nullptr;
};

// The next free places in a layer's lists.
struct LinearPlaces {
  int parameter, slot;
  int scratch;  // of the temporaries that all linears of the layer share
  int adapter = 0;
  bool fp8 = false;
  int scales = 0;  // the layer's slot for scales
  int linear = 0;  // number of the linear in its layer
};

class Linear {
 public:
  Linear(LinearSpec, int64_t layer, const LoraOptions&, LinearPlaces& next);

  [[nodiscard]] int adapters() const { return static_cast<int>(adapters_.size()); }
  // Those of the adapters; and says how the layer's own, the weight of this linear, is split.
  void add_parameters(std::vector<ParameterSpec>&) const;
  // A bias of y is split as y is.
  void split_bias(ParameterSpec&) const;
  void add_saved(const Shape&, DType, std::vector<BufferSpec>&) const;

  // Whether the products of W are in 8 bits.
  [[nodiscard]] bool is_fp8(int64_t rows) const;
  // From which level on x is kept.
  [[nodiscard]] Keep input_keep(int64_t rows) const { return keeps_transposed(rows) ? Keep::never : Keep::all; }
  // Whether what backward needs of x was kept; `input` is the slot of x.
  [[nodiscard]] bool kept_input(const Saved&, int input, int64_t rows) const;
  // Where the kernels that make x and d_y put their largest magnitude; undefined where they need not. d_y: [kFp8Scale],
  // of which the first is the magnitude.
  [[nodiscard]] at::Tensor input_amax(const Context&, const Saved&, int64_t rows) const;
  [[nodiscard]] at::Tensor gradient_scale(const Context&, const Saved&, int64_t rows) const;
  [[nodiscard]] at::Tensor gradient_amax(const Context&, const Saved&, int64_t rows) const;

  // y [N, out], x [N, in]. again: in a recomputation, with the scales of before.
  void forward(Weights, at::Tensor y, at::Tensor x, Context&, Saved&, bool again = false) const;
  // Fills again what is kept in place of x.
  void keep_input(at::Tensor x, const Context&, Saved&) const;
  // Only what backward reads of the adapters, where y is not needed again.
  void recompute(Weights, at::Tensor x, Context&, Saved&) const;
  // d_x [N, in] is overwritten; it may be x where there are no adapters. d_scale: measured of d_y; undefined: not.
  void backward(Weights, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context&, Saved&, Grads&,
                at::Tensor d_scale = {}) const;

 private:
  struct Adapter {
    ParameterPart part;
    int64_t begin;  // first row of W
    int a, b;       // places of the parameters
    int slot;       // of x A^T
    uint32_t site;
  };
  enum Scale : uint8_t { kInput, kWeight, kGradient };
  [[nodiscard]] int64_t out() const;
  [[nodiscard]] bool keeps_transposed(int64_t rows) const { return is_fp8(rows) && adapters_.empty(); }
  [[nodiscard]] at::Tensor scale(const Context&, const Saved&, Scale) const;
  [[nodiscard]] at::Tensor transposed_input(const Saved&) const;
  [[nodiscard]] at::Tensor temporary(const Context&, int place, int64_t rows, int64_t columns, at::ScalarType) const;
  // Its scale, and x in 8 bits by it. made: measured by the kernel that made it; fresh: not in a recomputation, nor of
  // what the same micro-batch has rounded before.
  at::Tensor quantize(at::Tensor rows, at::Tensor columns, Scale, const at::Tensor& x, const Context&, const Saved&,
                      bool made, bool fresh) const;
  void forward_fp8(const at::Tensor& w, const at::Tensor& y, const at::Tensor& x, const at::Tensor& bias, Context&,
                   Saved&, bool again) const;
  void backward_fp8(const at::Tensor& w, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x, Context&,
                    Saved&, Target d_w, at::Tensor d_scale) const;
  [[nodiscard]] at::Tensor dropped(const Adapter&, at::Tensor x, Context&) const;

  LinearSpec spec_;
  int64_t layer_;
  LoraOptions lora_;
  int scratch_, scales_, number_;
  int transposed_;  // slot of x transposed, in 8 bits
  bool fp8_;
  std::vector<Adapter> adapters_;
};

// Scales that each linear has: of x, W and d_y.
inline constexpr int64_t kScalesOfLinear = 3;
// The slot of the scales of `linears` linears, with current scaling; empty without fp8.
[[nodiscard]] BufferSpec linear_scales(int linears, bool fp8);
// Current scaling: nothing is measured yet.
void begin_scales(const Context&, const at::Tensor& scales);
// Where the kernel that makes the gradient of the branch below measures it (OutputBuffers::scale), set to nothing measured.
// Undefined without fp8, and with delayed scaling.
[[nodiscard]] at::Tensor begin_branch_scale(const Context&, bool fp8);

// What the linears of a layer share: nothing without adapters and fp8. `widest_in`, `widest_out`, `largest`: the most
// input and output channels of any, and the most elements of a weight.
struct LinearSizes {
  int64_t widest_in, widest_out, largest;
};
void add_linear_scratch(const LoraOptions&, bool fp8, const Shape&, const LinearSizes&, DType,
                        std::vector<BufferSpec>&);

}  // namespace partita::internal
