#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/dropout_apply.h"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/mask.cuh"

namespace partita::internal::cuda {
namespace {

// The elements of the operand, by runs of rows of consecutive positions: samples, or their two pieces on this rank.
struct Elements {
  int64_t per_run;
  int64_t skipped;  // of the first run, before the operand
  int64_t count;    // of the operand
  int64_t columns;
};

// blockIdx.y: a run of the operand, counted from row a.first_row, where the first run begins. The elements of a run are
// contiguous, so packs coincide with Philox blocks for any C (kBlocks) if the operand and its runs begin with one.
template <class T, bool kAdd, bool kAligned, bool kBlocks>
__global__ void __launch_bounds__(kThreads) dropout_kernel(T* out, const T* in, MaskArguments a, Elements elements) {
  const int64_t start = blockIdx.y * elements.per_run - elements.skipped;  // of the run in the operand
  const int64_t at = max(start, int64_t{0}) + 8 * (int64_t{blockIdx.x} * kThreads + threadIdx.x);
  const int64_t count = min(start + elements.per_run, elements.count) - at;
  if (count <= 0) return;
  float x[8];
  widen(load<kAligned, 8>(in + at, count), x);
  const Mask mask(a, blockIdx.y * a.run);
  if (mask.drops()) mask.apply<kBlocks>(x, mask.begin(elements.columns) + at - start);
  if constexpr (kAdd) {
    float before[8];
    widen(load<kAligned, 8>(out + at, count), before);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] += before[i];
  }
  store<kAligned>(out + at, narrow<T>(x), count);
}

// Some columns of rows: eight elements per thread, whose place in Philox blocks differs from row to row.
template <class T, bool kAdd>
__global__ void __launch_bounds__(kThreads) dropout_columns_kernel(T* out, const T* in, MaskArguments a, int64_t rows,
                                                                   int64_t C, int64_t first_column, int64_t columns) {
  const int64_t packs = (C + 7) / 8, index = int64_t{blockIdx.x} * kThreads + threadIdx.x, row = index / packs;
  if (row >= rows) return;
  const int64_t column = index % packs * 8, at = row * C + column, count = min(C - column, int64_t{8});
  float x[8];
  widen(load<false, 8>(in + at, count), x);
  const Mask mask(a, static_cast<uint32_t>(row));
  if (mask.drops()) mask.apply<false>(x, mask.begin(columns) + first_column + column);
  if constexpr (kAdd) {
    float before[8];
    widen(load<false, 8>(out + at, count), before);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] += before[i];
  }
  store<false>(out + at, narrow<T>(x), count);
}

template <bool kAdd>
void drop(const at::Tensor& out, const at::Tensor& in, const Dropout& dropout) {
  const at::ScalarType dtype = check_activation(in, "in");
  const int64_t N = in.size(0), C = in.size(1);
  check_tensor(in, "in", {N, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_mask_columns(dropout, C);
  MaskArguments mask = make_mask(dropout, N);
  if (N * C == 0) return;
  if (mask.threshold > 0 && dropout.columns > 0) {
    with_type(dtype, [&]<class T>(T) {
      dropout_columns_kernel<T, kAdd>
          <<<blocks_for(N * divide_up(C, 8)), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
              out.mutable_data_ptr<T>(), in.const_data_ptr<T>(), mask, N, C, dropout.first_column, dropout.columns);
    });
    PARTITA_LAUNCHED();
    return;
  }
  Elements elements{.per_run = N * C, .skipped = 0, .count = N * C, .columns = C};
  int64_t runs = 1;
  if (mask.threshold > 0) {
    const int64_t skipped_rows = mask.first_row % mask.run;
    elements.per_run = mask.run * C, elements.skipped = skipped_rows * C;
    runs = divide_up(skipped_rows + N, mask.run);
    mask.first_row -= static_cast<uint32_t>(skipped_rows);
  }
  PARTITA_CHECK(runs <= 65535, "dropout of {} samples or pieces at once: at most 65535", runs);
  const int64_t most = std::min(elements.per_run, elements.count);
  const dim3 grid(blocks_for(divide_up(most, 8)), static_cast<unsigned>(runs));
  const bool blocks = elements.skipped % 8 == 0 && (!dropout.context.cuts() || elements.per_run % 8 == 0);
  const bool whole = blocks && elements.per_run % 8 == 0 && elements.count % 8 == 0 && aligned(out, in);
  with_type(dtype, [&]<class T>(T) {
    const auto launch = [&]<class Aligned, class Blocks>(Aligned, Blocks) {
      dropout_kernel<T, kAdd, Aligned::value, Blocks::value><<<grid, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
          out.mutable_data_ptr<T>(), in.const_data_ptr<T>(), mask, elements);
    };
    if (whole) return launch(std::true_type{}, std::true_type{});
    with_bool(blocks, [&]<class Blocks>(Blocks) { launch(std::false_type{}, Blocks{}); });
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void dropout_forward(at::Tensor out, at::Tensor in, const Dropout& dropout) { drop<false>(out, in, dropout); }
void dropout_add(at::Tensor out, at::Tensor in, const Dropout& dropout) { drop<true>(out, in, dropout); }

}  // namespace partita::internal::cuda
