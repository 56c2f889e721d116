#include "partita/ops/cpu/products.h"

#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <exception>

#include "partita/ops/cpu/isa_limit.h"
#include "partita/ops/cpu/onednn.h"
#include "partita/ops/cpu/tile_matmul.h"

namespace partita::internal {
namespace {

constexpr int64_t kSize = 32;

// Whether the library can build the matmul kernel, and multiplies ones correctly.
template <class F>
bool works(F&& product) {
  try {
    const std::array<float, kSize* kSize> c = product();
    return std::all_of(c.begin(), c.end(), [](float x) { return x == kSize; });
  } catch (const std::exception&) {  // each library throws its own type
    return false;
  }
}

std::array<float, kSize * kSize> bf16_tile() {
  std::array<at::BFloat16, kSize * kSize> ones;
  ones.fill(at::BFloat16(1.0F));
  std::array<float, kSize* kSize> c = {};
  tile_matmul(kSize, kSize, kSize, ones.data(), kSize, ones.data(), kSize, c.data(), kSize, false);
  tile_matmul_done(at::BFloat16{});
  return c;
}

std::array<float, kSize * kSize> fp32_matrix() {
  const at::Tensor ones = at::ones({kSize, kSize}, at::kFloat), product = at::empty({kSize, kSize}, at::kFloat);
  at::native::mkldnn_matmul(ones, ones, product, 0, 1);
  std::array<float, kSize* kSize> c = {};
  std::copy_n(product.const_data_ptr<float>(), c.size(), c.begin());
  return c;
}

}  // namespace

const CpuProducts& cpu_matmul_support() {
  static const CpuProducts products = [] {
    check_isa_limit();
    return CpuProducts{.bf16 = works(bf16_tile), .onednn_fp32 = works(fp32_matrix)};
  }();
  return products;
}

}  // namespace partita::internal
