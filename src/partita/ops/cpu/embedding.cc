#include "partita/ops/embedding.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "partita/ops/cpu/check.h"
#include "partita/ops/cpu/targets.h"
#ifdef PARTITA_CUDA
#include "partita/ops/cuda/embedding.h"
#endif
#include "partita/ops/device.h"
#include "partita/ops/operand_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "partita/ops/cpu/embedding.cc"
#include <hwy/foreach_target.h>

#include "partita/ops/cpu/dtype-inl.h"
#include "partita/ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {
namespace {

// The table's row of an index; null: another part of the table has it, or there is no table.
template <class T>
HWY_INLINE const T* row_of(const T* table, const int32_t* indices, int64_t i, int64_t first, int64_t held, int64_t C) {
  if (table == nullptr) return nullptr;
  const int64_t row = indices[i] - first;
  return row >= 0 && row < held ? table + row * C : nullptr;
}

void gather_rows(const at::Tensor& out, const at::Tensor& token_table, const at::Tensor& position_table,
                 const int32_t* tokens, const int32_t* positions, int64_t first_token, int64_t first_position,
                 int64_t begin, int64_t end) {
  const int64_t C = out.size(1), token_count = token_table.size(0);
  const int64_t position_count = position_table.defined() ? position_table.size(0) : 0;
  with_type_of(out, [&]<class T>(T) {
    T* to = out.mutable_data_ptr<T>();
    const T* by_token = token_table.const_data_ptr<T>();
    const T* by_position = position_table.defined() ? position_table.const_data_ptr<T>() : nullptr;
    for (int64_t row = begin; row < end; ++row) {
      const T* a = row_of(by_token, tokens, row, first_token, token_count, C);
      const T* b = row_of(by_position, positions, row, first_position, position_count, C);
      if (a == nullptr) std::swap(a, b);
      if (a == nullptr) {
        std::memset(static_cast<void*>(to + row * C), 0, static_cast<size_t>(C) * sizeof(T));
        continue;
      }
      for_vectors(C, [&](int64_t i, auto part) {
        V x = load(a + i, part);
        if (b != nullptr) x = hn::Add(x, load(b + i, part));
        store(x, to + row * C + i, part);
      });
    }
  });
}

// sum [C] (+)= the listed rows of d, in order.
void sum_rows_into(float* sum, bool accumulate, const at::Tensor& d, const int32_t* rows, int64_t count) {
  const int64_t C = d.size(1);
  with_type_of(d, [&]<class T>(T) {
    const T* from = d.const_data_ptr<T>();
    for_vectors(C, [&](int64_t i, auto part) {
      V x = accumulate ? load(sum + i, part) : hn::Zero(D());
      for (int64_t r = 0; r < count; ++r) x = hn::Add(x, load(from + rows[r] * C + i, part));
      store(x, sum + i, part);
    });
  });
}

}  // namespace
}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace partita::internal {
namespace {

HWY_EXPORT(gather_rows);
HWY_EXPORT(sum_rows_into);

constexpr int64_t kLeastRows = 16;  // minimum per thread

// For each of `held` table rows from row `first` on, the batch rows that read it, ascending: those of row first + r are
// rows[begin[r]] .. rows[begin[r + 1] - 1].
struct Readers {
  Readers(const int32_t* index, int64_t count, int64_t first, int64_t held) : begin(static_cast<size_t>(held) + 1) {
    const auto is_held = [&](int64_t i) { return index[i] >= first && index[i] < first + held; };
    const auto row = [&](int64_t i) { return static_cast<size_t>(index[i] - first); };
    for (int64_t i = 0; i < count; ++i)
      if (is_held(i)) ++begin[row(i) + 1];
    for (size_t r = 1; r < begin.size(); ++r) begin[r] += begin[r - 1];
    rows.resize(static_cast<size_t>(begin.back()));
    std::vector<int64_t> next(begin.begin(), begin.end() - 1);
    for (int64_t i = 0; i < count; ++i)
      if (is_held(i)) rows[static_cast<size_t>(next[row(i)]++)] = static_cast<int32_t>(i);
  }
  std::vector<int64_t> begin;
  std::vector<int32_t> rows;
};

void backward_of_table(const Target& target, const at::Tensor& d_out, const at::Tensor& indices, const char* name,
                       const TableRows& part) {
  if (!target.gradient.defined()) return;
  const int64_t table_rows = target.gradient.size(0), C = d_out.size(1), N = d_out.size(0);
  check_tensor(target.gradient, name, {table_rows, C}, at::kFloat);
  check_indices(indices, name, check_table_rows(part, table_rows, name));
  const Readers readers(indices.const_data_ptr<int32_t>(), N, part.first, table_rows);
  float* gradient = target.gradient.mutable_data_ptr<float>();
  // A table row costs one write plus one read per reader; threads get equal shares of the total.
  const auto cost_before = [&](int64_t r) { return r + readers.begin[static_cast<size_t>(r)]; };
  const auto first_row = [&](int64_t cost) {
    int64_t low = 0, high = table_rows;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      cost_before(middle) < cost ? low = middle + 1 : high = middle;
    }
    return low;
  };
  at::parallel_for(0, cost_before(table_rows), kLeastRows, [&](int64_t begin, int64_t end) {
    for (int64_t r = first_row(begin), last = first_row(end); r < last; ++r) {
      const int64_t first = readers.begin[static_cast<size_t>(r)];
      const int64_t count = readers.begin[static_cast<size_t>(r) + 1] - first;
      if (count == 0 && target.accumulate) continue;
      HWY_DYNAMIC_DISPATCH(sum_rows_into)
      (gradient + r * C, target.accumulate, d_out, readers.rows.data() + first, count);
    }
  });
}

}  // namespace

void embedding_forward(at::Tensor out, at::Tensor tokens, at::Tensor positions, at::Tensor token_table,
                       at::Tensor position_table, TableRows token_rows, TableRows position_rows) {
  PARTITA_DISPATCH(out,
                   embedding_forward(out, tokens, positions, token_table, position_table, token_rows, position_rows));
  const at::ScalarType dtype = check_activation(token_table, "token_table");
  const int64_t N = tokens.numel(), V = token_table.size(0), C = token_table.size(1);
  check_tensor(tokens, "tokens", {tokens.size(0), tokens.size(1)}, at::kInt);
  check_tensor(token_table, "token_table", {V, C}, dtype);
  check_tensor(out, "out", {N, C}, dtype);
  check_indices(tokens, "token", check_table_rows(token_rows, V, "token_table"));
  const int32_t* position = nullptr;
  if (position_table.defined()) {
    check_tensor(position_table, "position_table", {position_table.size(0), C}, dtype);
    check_tensor(positions, "positions", tokens.sizes(), at::kInt);
    check_indices(positions, "position", check_table_rows(position_rows, position_table.size(0), "position_table"));
    position = positions.const_data_ptr<int32_t>();
  }
  const int32_t* token = tokens.const_data_ptr<int32_t>();
  at::parallel_for(0, N, kLeastRows, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gather_rows)
    (out, token_table, position_table, token, position, token_rows.first, position_rows.first, begin, end);
  });
}

void embedding_backward(Target d_token_table, Target d_position_table, at::Tensor d_out, at::Tensor tokens,
                        at::Tensor positions, TableRows token_rows, TableRows position_rows) {
  PARTITA_DISPATCH(
      d_out, embedding_backward(d_token_table, d_position_table, d_out, tokens, positions, token_rows, position_rows));
  const at::ScalarType dtype = check_activation(d_out, "d_out");
  const int64_t N = d_out.size(0), C = d_out.size(1);
  check_tensor(d_out, "d_out", {N, C}, dtype);
  check_tensor(tokens, "tokens", {tokens.size(0), tokens.size(1)}, at::kInt);
  PARTITA_CHECK(tokens.numel() == N, "{} tokens, d_out has {} rows", tokens.numel(), N);
  backward_of_table(d_token_table, d_out, tokens, "token", token_rows);
  if (!d_position_table.gradient.defined()) return;
  check_tensor(positions, "positions", tokens.sizes(), at::kInt);
  backward_of_table(d_position_table, d_out, positions, "position", position_rows);
}

}  // namespace partita::internal
#endif  // HWY_ONCE
