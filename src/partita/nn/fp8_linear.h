// The three matmuls of a linear in fp8 (ops/fp8.h): y = x W^T, d_x = d_y W and d_W = d_y^T x. x and W are quantized to
// e4m3, d_y to e5m2, each with a scale of its own.
//
// Backward needs x transposed and quantized, which is saved instead of x. The scales of x, W and d_y are saved too, so
// that quantizing again, in a recomputation or in backward, gives the same bits.
//
// Current scaling: a scale comes from the amax of the tensor itself, which the kernel that produces the tensor measures
// where it can. Delayed scaling: Context::scales holds the scales, from the amax of earlier steps, and quantizing a
// tensor also measures it for later ones.
//
// Tensor parallelism: a tensor has one scale, from its amax over all ranks, so that every rank rounds it alike and a
// value is rounded as in one process. Where ranks have different parts of a tensor they exchange its amax before it is
// used: at most once in forward, for x and W together, and once in backward, for d_y. (A key/value head that several
// ranks share has a gradient of several terms, one per rank, each rounded before they are added.)
#pragma once
#include "partita/nn/block.h"
#include "partita/nn/split.h"

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
  struct Sizes {
    int64_t in, out;  // of this rank's part of W
    bool fit;         // those of every tensor-parallel rank are multiples of 16
  };
  // split: of W over the tensor-parallel ranks. measured: the kernel that produces x measures its amax.
  Fp8Linear(const Sizes& sizes, Split split, bool measured, Indices indices)
      : sizes_(sizes), split_(split), measured_(measured), at_(indices) {}

  // Whether the matmuls run in fp8 for this number of rows: sizes are multiples of 16. On all tensor-parallel ranks or
  // on none, although their parts of W may differ in size: they exchange amaxes, and round alike.
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
  // Neighboring scales, [(last - first + 1) * kFp8Scale], and a single one.
  [[nodiscard]] at::Tensor scales(const Context&, const Saved&, Scale first, Scale last) const;
  [[nodiscard]] at::Tensor scale(const Context& context, const Saved& saved, Scale which) const {
    return scales(context, saved, which, which);
  }
  [[nodiscard]] at::Tensor transposed(const Saved&) const;
  [[nodiscard]] at::Tensor temporary(const Context&, int index, int64_t rows, int64_t columns, at::ScalarType) const;
  void measure(Scale, const at::Tensor& x, const Context&, const Saved&) const;
  // Whether the amax of a tensor with N rows is of a part of it. columns: this rank has some of its columns.
  // by_producer: measured by the kernel that produced it, which had the rows of the stream on this rank.
  static bool is_part(bool columns, bool by_producer, int64_t rows, const Context&);
  // Quantizes x into rows [N, C] and columns [C, N], each of which may be undefined, and returns the scale. again: as
  // before in this micro-batch.
  at::Tensor quantize(at::Tensor rows, at::Tensor columns, Scale, const at::Tensor& x, bool again, const Context&,
                      const Saved&) const;

  Sizes sizes_;
  Split split_;
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
