// Matrix products of linear layers on a device, by cuBLASLt: the contract of ops/matmul.h, for tensors there. fp32 is
// multiplied as fp32 (no TF32); d_w may be fp32 of half-precision factors, and is added to in the product.
//
// What a product costs depends on the algorithm, of which cuBLASLt proposes up to eight, best first by its own guess. The
// first is taken unless another is chosen. Which one is the fastest shows only inside a training step, where the card's
// clock has fallen under load:
//
//   for (const cuda::Product& product : cuda::products()) cuda::choose_candidate(product, best[product.text()]);
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace partita::cuda {

void linear_forward(at::Tensor y, at::Tensor x, at::Tensor w, at::Tensor bias = {});
void linear_add(at::Tensor y, at::Tensor x, at::Tensor w, float scale);
void linear_backward_input(at::Tensor d_x, at::Tensor d_y, at::Tensor w, float scale = 1, bool accumulate = false);
void linear_backward_weight(at::Tensor d_w, at::Tensor d_y, at::Tensor x, bool accumulate, float scale = 1);

// Products with GELU (tanh approximation) in them, for the MLP of GPT-2. Whether they exist for such an `up` [N, F]: half
// precision, F divisible by 8, at an address divisible by 16. Where not, use the kernels of activation.h.
[[nodiscard]] bool has_gelu_products(const at::Tensor& up);
// up [N, F] = x [N, C] w^T + bias; out [N, F] = gelu(up), of up before it is rounded.
void linear_gelu_forward(at::Tensor out, at::Tensor up, at::Tensor x, at::Tensor w, at::Tensor bias);
// d_up [N, F] = (d_y [N, C] w [C, F]) * gelu'(up), w that of the linear behind the GELU. d_up may not be up.
void linear_gelu_backward_input(at::Tensor d_up, at::Tensor d_y, at::Tensor w, at::Tensor up);

enum class Epilogue : uint8_t { none, bias, gelu, gelu_backward };

// What algorithms are kept by. D [m, n] (+)= A [m, k] B [k, n], column-major as in BLAS.
struct Product {
  int device = 0;
  at::ScalarType dtype = at::kBFloat16, out_dtype = at::kBFloat16;
  int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;  // A, B lie as [k, m], [n, k]
  int64_t row_a = 0, row_b = 0, row_out = 0;        // elements from column to column in memory
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  int align_a = 0, align_b = 0, align_out = 0;  // what the addresses are divisible by, at most 256

  friend auto operator<=>(const Product&, const Product&) = default;
  // A key for files; without the device, whose kind the file knows.
  [[nodiscard]] std::string text() const;
};

// All products made so far.
[[nodiscard]] std::vector<Product> products();
[[nodiscard]] int candidates(const Product&);
// From now on. Error: there are not so many. Algorithms may differ in their last bits.
void choose_candidate(const Product&, int candidate);

}  // namespace partita::cuda
