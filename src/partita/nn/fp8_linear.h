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
// Matmuls of y and d_x can be made in runs of rows, so that other rows travel meanwhile.
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

  // Forward, for x [N, in], y [N, out] and w [out, in]: set_scales, then quantize_input of all rows, in one or several
  // runs, and multiply_input of runs that are quantized. Until the last of them no other linear of the layer may run.
  // set_scales is collective; its x is all that this rank has before other ranks' rows arrive. and_transposed: also
  // quantizes x transposed into its slot, in a run of all rows. recomputing: with the scales of forward, which are not
  // measured again.
  void set_scales(const at::Tensor& x, const at::Tensor& w, int64_t rows, const Context&, const Saved&,
                  bool recomputing) const;
  void quantize_input(const at::Tensor& x, const RowRun&, bool and_transposed, const Context&, const Saved&,
                      bool recomputing) const;
  void multiply_input(const at::Tensor& y, const RowRun&, const at::Tensor& bias, const Context&, const Saved&) const;
  // Quantizes x [N, in] again into the slot of x transposed, with the scale of forward.
  void save_input(const at::Tensor& x, const Context&, const Saved&) const;

  // Backward, for d_y [N, out] and d_x [N, in]: set_gradient_scale, which is collective, returns the scale of d_y for
  // the other calls. No other linear of the layer may run until weight_gradient. d_y: as x of set_scales. d_scale: with
  // its amax already measured; undefined: measured here.
  [[nodiscard]] at::Tensor set_gradient_scale(const at::Tensor& d_y, const at::Tensor& w, int64_t rows, const Context&,
                                              const Saved&, at::Tensor d_scale) const;
  // Quantizes a run of rows for multiply_gradient; and_transposed: all rows, also for weight_gradient.
  void quantize_gradient(const at::Tensor& d_y, const RowRun&, bool and_transposed, const at::Tensor& d_scale,
                         const Context&) const;
  // Quantizes all rows for weight_gradient only.
  void transpose_gradient(const at::Tensor& d_y, const at::Tensor& d_scale, const Context&) const;
  // Overwrites a run of rows of d_x.
  void multiply_gradient(const at::Tensor& d_x, const RowRun&, const at::Tensor& d_scale, const Context&,
                         const Saved&) const;
  // Of x in its slot, all rows.
  void weight_gradient(const Target& d_w, const at::Tensor& d_scale, const Context&, const Saved&) const;

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
  // The matrix [rows, columns] in a temporary, and a run of rows of one with as many columns.
  [[nodiscard]] at::Tensor temporary(const Context&, int index, int64_t rows, int64_t columns, at::ScalarType) const;
  [[nodiscard]] at::Tensor temporary(const Context&, int index, const RowRun&, int64_t columns, at::ScalarType) const;
  void measure(Scale, const at::Tensor& x, const Context&, const Saved&) const;
  // Whether ranks have different parts of a tensor of this many rows: of its columns, if `columns`, or of its rows.
  static bool is_part(bool columns, int64_t rows, const Context&);
  // Quantizes x into rows [N, C] and columns [C, N], each of which may be undefined. again: as before in this
  // micro-batch.
  void quantize(at::Tensor rows, at::Tensor columns, Scale, const at::Tensor& x, bool again, const Context&,
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
