// Shared by the tests of ops/: random tensors, comparison with plain fp64 arithmetic, bitwise equality.
#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

namespace partita::internal::reference {

using Values = std::vector<double>;

inline constexpr at::ScalarType kDTypes[] = {at::kFloat, at::kBFloat16, at::kHalf};

// Normal numbers; the same for the same seed.
inline at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype, uint64_t seed, double mean = 0, double std = 1) {
  at::Tensor out = at::empty(shape, at::TensorOptions(at::kFloat));
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(mean, std);
  float* data = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < out.numel(); ++i) data[i] = static_cast<float>(normal(generator));
  return out.to(dtype);
}

// What Dropout::samples takes.
inline at::Tensor sample_ids(std::span<const int64_t> ids) {
  at::Tensor out = at::empty({static_cast<int64_t>(ids.size())}, at::TensorOptions(at::kLong));
  std::ranges::copy(ids, out.mutable_data_ptr<int64_t>());
  return out;
}

inline at::Tensor nan(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::full(shape, std::numeric_limits<double>::quiet_NaN(), at::TensorOptions(dtype));
}

inline at::Tensor integers(at::IntArrayRef shape, int64_t limit, uint64_t seed) {
  at::Tensor out = at::empty(shape, at::TensorOptions(at::kInt));
  std::mt19937_64 generator(seed);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.mutable_data_ptr<int32_t>()[i] = static_cast<int32_t>(generator() % static_cast<uint64_t>(limit));
  return out;
}

inline Values values(const at::Tensor& tensor) {
  const at::Tensor wide = tensor.to(at::kDouble).contiguous();
  const double* data = wide.const_data_ptr<double>();
  return {data, data + wide.numel()};
}

// One rounding of the dtype, or what fp32 arithmetic loses.
inline double tolerance(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;
}

// |actual - expected| <= relative * (|expected| + root mean square of all expected), NaN nowhere.
inline void expect_close(const at::Tensor& actual, const Values& expected, double relative) {
  const Values found = values(actual);
  ASSERT_EQ(found.size(), expected.size());
  double squares = 0;
  for (double e : expected) squares += e * e;
  const double scale = expected.empty() ? 0 : std::sqrt(squares / static_cast<double>(expected.size()));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_LE(std::abs(found[i] - expected[i]), relative * (std::abs(expected[i]) + scale) + 1e-30)
        << "element " << i << ": " << found[i] << " instead of " << expected[i];
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         (a.numel() == 0 || std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0);
}

// run() with that many threads; the number is put back.
template <class F>
auto with_threads(int count, F&& run) {
  const int before = at::get_num_threads();
  at::set_num_threads(count);
  auto result = run();
  at::set_num_threads(before);
  return result;
}

}  // namespace partita::internal::reference
