#include "partita/ops/cuda/embedding.h"

#include <ATen/ops/sort.h>

#include "partita/ops/cuda/device.cuh"
#include "partita/ops/cuda/launch.h"
#include "partita/ops/cuda/values.cuh"
#include "partita/ops/cuda/workspace.h"
#include "partita/ops/operand_checks.h"

namespace partita::internal::cuda {
namespace {

// The rows first .. first + count - 1 of a table with `limit` rows.
template <class T>
struct Part {
  const T* data;
  int64_t first, count, limit;
};

template <class T>
struct Gather {
  T* out;
  const int32_t *tokens, *positions;  // positions null: none
  Part<T> token_table, position_table;
  ValueError* error;
  int64_t rows, length, C;
  uint32_t packs;  // in a row
};

// Eight elements of a row of the table from `column` on; 0 if the row is in another part.
template <bool kAligned, class T>
__device__ __forceinline__ void look_up(const Part<T>& table, int64_t row, int64_t C, int64_t column, int64_t count,
                                        float (&x)[8]) {
  row -= table.first;
  Pack<T, 8> pack{};
  if (row >= 0 && row < table.count) pack = load<kAligned, 8>(table.data + row * C + column, count);
  widen(pack, x);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) embedding_kernel(const Gather<T> g) {
  const int64_t pack = int64_t{blockIdx.x} * kThreads + threadIdx.x, row = pack / g.packs;
  if (row >= g.rows) return;
  const int64_t column = 8 * (pack - row * g.packs), count = g.C - column;
  int32_t token = g.tokens[row];
  if (!check_value(token, g.token_table.limit, ValueKind::token, row, g.length, g.error)) token = 0;
  float x[8];
  look_up<kAligned>(g.token_table, token, g.C, column, count, x);
  if (g.positions != nullptr) {
    int32_t position = g.positions[row];
    if (!check_value(position, g.position_table.limit, ValueKind::position, row, g.length, g.error)) position = 0;
    float y[8];
    look_up<kAligned>(g.position_table, position, g.C, column, count, y);
#pragma unroll
    for (int i = 0; i < 8; ++i) x[i] += y[i];
  }
  store<kAligned>(g.out + row * g.C + column, narrow<T>(x), count);
}

// Backward. The rows of d_out, sorted stably by table row, are divided into chunks of kChunk. A block sums the runs in
// its chunk. A run within one chunk is complete; partial sums of a run that spans chunks go to `partial`, and a second
// kernel adds them in order. If the gradient is of a part of the table, the chunks are those of the whole table, so
// that the sums have the same bits; chunks without a row of the part are passed over.
constexpr int kChunk = 32;
constexpr int kInFlight = 4;  // rows in flight per thread

template <class T>
struct Scatter {
  float* gradient;  // [held, C]
  float* partial;   // [chunks, 2, C]: of the run continued from the previous chunk, of the run continued in the next
  const T* d;       // [count, C]
  const int32_t* sorted;          // [count] rows of the whole table, ascending
  const int64_t* order;           // [count] index in d of each
  int64_t count, C, first, held;  // rows first .. first + held - 1 of the table
  bool accumulate;
  [[nodiscard]] __device__ __forceinline__ bool holds(int32_t row) const { return row >= first && row < first + held; }
};

template <bool kAligned, class T>
__device__ __forceinline__ void add_to_row(const Scatter<T>& s, int32_t row, float (&sum)[8], int64_t column,
                                           int64_t width) {
  if (!s.holds(row)) return;
  float* out = s.gradient + (row - s.first) * s.C + column;
  if (s.accumulate) {
    float before[8];
    widen(load<kAligned, 8>(out, width), before);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += before[i];
  }
  store<kAligned>(out, narrow<float>(sum), width);
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) scatter_kernel(const Scatter<T> s) {
  const int64_t column = 8 * (int64_t{blockIdx.y} * blockDim.x + threadIdx.x), width = s.C - column;
  if (width <= 0) return;
  const int64_t begin = int64_t{blockIdx.x} * kChunk, end = min(begin + kChunk, s.count);
  if (s.sorted[end - 1] < s.first || s.sorted[begin] >= s.first + s.held) return;
  float* partial = s.partial + 2 * blockIdx.x * s.C + column;
  const bool from_before = begin > 0 && s.sorted[begin - 1] == s.sorted[begin];
  int32_t row = s.sorted[begin];
  bool first_run = true;
  float sum[8] = {};
  for (int64_t i = begin; i < end; i += kInFlight) {
    Pack<T, 8> d[kInFlight];
    int32_t rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (i + k >= end) continue;
      rows[k] = s.sorted[i + k];
      d[k] = load<kAligned, 8>(s.d + s.order[i + k] * s.C + column, width);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (i + k >= end) continue;
      if (rows[k] != row) {  // the run ends within the chunk
        if (first_run && from_before)
          store<kAligned>(partial, narrow<float>(sum), width);
        else
          add_to_row<kAligned>(s, row, sum, column, width);
        row = rows[k], first_run = false;
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] = 0;
      }
      float x[8];
      widen(d[k], x);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] += x[j];
    }
  }
  const bool goes_on = end < s.count && s.sorted[end] == row;
  if (first_run && from_before)
    store<kAligned>(partial, narrow<float>(sum), width);
  else if (goes_on)
    store<kAligned>(partial + s.C, narrow<float>(sum), width);
  else
    add_to_row<kAligned>(s, row, sum, column, width);
}

// One block per chunk: if a run starts in the chunk and continues, its parts are added up.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kThreads) join_kernel(const Scatter<T> s) {
  const int64_t column = 8 * (int64_t{blockIdx.y} * blockDim.x + threadIdx.x), width = s.C - column;
  if (width <= 0) return;
  const int64_t begin = int64_t{blockIdx.x} * kChunk;
  int64_t end = begin + kChunk;
  if (end >= s.count) return;
  const int32_t row = s.sorted[end];
  if (!s.holds(row)) return;
  const bool begins_here = s.sorted[begin] != row || begin == 0 || s.sorted[begin - 1] != row;
  if (s.sorted[end - 1] != row || !begins_here) return;
  float sum[8];
  widen(load<kAligned, 8>(s.partial + (2 * int64_t{blockIdx.x} + 1) * s.C + column, width), sum);
  for (int64_t chunk = blockIdx.x + 1; end < s.count && s.sorted[end] == row; ++chunk, end += kChunk) {
    float part[8];
    widen(load<kAligned, 8>(s.partial + 2 * chunk * s.C + column, width), part);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum[i] += part[i];
  }
  add_to_row<kAligned>(s, row, sum, column, width);
}

void backward_of_table(const Target& target, const at::Tensor& d_out, const at::Tensor& indices, const char* name,
                       const TableRows& part) {
  if (!target.gradient.defined()) return;
  const int64_t held = target.gradient.size(0), N = d_out.size(0), C = d_out.size(1);
  check_tensor(target.gradient, name, {held, C}, at::kFloat);
  check_table_rows(part, held, name);
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  float* gradient = target.gradient.mutable_data_ptr<float>();
  if (!target.accumulate && held * C > 0)
    PARTITA_CUDA_CHECK(cudaMemsetAsync(gradient, 0, static_cast<size_t>(held * C) * sizeof(float), stream));
  if (N * C == 0 || held == 0) return;
  const auto [sorted, order] = at::sort(indices.reshape({N}), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const int64_t chunks = divide_up(N, kChunk);
  // The columns of a chunk are divided among blocks of 32 to 256 threads, one pack per thread.
  const int64_t packs = divide_up(C, 8), tiles = divide_up(packs, kThreads);
  const int64_t threads = divide_up(divide_up(packs, tiles), kWarp) * kWarp;
  const dim3 grid(static_cast<unsigned>(chunks), static_cast<unsigned>(divide_up(packs, threads)));
  auto* partial = reinterpret_cast<float*>(workspace(chunks * 2 * C * static_cast<int64_t>(sizeof(float))));
  with_type(d_out.scalar_type(), [&]<class T>(T) {
    const Scatter<T> arguments{.gradient = gradient,
                               .partial = partial,
                               .d = d_out.const_data_ptr<T>(),
                               .sorted = sorted.template const_data_ptr<int32_t>(),
                               .order = order.template const_data_ptr<int64_t>(),
                               .count = N,
                               .C = C,
                               .first = part.first,
                               .held = held,
                               .accumulate = target.accumulate};
    with_bool(C % 8 == 0 && aligned(d_out, target.gradient), [&]<class Aligned>(Aligned) {
      scatter_kernel<T, Aligned::value><<<grid, static_cast<unsigned>(threads), 0, stream>>>(arguments);
      join_kernel<T, Aligned::value><<<grid, static_cast<unsigned>(threads), 0, stream>>>(arguments);
    });
  });
  PARTITA_LAUNCHED();
}

}  // namespace

void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table, TableRows token_rows, TableRows position_rows) {
  const at::ScalarType dtype = check_activation(token_table, "token_table");
  const int64_t N = tokens.numel(), V = token_table.size(0), C = token_table.size(1);
  check_tensor(tokens, "tokens", {tokens.size(0), tokens.size(1)}, at::kInt);
  check_tensor(token_table, "token_table", {V, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  const int64_t P = position_table.defined() ? position_table.size(0) : 0;
  const int64_t all_tokens = check_table_rows(token_rows, V, "token_table");
  int64_t all_positions = 0;
  if (position_table.defined()) {
    check_tensor(position_table, "position_table", {P, C}, dtype);
    check_tensor(positions, "positions", tokens.sizes(), at::kInt);
    all_positions = check_table_rows(position_rows, P, "position_table");
  }
  if (N * C == 0) return;
  PARTITA_CHECK(all_tokens > 0 && (all_positions > 0 || !position_table.defined()), "a table without rows");
  const auto packs = static_cast<uint32_t>(divide_up(C, 8));
  with_type(dtype, [&]<class T>(T) {
    const Gather<T> arguments{
        .out = out.mutable_data_ptr<T>(),
        .tokens = tokens.const_data_ptr<int32_t>(),
        .positions = position_table.defined() ? positions.const_data_ptr<int32_t>() : nullptr,
        .token_table = {token_table.const_data_ptr<T>(), token_rows.first, V, all_tokens},
        .position_table = {data_or_null<T>(position_table), position_rows.first, P, all_positions},
        .error = value_error(),
        .rows = N,
        .length = tokens.size(1),
        .C = C,
        .packs = packs};
    with_bool(C % 8 == 0 && aligned(out, token_table, position_table), [&]<class Aligned>(Aligned) {
      embedding_kernel<T, Aligned::value>
          <<<blocks_for(N * packs), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(arguments);
    });
  });
  PARTITA_LAUNCHED();
}

void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions, TableRows token_rows, TableRows position_rows) {
  const at::ScalarType dtype = check_activation(d_out, "d_out");
  const int64_t N = d_out.size(0), C = d_out.size(1);
  check_tensor(d_out, "d_out", {N, C}, dtype);
  check_tensor(tokens, "tokens", {tokens.size(0), tokens.size(1)}, at::kInt);
  PARTITA_CHECK(tokens.numel() == N, "{} tokens, d_out has {} rows", tokens.numel(), N);
  backward_of_table(d_token_table, d_out, tokens, "d_token_table", token_rows);
  if (!d_position_table.gradient.defined()) return;
  check_tensor(positions, "positions", tokens.sizes(), at::kInt);
  backward_of_table(d_position_table, d_out, positions, "d_position_table", position_rows);
}

}  // namespace partita::internal::cuda
