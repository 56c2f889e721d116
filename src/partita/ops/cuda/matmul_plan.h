// One matrix product by cuBLASLt, and the algorithms it can be made by: descriptions and algorithms are looked up by
// what is multiplied, and made at the first call.
//
//   run_product({.m = m, .n = n, .k = k, ...}, {.a = a, .b = b, .out = out});
//
// What a product costs depends on the algorithm, of which cuBLASLt proposes up to eight, best first by its own guess.
// The first is taken unless another is chosen (ops/matmul_tuning.h).
#pragma once
#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "partita/ops/matmul_tuning.h"

namespace partita::internal::cuda {

enum class Epilogue : uint8_t { none, bias, gelu, gelu_backward };

// What algorithms are kept by. D [m, n] (+)= A [m, k] B [k, n], column-major as in BLAS.
struct Product {
  int device = 0;
  at::ScalarType dtype = at::kBFloat16, out_dtype = at::kBFloat16;
  at::ScalarType dtype_b = at::ScalarType::Undefined;  // 8-bit factors: of B, dtype is A's; else dtype is both's
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

struct Operands {
  const void *a, *b;
  void* out;
  const void* bias = nullptr;
  void* aux = nullptr;
  float scale = 1;
  const float *scale_a = nullptr, *scale_b = nullptr;  // of 8-bit factors, on the device
};

// On the current device and its current stream; device and alignments of the product are filled in here.
void run_product(Product, const Operands&);

// What the address is divisible by, at most 256.
[[nodiscard]] int alignment(const void* address);

// The functions of ops/matmul_tuning.h. A trial of a round below 0 is none.
[[nodiscard]] std::string matmul_library(at::Device);
void set_trial(int round);
[[nodiscard]] std::vector<MatmulTimes> take_times();
void use_algorithms(std::span<const MatmulChoice>);

}  // namespace partita::internal::cuda
