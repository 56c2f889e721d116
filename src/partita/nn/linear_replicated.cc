// Linears of which every tensor-parallel rank has the whole weight.
#include <utility>

#include "partita/nn/layer.h"
#include "partita/nn/linear.h"
#include "partita/nn/linear_scratch.h"
#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/matmul.h"

namespace partita::internal {
namespace {

at::Tensor rows_from(const at::Tensor& matrix, const RowRun& run, int64_t first) {
  return matrix.narrow(0, run.begin - first, run.count);
}

}  // namespace

void Linear::own_rows_fp8(const at::Tensor& out, int64_t rows, const Context& context,
                          const std::function<void(const at::Tensor&, const RowRun&)>& use) const {
  const std::vector<RowRun> parts = tensor_.stream_parts(rows);
  const int64_t first = tensor_.first_row(rows);
  if (tensor_.part(rows).count % kFp8Quantum == 0) {
    for (const RowRun& run : parts) use(rows_from(out, run, first), run);
    return;
  }
  const at::Tensor all = partial(out, rows, context);
  use(all, {0, rows});
  if (!all.is_same(out)) out.copy_(all.narrow(0, first, out.size(0)));
}

// y: this rank's rows of the residual stream; x: all rows.
void Linear::forward_replicated(Weights w, const at::Tensor& y, const at::Tensor& x, int64_t rows, Context& context,
                                Saved& saved, bool recomputing) const {
  const auto parameter = [&](int place) { return w[static_cast<size_t>(place)]; };
  const at::Tensor bias = spec_.bias >= 0 ? parameter(spec_.bias) : at::Tensor();
  const int64_t first = tensor_.first_row(rows);
  if (is_fp8(rows)) {
    fp8_->set_scales(x, parameter(spec_.weight), rows, context, saved, recomputing);
    fp8_->quantize_input(x, {0, rows}, saves_input(rows, context, saved, recomputing), context, saved, recomputing);
    own_rows_fp8(y, rows, context, [&](const at::Tensor& out, const RowRun& run) {
      fp8_->multiply_input(out, run, bias, context, saved);
    });
  } else {
    for (const RowRun& run : tensor_.stream_parts(rows))
      linear_forward(rows_from(y, run, first), rows_of(x, run), parameter(spec_.weight), bias);
  }
  for (const Adapter& adapter : adapters_) {
    linear_forward(saved[adapter.slot], dropped(adapter, x, context), parameter(adapter.a));
    for (const RowRun& run : tensor_.stream_parts(rows))
      linear_add(rows_from(y, run, first).narrow(1, adapter.begin, adapter.rows), rows_of(saved[adapter.slot], run),
                 parameter(adapter.b), lora_.scale);
  }
}

void Linear::backward_replicated(Weights w, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x,
                                 int64_t rows, Context& context, Saved& saved, Grads& grads, at::Tensor d_scale) const {
  // The rows at which x, d_y and d_x begin: one side is in the residual stream.
  const int64_t first = tensor_.first_row(rows), first_x = by_rows() ? first : 0, first_y = by_rows() ? 0 : first;
  const RowRun mine = tensor_.part(rows);  // none, if there are fewer rows than ranks: then nothing is written
  const std::vector<RowRun> parts = by_rows() ? tensor_.stream_parts(rows) : std::vector<RowRun>{{0, rows}};
  const at::Tensor& weight = w[static_cast<size_t>(spec_.weight)];
  at::Tensor all_d_y = d_y;
  if (is_fp8(rows)) {
    backward_replicated_fp8(w, d_x, d_y, x, rows, context, saved, grads, std::move(d_scale));
    if (!by_rows() && !adapters_.empty()) all_d_y = gather_rows(d_y, context);
  } else {
    if (by_rows())
      for (const RowRun& run : parts) linear_backward_input(rows_from(d_x, run, first), rows_of(d_y, run), weight);
    else
      all_d_y = gather_rows(d_y, context, !adapters_.empty(), [&](const RowRun& run, const at::Tensor& part) {
        linear_backward_input(rows_of(d_x, run), part, weight);
      });
    if (mine.count > 0) grads.matmul(spec_.weight, rows_from(d_y, mine, first_y), rows_from(x, mine, first_x));
  }
  if (spec_.bias >= 0 && mine.count > 0) bias_backward(rows_from(d_y, mine, first_y), grads.target(spec_.bias));

  const at::Tensor wide = adapters_.empty() ? at::Tensor() : context.scratch[static_cast<size_t>(scratch_ + kWide)];
  for (const Adapter& adapter : adapters_) {
    const at::Tensor &a = w[static_cast<size_t>(adapter.a)], &b = w[static_cast<size_t>(adapter.b)];
    const at::Tensor low = shaped(context.scratch[static_cast<size_t>(scratch_ + kLow)], rows, lora_.rank);
    for (const RowRun& run : parts)
      linear_backward_input(rows_of(low, run), rows_of(all_d_y, run).narrow(1, adapter.begin, adapter.rows), b,
                            lora_.scale);
    if (mine.count > 0) {
      grads.matmul(adapter.b, rows_of(all_d_y, mine).narrow(1, adapter.begin, adapter.rows),
                   rows_of(saved[adapter.slot], mine), lora_.scale);
      grads.matmul(adapter.a, rows_of(low, mine), dropped(adapter, rows_from(x, mine, first_x), context, mine.begin));
    }
    Dropout dropout = dropout_of(adapter, context);
    for (const RowRun& run : parts) {
      const at::Tensor out = rows_from(d_x, run, first_x);
      if (dropout.p == 0) {
        linear_backward_input(out, rows_of(low, run), a, 1, true);
        continue;
      }
      const at::Tensor d_dropped = shaped(wide, run.count, spec_.in);
      linear_backward_input(d_dropped, rows_of(low, run), a);
      dropout.rows = rows, dropout.first_row = run.begin;
      dropout_add(out, d_dropped, dropout);
    }
  }
}

// The first rank computes the whole gradient of W: fp8 matmuls need multiples of 16 rows, which an equal part may not
// have.
void Linear::backward_replicated_fp8(Weights w, const at::Tensor& d_x, const at::Tensor& d_y, const at::Tensor& x,
                                     int64_t rows, const Context& context, const Saved& saved, Grads& grads,
                                     at::Tensor d_scale) const {
  const bool computes = tensor_.rank == 0 && grads.trains(spec_.weight);
  const TensorParallel::Gathering gathering = start_gather(by_rows() ? x : d_y, context);
  d_scale =
      fp8_->set_gradient_scale(d_y, w[static_cast<size_t>(spec_.weight)], rows, context, saved, std::move(d_scale));
  context.tensor->wait(gathering);
  const at::Tensor& all_x = by_rows() ? gathering.rows : x;
  const at::Tensor& all_d_y = by_rows() ? d_y : gathering.rows;
  fp8_->quantize_gradient(all_d_y, {0, rows}, computes, d_scale, context);
  if (by_rows())
    own_rows_fp8(d_x, rows, context, [&](const at::Tensor& out, const RowRun& run) {
      fp8_->multiply_gradient(out, run, d_scale, context, saved);
    });
  else
    fp8_->multiply_gradient(d_x, {0, rows}, d_scale, context, saved);
  if (!computes) return;
  if (!keeps_transposed(rows)) fp8_->save_input(all_x, context, saved);
  fp8_->weight_gradient(grads.target(spec_.weight), d_scale, context, saved);
}

}  // namespace partita::internal
