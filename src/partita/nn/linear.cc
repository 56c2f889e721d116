#include "partita/nn/linear.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "partita/nn/layer.h"
#include "partita/nn/linear_scratch.h"
#include "partita/nn/tensor_parallel.h"
#include "partita/ops/activation.h"
#include "partita/ops/fp8.h"
#include "partita/ops/matmul.h"

namespace partita::internal {
Linear::Linear(LinearSpec spec, int64_t layer, const LoraOptions& lora, LinearIndices& next)
    : spec_(std::move(spec)), layer_(layer), lora_(lora), tensor_(next.tensor), scratch_(next.scratch) {
  const int linear = next.linear++;
  const std::vector<LocalBox> held = boxes(tensor_.rank);
  if (next.fp8)
    fp8_.emplace(Fp8Linear::Sizes{.in = held.front().box.columns, .out = count_rows(held), .fit = fits_fp8()}, split(),
                 spec_.measured,
                 Fp8Linear::Indices{.scratch = scratch_ + adapter_scratch(lora) + row_scratch_count(tensor_),
                                    .scales = next.scales,
                                    .linear = linear,
                                    .transposed = next.slot++});
  if (lora.rank == 0) return;
  const auto is_adapted = [&](const char* name) { return std::ranges::find(lora.parts, name) != lora.parts.end(); };
  const auto add = [&](const ParameterPart& part, int64_t begin, int64_t rows) {
    if (!is_adapted(part.name)) return;
    adapters_.push_back({.part = part,
                         .begin = begin,
                         .rows = rows,
                         .a = next.parameter,
                         .b = next.parameter + 1,
                         .slot = next.slot,
                         .site = adapter_dropout_site(layer, next.adapter)});
    next.parameter += 2;
    ++next.slot;
    ++next.adapter;
  };
  if (spec_.adapter != nullptr) {
    add({.name = spec_.adapter, .rows = all_rows()}, 0, out());
    return;
  }
  int64_t begin = 0;
  for (size_t p = 0; p < held.size(); ++p) {
    add(spec_.parts[p], begin, held[p].box.rows);
    begin += held[p].box.rows;
  }
}

std::vector<LocalBox> Linear::boxes(int rank) const {
  const ParameterSpec weight{
      .name = spec_.parts.front().name, .shape = {all_rows(), spec_.in}, .split = spec_.split, .parts = spec_.parts};
  return is_replicated() ? local_boxes(weight, 0, 1) : local_boxes(weight, rank, tensor_.ranks);
}

int64_t Linear::count_rows(const std::vector<LocalBox>& held) {
  int64_t rows = 0;
  for (const LocalBox& local : held) rows += local.box.rows;
  return rows;
}

bool Linear::fits_fp8() const {
  for (int rank = 0; rank < tensor_.ranks; ++rank)
    if (const auto held = boxes(rank); !fp8_fits(0, held.front().box.columns, count_rows(held))) return false;
  return true;
}

void Linear::add_parameters(std::vector<ParameterSpec>& list) const {
  ParameterSpec& weight = list[static_cast<size_t>(spec_.weight)];
  weight.split = split();
  weight.parts = spec_.parts;
  for (const Adapter& adapter : adapters_) {
    const std::string name = layer_parameter(layer_, adapter.part.name);
    // Variance of the authors' uniform(-1/sqrt(in), 1/sqrt(in)). B is zero, so that training starts from the base
    // model.
    const Init init{.mean = 0, .std = 1 / std::sqrt(3.0 * static_cast<double>(spec_.in))};
    ParameterSpec a{
        .name = name + ".lora_a", .shape = {lora_.rank, spec_.in}, .init = init, .decay = true, .adapter = true};
    ParameterSpec b{.name = name + ".lora_b",
                    .shape = {adapter.part.rows, lora_.rank},
                    .init = {.mean = 0, .std = 0},
                    .decay = true,
                    .adapter = true};
    if (split() == Split::columns) {  // A is split like the columns of W, B like its rows
      a.split = Split::columns;
      a.parts = {{.name = adapter.part.name,
                  .rows = lora_.rank,
                  .quantum = adapter.part.quantum,
                  .inner = adapter.part.inner}};
    } else if (split() == Split::rows) {
      b.split = Split::rows;
      b.parts = spec_.adapter == nullptr ? std::vector<ParameterPart>{adapter.part} : spec_.parts;
    }
    list.push_back(std::move(a));
    list.push_back(std::move(b));
  }
}

void Linear::split_bias(ParameterSpec& bias) const {
  if (split() != Split::rows) return;
  bias.split = Split::rows;
  bias.parts = spec_.parts;
}

int64_t Linear::all_rows() const {
  int64_t rows = 0;
  for (const ParameterPart& part : spec_.parts) rows += part.rows;
  return rows;
}

TensorParallel::Gathering Linear::start_gather(const at::Tensor& stream, const Context& context) const {
  if (context.tensor == nullptr) return {.own = stream, .rows = stream, .arrived = {}};
  return context.tensor->start_gather(stream, internal::all_rows(context));
}

at::Tensor Linear::gather_rows(at::Tensor stream, const Context& context) const {
  const TensorParallel::Gathering gathering = start_gather(stream, context);
  if (context.tensor != nullptr) context.tensor->wait(gathering);
  return gathering.rows;
}

at::Tensor Linear::gather_rows(const at::Tensor& stream, const Context& context, bool again, const UseRows& use) const {
  const TensorParallel::Gathering gathering = start_gather(stream, context);
  const at::Tensor& all = gathering.rows;
  const TensorSplit::Pieces pieces = pieces_of(all.size(0), context);
  const bool arrives = !all.is_same(stream), whole = pieces.others.empty();
  if (arrives && whole) context.tensor->wait(gathering);
  use(pieces.own, arrives && !whole ? stream : rows_of(all, pieces.own));
  if (arrives && !whole) again ? context.tensor->wait(gathering) : context.tensor->wait_for_others(gathering);
  for (const RowRun& run : pieces.others) use(run, rows_of(all, run));
  return again ? all : at::Tensor();
}

at::Tensor Linear::partial(const at::Tensor& out, int64_t rows, const Context& context) const {
  if (context.tensor == nullptr || !context.tensor->split().splits_rows(rows)) return out;
  return shaped(context.scratch[static_cast<size_t>(scratch_ + adapter_scratch(lora_) + kPartial)], rows, out.size(1));
}

std::optional<RowSum> Linear::start_sum(const at::Tensor& partial, const Context& context) const {
  if (context.tensor == nullptr) return {};
  return RowSum(*context.tensor, partial);
}

TensorSplit::Pieces Linear::pieces_of(int64_t rows, const Context& context) const {
  if (context.tensor == nullptr) return {.own = {0, rows}, .others = {}};
  return tensor_.pieces(rows, is_fp8(rows) ? kFp8Quantum : 1);
}

void Linear::use_rows(int64_t rows, std::optional<RowSum>& sum, bool send, const Context& context,
                      const std::function<void(const RowRun&)>& use) const {
  const TensorSplit::Pieces pieces = pieces_of(rows, context);
  for (const RowRun& run : pieces.others) use(run);
  if (sum && send && !pieces.others.empty()) sum->others_ready();
  use(pieces.own);
  if (sum && send) sum->all_ready();
}

void Linear::add_saved(const Shape& shape, DType dtype, std::vector<BufferSpec>& list) const {
  if (fp8_)
    list.push_back(fp8_->transposed_input(
        shape.rows(), keeps_transposed(shape.rows()) ? std::optional(Recompute::none) : std::nullopt));
  for (size_t i = 0; i < adapters_.size(); ++i)
    list.push_back({"adapter", {shape.rows(), lora_.rank}, dtype, Recompute::mlp});
}

void Linear::add_operands(int64_t rows, DType dtype, bool trained, bool d_y_stays, bool x_stays,
                          std::vector<BufferSpec>& list) const {
  if (!trained || is_fp8(rows)) return;  // fp8 weight gradients are computed at once
  const bool gathers = tensor_.splits_rows(rows) && !is_replicated();
  const int64_t in = boxes(tensor_.rank).front().box.columns, n = is_replicated() ? tensor_.part(rows).count : rows;
  if (!d_y_stays || (gathers && !by_rows())) list.push_back({"d_y", {n, out()}, dtype});
  if (!x_stays || (gathers && by_rows())) list.push_back({"x", {n, in}, dtype});
}

bool Linear::kept_input(const Saved& saved, int input, int64_t rows) const {
  return keeps_transposed(rows) ? fp8_->keeps_transposed(saved) : saved.kept[static_cast<size_t>(input)];
}

at::Tensor Linear::input_amax(const Context& context, const Saved& saved, int64_t rows) const {
  return is_fp8(rows) ? fp8_->input_amax(context, saved) : at::Tensor();
}

at::Tensor Linear::gradient_scale(const Context& context, const Saved& saved, int64_t rows) const {
  return is_fp8(rows) ? fp8_->gradient_scale(context, saved) : at::Tensor();
}

at::Tensor Linear::gradient_amax(const Context& context, const Saved& saved, int64_t rows) const {
  const at::Tensor whole = gradient_scale(context, saved, rows);
  return whole.defined() ? whole.narrow(0, kFp8Expected, 1) : at::Tensor();
}

void Linear::keep_input(at::Tensor x, const Context& context, Saved& saved) const {
  const int64_t rows = context.tensor == nullptr ? x.size(0) : internal::all_rows(context);
  if (keeps_transposed(rows)) fp8_->save_input(x, context, saved);  // x has all rows
}

Dropout Linear::dropout_of(const Adapter& adapter, const Context& context) const {
  Dropout dropout = dropout_at(lora_.dropout, adapter.site, context);
  if (by_rows() || tensor_.ranks == 1 || is_replicated()) return dropout;
  dropout.columns = spec_.in;
  dropout.first_column = boxes(tensor_.rank).front().box.column;
  return dropout;
}

at::Tensor Linear::dropped(const Adapter& adapter, at::Tensor x, Context& context, int64_t first_row) const {
  Dropout dropout = dropout_of(adapter, context);
  if (dropout.p == 0) return x;
  if (is_replicated()) dropout.rows = internal::all_rows(context), dropout.first_row = first_row;
  const at::Tensor out = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], x.size(0), x.size(1));
  dropout_forward(out, x, dropout);
  return out;
}

bool Linear::saves_input(int64_t rows, const Context& context, const Saved& saved, bool recomputing) const {
  return keeps_transposed(rows) && context.mode == Mode::train && (recomputing || fp8_->keeps_transposed(saved));
}

void Linear::forward(Weights w, at::Tensor y, at::Tensor x, Context& context, Saved& saved, bool recomputing) const {
  const auto parameter = [&](int place) { return w[static_cast<size_t>(place)]; };
  const at::Tensor bias = spec_.bias >= 0 ? parameter(spec_.bias) : at::Tensor();
  const int64_t rows = context.tensor == nullptr ? x.size(0) : internal::all_rows(context);
  if (is_replicated() && !by_rows()) return forward_replicated(w, y, x, rows, context, saved, recomputing);
  const at::Tensor own = by_rows() ? y : partial(y, rows, context);
  std::optional<RowSum> sum;
  if (!by_rows()) sum = start_sum(own, context);
  const bool send = adapters_.empty();  // they add to what is sent
  if (is_fp8(rows)) {
    x = forward_fp8(parameter(spec_.weight), bias, own, x, sum, context, saved, recomputing);
  } else if (by_rows()) {
    x = gather_rows(x, context, !adapters_.empty(), [&](const RowRun& run, const at::Tensor& part) {
      linear_forward(rows_of(own, run), part, parameter(spec_.weight), bias);
    });
  } else {
    use_rows(rows, sum, send, context, [&](const RowRun& run) {
      linear_forward(rows_of(own, run), rows_of(x, run), parameter(spec_.weight), bias);
    });
  }
  for (const Adapter& adapter : adapters_) {
    linear_forward(saved[adapter.slot], dropped(adapter, x, context), parameter(adapter.a));
    linear_add(own.narrow(1, adapter.begin, adapter.rows), saved[adapter.slot], parameter(adapter.b), lora_.scale);
  }
  if (!sum) return;
  if (!send) sum->all_ready();
  sum->finish(y);
}

at::Tensor Linear::forward_fp8(const at::Tensor& w, const at::Tensor& bias, const at::Tensor& y, const at::Tensor& x,
                               std::optional<RowSum>& sum, const Context& context, const Saved& saved,
                               bool recomputing) const {
  const int64_t rows = y.size(0);
  const bool transposed = saves_input(rows, context, saved, recomputing);
  const auto multiply = [&](const RowRun& run) { fp8_->multiply_input(rows_of(y, run), run, bias, context, saved); };
  if (by_rows()) {
    const bool here = x.size(0) == rows;
    bool begun = false;
    // Rows of other ranks are on their way when the scales are exchanged.
    return gather_rows(x, context, !adapters_.empty(), [&](const RowRun& run, const at::Tensor& part) {
      if (!std::exchange(begun, true)) {
        fp8_->set_scales(x, w, rows, context, saved, recomputing);
        if (here) fp8_->quantize_input(x, {0, rows}, transposed, context, saved, recomputing);
      }
      if (!here) fp8_->quantize_input(part, run, false, context, saved, recomputing);
      multiply(run);
    });
  }
  fp8_->set_scales(x, w, rows, context, saved, recomputing);
  fp8_->quantize_input(x, {0, rows}, transposed, context, saved, recomputing);
  use_rows(rows, sum, adapters_.empty(), context, multiply);
  return x;
}

void Linear::backward_fp8(const at::Tensor& w, const at::Tensor& d_x, at::Tensor& d_y, at::Tensor& x,
                          std::optional<RowSum>& sum, const Context& context, const Saved& saved, Grads& grads,
                          at::Tensor d_scale) const {
  const int64_t rows = d_x.size(0);
  const Target d_w = grads.target(spec_.weight);
  const bool trained = d_w.gradient.defined();
  const auto multiply = [&](const RowRun& run) {
    fp8_->multiply_gradient(rows_of(d_x, run), run, d_scale, context, saved);
  };
  if (by_rows()) {  // x arrives under the matmul of d_x, which is summed under that of the weight
    const TensorParallel::Gathering gathering = start_gather(x, context);
    d_scale = fp8_->set_gradient_scale(d_y, w, rows, context, saved, std::move(d_scale));
    fp8_->quantize_gradient(d_y, {0, rows}, trained, d_scale, context);
    use_rows(rows, sum, adapters_.empty(), context, multiply);
    if (context.tensor != nullptr) context.tensor->wait(gathering);
    x = gathering.rows;
  } else {
    const at::Tensor given = d_y;
    const bool here = d_y.size(0) == rows;
    bool begun = false, transposed = here;
    d_y = gather_rows(d_y, context, true, [&](const RowRun& run, const at::Tensor& part) {
      if (!std::exchange(begun, true)) {
        d_scale = fp8_->set_gradient_scale(given, w, rows, context, saved, std::move(d_scale));
        if (here) fp8_->quantize_gradient(given, {0, rows}, trained, d_scale, context);
      }
      transposed = transposed || run.count == rows;
      if (!here) fp8_->quantize_gradient(part, run, trained && transposed, d_scale, context);
      multiply(run);
    });
    if (trained && !transposed) fp8_->transpose_gradient(d_y, d_scale, context);
  }
  if (spec_.bias >= 0) bias_backward(d_y, grads.target(spec_.bias));
  if (trained && !keeps_transposed(rows)) fp8_->save_input(x, context, saved);
  if (trained) fp8_->weight_gradient(d_w, d_scale, context, saved);
}

void Linear::recompute(Weights w, at::Tensor x, Context& context, Saved& saved) const {
  if (adapters_.empty()) return;
  if (by_rows()) x = gather_rows(x, context);
  for (const Adapter& adapter : adapters_)
    linear_forward(saved[adapter.slot], dropped(adapter, x, context), w[static_cast<size_t>(adapter.a)]);
}

void Linear::backward(Weights w, at::Tensor d_x, at::Tensor d_y, at::Tensor x, Context& context, Saved& saved,
                      Grads& grads, at::Tensor d_scale) const {
  const int64_t rows = context.tensor == nullptr ? x.size(0) : internal::all_rows(context);
  if (is_replicated()) return backward_replicated(w, d_x, d_y, x, rows, context, saved, grads, std::move(d_scale));
  const at::Tensor own = by_rows() ? partial(d_x, rows, context) : d_x;
  const at::Tensor& weight = w[static_cast<size_t>(spec_.weight)];
  std::optional<RowSum> sum;
  if (by_rows()) sum = start_sum(own, context);
  const bool send = adapters_.empty();  // they add to what is sent
  if (is_fp8(rows)) {
    backward_fp8(weight, own, d_y, x, sum, context, saved, grads, std::move(d_scale));
  } else if (context.tensor == nullptr) {  // d_x may alias x
    if (spec_.bias >= 0) bias_backward(d_y, grads.target(spec_.bias));
    grads.matmul(spec_.weight, d_y, x);
    linear_backward_input(own, d_y, weight);
  } else if (by_rows()) {  // x arrives under the matmul of d_x, which is summed under that of the weight
    const TensorParallel::Gathering gathering = start_gather(x, context);
    use_rows(rows, sum, send, context,
             [&](const RowRun& run) { linear_backward_input(rows_of(own, run), rows_of(d_y, run), weight); });
    if (spec_.bias >= 0) bias_backward(d_y, grads.target(spec_.bias));
    context.tensor->wait(gathering);
    x = gathering.rows;
    grads.matmul(spec_.weight, d_y, x);
  } else {
    d_y = gather_rows(d_y, context, true, [&](const RowRun& run, const at::Tensor& part) {
      linear_backward_input(rows_of(own, run), part, weight);
    });
    grads.matmul(spec_.weight, d_y, x);
  }
  for (const Adapter& adapter : adapters_) {
    const at::Tensor &a = w[static_cast<size_t>(adapter.a)], &b = w[static_cast<size_t>(adapter.b)];
    const at::Tensor d_part = d_y.narrow(1, adapter.begin, adapter.rows);
    const at::Tensor d_low = shaped(context.scratch[static_cast<size_t>(scratch_ + kLow)], rows, lora_.rank);
    grads.matmul(adapter.b, d_part, saved[adapter.slot], lora_.scale);
    linear_backward_input(d_low, d_part, b, lora_.scale);
    grads.matmul(adapter.a, d_low, dropped(adapter, x, context));
    const Dropout dropout = dropout_of(adapter, context);
    if (dropout.p == 0) {
      linear_backward_input(own, d_low, a, 1, true);
    } else {
      const at::Tensor d_dropped = shaped(context.scratch[static_cast<size_t>(scratch_ + kWide)], rows, x.size(1));
      linear_backward_input(d_dropped, d_low, a);
      dropout_add(own, d_dropped, dropout);
    }
  }
  if (!sum) return;
  if (!send) sum->all_ready();
  sum->finish(d_x);
}

void add_linear_scratch(const LoraOptions& lora, const LinearIndices& indices, const Shape& shape,
                        const LinearSizes& sizes, DType dtype, std::vector<BufferSpec>& list) {
  const int64_t rows = shape.rows();
  if (lora.rank > 0) {
    list.push_back({"low", {rows * lora.rank}, dtype});
    list.push_back({"wide", {lora.dropout > 0 ? rows * sizes.widest_in : 0}, dtype});
  }
  if (indices.tensor.sequence) {
    const int64_t split = indices.tensor.splits_rows(rows) ? rows : 0;
    list.push_back({"partial", {split, sizes.stream}, dtype});
  }
  if (indices.fp8) Fp8Linear::add_scratch(rows, sizes.widest_in, sizes.widest_out, sizes.largest, list);
}

}  // namespace partita::internal
