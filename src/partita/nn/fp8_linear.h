// The three matmuls of a linear in fp8 (ops/fp8.h): y = x W^T, d_x = d_y W and d_W = d_y^T x. x and W are quantized to
// e4m3, d_y to e5m2, each with a scale of its own.
//
// Backward needs x transposed and quantized, which is saved instead of x. The scales of x, W and d_y are saved too, so
// that quantizing again, in a recomputation or in backward, gives the same bits.
//
// Current scaling: a scale comes from the amax of the tensor itself, which the kernel that produces the tensor measures
// where it can. Delayed scaling: Context::scales holds the scales, from the amax of earlier steps, and quantizing a
// tensor also measures it for later ones.
#pragma once
#include "partita/nn/block.h"

namespace partita::internal {

// Scales per linear: x, W and d_y.
inline constexpr int64_t kScalesOfLinear = 3;

class Fp8Linear {
 public:
  struct Indices {
    int scratch;     // first of the three temporaries of add_scratch
    int scales;      // the layer's slot for scales
    int linear;      // index of the linear in its layer
    int transposed;  // slot of x transposed
  };
  // measured: the kernel that produces x measures its amax.
  Fp8Linear(int64_t in, int64_t out, bool measured, Indices indices)
      : in_(in), out_(out), measured_(measured), at_(indices) {}

  // Whether the matmuls run in fp8 for this number of rows: sizes are multiples of 16.
  [[nodiscard]] bool fits(int64_t rows) const;
  // The slot of x transposed; without keep it is temporary.
  [[nodiscard]] BufferSpec transposed_input(int64_t rows, std::optional<Recompute> saved_up_to) const;
  [[nodiscard]] bool keeps_transposed(const Saved& saved) const {
    return saved.kept[static_cast<size_t>(at_.transposed)];
  }

  // Where the kernels that produce x and d_y write the amax, [1]; undefined with delayed scaling. The scale of d_y,
  // [kFp8Scale], starts with its amax.
  [[nodiscard]] at::Tensor input_amax(const Context&, const Saved&) const;
  [[nodiscard]] at::Tensor gradient_scale(const Context&, const Saved&) const;

  // y [N, out], x [N, in], w [out, in], bias [out] or undefined. save_input: backward reads x transposed.
  void forward(const at::Tensor& y, const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias, const Context&,
               const Saved&, bool save_input, bool recomputing) const;
  // Quantizes x again into its slot, with the scale of forward.
  void save_input(const at::Tensor& x, const Context&, const Saved&) const;
  // Overwrites d_x [N, in] and writes d_w from d_y [N, out] and the saved x transposed. d_scale: the scale of d_y, with
  // its amax already measured; undefined: measured here.
  void backward(const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& w, const Target& d_w, const Context&,
                const Saved&, at::Tensor d_scale) const;

  // Temporaries that the linears of a layer share: rows x the widest of x and y, rows x the widest y, the largest W.
  static void add_scratch(int64_t rows, int64_t widest_in, int64_t widest_out, int64_t largest,
                          std::vector<BufferSpec>&);

 private:
  enum Scale : uint8_t { kInput, kWeight, kGradient };
  // known: quantized before in this micro-batch. by_producer: with current scaling, already measured by the kernel that
  // produced the tensor. unknown: neither.
  enum class Amax : uint8_t { known, by_producer, unknown };
  [[nodiscard]] at::Tensor scale(const Context&, const Saved&, Scale) const;
  [[nodiscard]] at::Tensor transposed(const Saved&) const;
  [[nodiscard]] at::Tensor temporary(const Context&, int index, int64_t rows, int64_t columns, at::ScalarType) const;
  // Quantizes x into rows [N, C] and columns [C, N], each of which may be undefined, and returns the scale.
  at::Tensor quantize(at::Tensor rows, at::Tensor columns, Scale, const at::Tensor& x, Amax, const Context&,
                      const Saved&) const;

  int64_t in_, out_;
  bool measured_;
  Indices at_;
};

// The slot for the scales of `linears` linears; empty without fp8.
[[nodiscard]] BufferSpec linear_scales(int linears, bool fp8);
// Current scaling: resets all measurements.
void begin_scales(const Context&, const at::Tensor& scales);
// Buffer for the amax of the gradient of the branch below (OutputBuffers::scale), reset to unmeasured. Undefined
// without fp8 and with delayed scaling.
[[nodiscard]] at::Tensor begin_branch_scale(const Context&, bool fp8);

}  // namespace partita::internal
