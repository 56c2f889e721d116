#include "partita/ops/rope.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>

#include <numbers>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/targets.h"
#include "partita/ops/operand_checks.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/rope.h"
#endif
#include "partita/ops/device.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/rope.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// Rotates the pairs (a, b) of each head in a row to (a cos - b sin, b cos + a sin); `direction` -1 rotates back.
template <class T>
HWY_INLINE void turn_row(T* row, const float* cos, const float* sin, float direction, int64_t heads, int64_t half) {
  const V sign = constant(direction);
  for (int64_t h = 0; h < heads; ++h) {
    T *first = row + 2 * half * h, *second = first + half;
    for_vectors(half, [&](int64_t i, auto part) {
      const V a = load(first + i, part), b = load(second + i, part);
      const V c = load(cos + i, part), s = hn::Mul(load(sin + i, part), sign);
      store(hn::NegMulAdd(b, s, hn::Mul(a, c)), first + i, part);
      store(hn::MulAdd(a, s, hn::Mul(b, c)), second + i, part);
    });
  }
}

// Rotates the q and k heads of rows [begin, end) in place.
void turn_rows(const at::Tensor& qkv, const int32_t* positions, const Heads& heads, const RopeTable& table,
               float direction, int64_t begin, int64_t end) {
  const int64_t width = qkv.size(2), half = heads.head_width / 2;
  const float *cos = table.cos.const_data_ptr<float>(), *sin = table.sin.const_data_ptr<float>();
  with_type_of(qkv, [&]<class T>(T) {
    T* data = qkv.mutable_data_ptr<T>();
    for (int64_t row = begin; row < end; ++row)
      turn_row(data + row * width, cos + positions[row] * half, sin + positions[row] * half, direction,
               heads.heads + heads.kv_heads, half);
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(turn_rows);

constexpr int64_t kLeastRows = 16;  // minimum per thread

void check_options(const RopeOptions& options) {
  PARTITA_CHECK(options.head_width > 0 && options.head_width % 2 == 0,
                "rotary positions turn pairs of channels: heads are {} wide, which is not even", options.head_width);
  PARTITA_CHECK(options.theta > 0, "rotary positions: theta {} is not positive", options.theta);
  PARTITA_CHECK(options.factor == 1 || (options.factor > 0 && options.low > 0 && options.high > options.low),
                "rotary positions: factor {}, low {} and high {} do not satisfy factor > 0 and 0 < low < high",
                options.factor, options.low, options.high);
}

// Llama 3's scaling of one frequency, in fp32 like Hugging Face's.
float scaled(float frequency, const RopeOptions& options) {
  const auto length = static_cast<float>(options.original_length), factor = static_cast<float>(options.factor);
  const auto low = static_cast<float>(options.low), high = static_cast<float>(options.high);
  const float wave_length = 1 / frequency * (2 * std::numbers::pi_v<float>);
  if (wave_length < length / high) return frequency;
  if (wave_length > length / low) return frequency / factor;
  const float share = (length / wave_length - low) / (high - low);
  return (1 - share) * frequency / factor + share * frequency;
}

void turn(const at::Tensor& qkv, const at::Tensor& positions, const Heads& heads, const RopeTable& table,
          const char* name, float direction) {
  check_rope(qkv, name, positions, heads, table, at::kCPU);
  const int64_t limit = table.cos.size(0);
  check_indices(positions, "position", limit);
  const int32_t* position = positions.const_data_ptr<int32_t>();
  at::parallel_for(0, positions.numel(), kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(turn_rows)(qkv, position, heads, table, direction, begin, end);
  });
}

}  // namespace

std::vector<float> rope_frequencies(const RopeOptions& options) {
  check_options(options);
  // The same operations as in Hugging Face's models, so that all bits agree.
  const at::Tensor exponents = at::arange(0, options.head_width, 2).to(at::kFloat).div(options.head_width);
  const at::Tensor frequencies = at::pow(options.theta, exponents).reciprocal();
  const float* data = frequencies.const_data_ptr<float>();
  std::vector<float> out(data, data + frequencies.numel());
  if (options.factor != 1)
    for (float& frequency : out) frequency = scaled(frequency, options);
  return out;
}

RopeTable make_rope_table(const RopeOptions& options, at::Device device) {
  std::vector<float> frequencies = rope_frequencies(options);
  PARTITA_CHECK(options.positions >= 0, "a table of {} rotary positions", options.positions);
  if (device.is_meta()) {  // nothing is computed with it
    const at::Tensor none =
        at::empty({options.positions, options.head_width / 2}, at::TensorOptions(at::kFloat).device(device));
    return {none, none};
  }
  const at::Tensor row = at::from_blob(frequencies.data(), {options.head_width / 2}, at::TensorOptions(at::kFloat));
  const at::Tensor angles = at::outer(at::arange(options.positions).to(at::kFloat), row);
  return {angles.cos().to(device), angles.sin().to(device)};  // computed on the CPU: the same bits everywhere
}

void rope_forward(at::Tensor qkv, at::Tensor positions, Heads heads, const RopeTable& table) {
  PARTITA_DISPATCH(qkv, rope_forward(qkv, positions, heads, table));
  turn(qkv, positions, heads, table, "qkv", 1);
}

void rope_backward(at::Tensor d_qkv, at::Tensor positions, Heads heads, const RopeTable& table) {
  PARTITA_DISPATCH(d_qkv, rope_backward(d_qkv, positions, heads, table));
  turn(d_qkv, positions, heads, table, "d_qkv", -1);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
