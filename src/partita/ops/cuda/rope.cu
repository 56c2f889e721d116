#include "partita/ops/cuda/rope.h"

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/values.cuh"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

constexpr uint32_t kHeads =
    4;  // heads per thread, which share one read of cos and sin and keep as many reads in flight

template <class T>
struct Rope {
  T* qkv;
  const int32_t* positions;
  const float *cos, *sin;
  ValueError* error;
  int64_t rows, length, width, limit;
  uint32_t half, heads;  // pairs per head; rotated heads
  uint32_t packs;        // of eight pairs, per head
  uint32_t groups;       // threads that share the heads of one pack: thread g has heads g, g + groups ...
  float direction;
};

// Eight pairs (a, b) become (a cos - b sin, b cos + a sin).
template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) rope_kernel(const Rope<T> r) {
  const int64_t thread = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = thread / (r.packs * r.groups);
  if (row >= r.rows) return;
  const auto rest = static_cast<uint32_t>(thread - row * (r.packs * r.groups));
  const uint32_t group = rest / r.packs, pair = 8 * (rest % r.packs);
  const int64_t count = int64_t{r.half} - pair;
  int32_t position = r.positions[row];
  if (!check_value(position, r.limit, ValueKind::position, row, r.length, r.error)) position = 0;
  T* at = r.qkv + row * r.width + pair;
  Pack<T, 8> first[kHeads], second[kHeads];
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
    const uint32_t head = group + h * r.groups;
    if (head >= r.heads) continue;
    first[h] = load<kAligned, 8>(at + 2 * int64_t{head} * r.half, count);
    second[h] = load<kAligned, 8>(at + (2 * int64_t{head} + 1) * r.half, count);
  }
  float cos[8], sin[8];
  widen(load<kAligned, 8>(r.cos + int64_t{position} * r.half + pair, count), cos);
  widen(load<kAligned, 8>(r.sin + int64_t{position} * r.half + pair, count), sin);
#pragma unroll
  for (int i = 0; i < 8; ++i) sin[i] *= r.direction;
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
    const uint32_t head = group + h * r.groups;
    if (head >= r.heads) continue;
    float a[8], b[8];
    widen(first[h], a);
    widen(second[h], b);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float turned = fmaf(-b[i], sin[i], a[i] * cos[i]);
      b[i] = fmaf(a[i], sin[i], b[i] * cos[i]);
      a[i] = turned;
    }
    store<kAligned>(at + 2 * int64_t{head} * r.half, narrow<T>(a), count);
    store<kAligned>(at + (2 * int64_t{head} + 1) * r.half, narrow<T>(b), count);
  }
}

void turn(const at::Tensor& qkv, const at::Tensor& positions, const Heads& heads, const RopeTable& table,
          const char* name, float direction) {
  const at::ScalarType dtype = check_rope(qkv, name, positions, heads, table, at::kCUDA);
  const int64_t samples = qkv.size(0), length = qkv.size(1), half = heads.head_width / 2;
  const int64_t turning = heads.heads + heads.kv_heads;
  const int64_t limit = table.cos.size(0);
  PARTITA_CHECK(limit > 0, "the table of rotary positions is empty");
  if (samples * length * half * turning == 0) return;
  const auto packs = static_cast<uint32_t>(divide_up(half, 8)),
             groups = static_cast<uint32_t>(divide_up(turning, kHeads));
  with_type(dtype, [&]<class T>(T) {
    const Rope<T> arguments{.qkv = qkv.mutable_data_ptr<T>(),
                            .positions = positions.const_data_ptr<int32_t>(),
                            .cos = table.cos.const_data_ptr<float>(),
                            .sin = table.sin.const_data_ptr<float>(),
                            .error = value_error(),
                            .rows = samples * length,
                            .length = length,
                            .width = qkv.size(2),
                            .limit = limit,
                            .half = static_cast<uint32_t>(half),
                            .heads = static_cast<uint32_t>(turning),
                            .packs = packs,
                            .groups = groups,
                            .direction = direction};
    with_bool(half % 8 == 0 && aligned(qkv, table.cos, table.sin), [&]<class Aligned>(Aligned) {
      rope_kernel<T, Aligned::value>
          <<<blocks_for(samples * length * packs * groups), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
              arguments);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void rope_forward(at::Tensor qkv, at::Tensor positions, Heads heads, const RopeTable& table) {
  turn(qkv, positions, heads, table, "qkv", 1);
}

void rope_backward(at::Tensor d_qkv, at::Tensor positions, Heads heads, const RopeTable& table) {
  turn(d_qkv, positions, heads, table, "d_qkv", -1);
}

}  // namespace partita::internal::cuda
