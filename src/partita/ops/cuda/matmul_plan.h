// A matmul run by cuBLASLt, and its candidate algorithms. Descriptors and algorithms are created on the first call and
// cached by problem.
//
//   run_product({.m = m, .n = n, .k = k, ...}, {.a = a, .b = b, .out = out});
//
// Speed depends on the algorithm; cuBLASLt proposes up to eight, ranked by its own heuristic. The first is used unless
// another is selected (ops/matmul_tuning.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "partita/ops/matmul_tuning.h"

namespace partita::internal::cuda {

enum class Epilogue : uint8_t { none, bias, gelu, gelu_backward };

// Cache key of the algorithms. D [m, n] (+)= A [m, k] B [k, n], column-major as in BLAS.
struct Product {
  int device = 0;
  at::ScalarType dtype = at::kBFloat16, out_dtype = at::kBFloat16;
  at::ScalarType dtype_b = at::ScalarType::Undefined;  // fp8: dtype of B, with dtype that of A; else both have dtype
  int64_t m = 0, n = 0, k = 0;
  bool transposed_a = false, transposed_b = false;  // A, B are stored as [k, m], [n, k]
  int64_t row_a = 0, row_b = 0, row_out = 0;        // leading dimensions
  bool accumulate = false;
  Epilogue epilogue = Epilogue::none;
  int align_a = 0, align_b = 0, align_out = 0;  // power-of-two alignment of the addresses, at most 256

  friend auto operator<=>(const Product&, const Product&) = default;
  // Key for files; excludes the device index, since a file is for one type of card.
  [[nodiscard]] std::string text() const;
};

struct Operands {
  const void *a, *b;
  void* out;
  const void* bias = nullptr;
  void* aux = nullptr;
  float scale = 1;
  const float *scale_a = nullptr, *scale_b = nullptr;  // fp8 scales, on the device
};

// Runs on the current device and stream, and fills in the product's device and alignments.
void run_product(Product, const Operands&);

// Alignment of the address, at most 256.
[[nodiscard]] int alignment(const void* address);

// Implement ops/matmul_tuning.h. A round below 0 ends the trial.
[[nodiscard]] std::string matmul_library(at::Device);
void set_trial(int round);
[[nodiscard]] std::vector<MatmulTimes> take_times();
void use_algorithms(std::span<const MatmulChoice>);

}  // namespace partita::internal::cuda
