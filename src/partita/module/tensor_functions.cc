#include "partita/module/tensor_functions.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/device_stream.h"
#include "partita/module/deferred_gradients.h"
#include "partita/module/linear_operands.h"
#include "partita/module/placed_operations.h"
#include "partita/nn/split.h"

namespace partita::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Orders what follows on the current stream after the event.
void wait_on(at::Device device, const Event& event) { make_stream(device, StreamUse::compute)->wait(event); }

// After what is on the current stream.
[[nodiscard]] Event start_sum(const at::Tensor& x, const TensorRanks& ranks, Reduce reduce = Reduce::sum) {
  if (x.numel() == 0) return {};
  const auto stream = make_stream(x.device(), StreamUse::compute);
  return ranks.group->all_reduce(x, reduce, *stream);
}

void sum(const at::Tensor& x, const TensorRanks& ranks, Reduce reduce = Reduce::sum) {
  wait_on(x.device(), start_sum(x, ranks, reduce));
}

// A tensor of its own, which may be summed in place.
at::Tensor own_copy(const at::Tensor& x) { return x.clone(at::MemoryFormat::Contiguous); }

at::Tensor rows_of(const at::Tensor& x) { return x.reshape({x.numel() == 0 ? 0 : x.numel() / x.size(-1), x.size(-1)}); }

// How a linear is computed, beyond x W' + b.
struct LinearCall : torch::CustomClassHolder {
  LinearCall(const TensorRanks& group, bool rows, bool columns) : ranks(group), has_rows(rows), has_columns(columns) {}
  TensorRanks ranks;
  bool has_rows;     // W has this rank's rows: the gradient of x is a sum over ranks
  bool has_columns;  // W has this rank's columns: y is a sum over ranks
  std::shared_ptr<DeferredGradients> deferred = deferred_gradients();
};

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const c10::intrusive_ptr<LinearCall>& call) {
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    context->save_for_backward({x, weight});
    context->saved_data["bias"] = bias.has_value();
    const OnOwnPart own;
    at::Tensor y = at::linear(x, weight, bias);
    if (!call->has_columns) return y;
    y = y.contiguous();
    sum(y, call->ranks);
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const OnOwnPart own;
    const auto call = c10::static_intrusive_pointer_cast<LinearCall>(context->saved_data["call"].toCapsule());
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0];
    const at::ScalarType type = dy.scalar_type();  // another one than that of the weight under autocast
    const at::Tensor x = saved[0].to(type), weight = saved[1].to(type);
    at::Tensor dx, d_weight, d_bias;
    Event summed;
    if (context->needs_input_grad(0)) {
      dx = at::matmul(dy, weight);
      if (call->has_rows) {
        dx = dx.contiguous();
        summed = start_sum(dx, call->ranks);
      }
    }
    const auto gradient = [x, dy, of = saved[1].scalar_type()] {
      const OnOwnPart of_weight;
      return at::matmul(rows_of(dy).t(), rows_of(x)).to(of);
    };
    if (call->deferred)
      call->deferred->add(parameter_of(saved[1]), gradient);
    else if (context->needs_input_grad(1))
      d_weight = gradient();
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2)) d_bias = rows_of(dy).sum(0);
    if (dx.defined()) wait_on(dx.device(), summed);
    return {dx.defined() ? dx.to(saved[0].scalar_type()) : dx, d_weight, d_bias, {}};
  }
};

at::Tensor call_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const TensorRanks& ranks,
                       bool has_rows, bool has_columns) {
  auto call = c10::make_intrusive<LinearCall>(ranks, has_rows, has_columns);
  const at::Tensor parameter = weight.requires_grad() ? parameter_of(weight) : at::Tensor();
  if (!parameter.defined()) call->deferred = nullptr;
  // The parameter itself, so that its gradient does not pass through views.
  return Linear::apply(x, parameter.defined() ? parameter : weight, bias.defined() ? std::optional(bias) : std::nullopt,
                       call);
}

struct SumOverRanks : torch::autograd::Function<SumOverRanks> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& part, const TensorRanks& ranks) {
    at::Tensor whole = own_copy(part);
    sum(whole, ranks);
    return whole;
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients[0], {}}; }
};

// The last dimension of all ranks' outputs, in the order of the whole weight's rows.
struct GatherOutputs : torch::autograd::Function<GatherOutputs> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, const ParameterSpec& spec,
                            const TensorRanks& ranks) {
    const int size = ranks.group->size();
    std::vector<std::vector<RowRun>> runs;  // [rank]
    int64_t longest = 0;
    for (int r = 0; r < size; ++r) {
      runs.push_back(runs_of(spec, r, size));
      int64_t count = 0;
      for (const RowRun& run : runs.back()) count += run.count;
      longest = std::max(longest, count);
    }
    std::vector<int64_t> own;
    for (const RowRun& run : runs[static_cast<size_t>(ranks.group->rank())])
      own.insert(own.end(), {run.begin, run.count});
    context->saved_data["runs"] = own;

    const at::Tensor rows = rows_of(part);
    const at::Tensor padded = at::zeros({rows.size(0), longest}, part.options());
    padded.narrow(1, 0, rows.size(1)).copy_(rows);
    const at::Tensor all = at::empty({size, rows.size(0), longest}, part.options());
    if (all.numel() > 0) {
      const auto stream = make_stream(all.device(), StreamUse::compute);
      stream->wait(ranks.group->all_gather(all.view({-1}), padded.view({-1}), *stream));
    }
    std::vector<int64_t> shape = part.sizes().vec();
    shape.back() = spec.shape[0];
    at::Tensor whole = at::empty(shape, part.options());  // not a view, so that it may be added to in place
    const at::Tensor whole_rows = rows_of(whole);
    for (int r = 0; r < size; ++r) {
      int64_t begin = 0;
      for (const RowRun& run : runs[static_cast<size_t>(r)]) {
        whole_rows.narrow(1, run.begin, run.count).copy_(all[r].narrow(1, begin, run.count));
        begin += run.count;
      }
    }
    return whole;
  }

  // Rows of a weight, or elements of a bias.
  static std::vector<RowRun> runs_of(const ParameterSpec& spec, int rank, int size) {
    std::vector<RowRun> runs;
    for (const LocalBox& b : local_boxes(spec, rank, size))
      runs.push_back(spec.shape.size() == 1 ? RowRun{b.box.column, b.box.columns} : RowRun{b.box.row, b.box.rows});
    return runs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const std::vector<int64_t> runs = context->saved_data["runs"].toIntVector();
    std::vector<at::Tensor> parts;
    for (size_t i = 0; i < runs.size(); i += 2) parts.push_back(gradients[0].narrow(-1, runs[i], runs[i + 1]));
    return {at::cat(parts, -1), {}, {}};
  }
};

// S = sum of exp(logits) over all ranks; loss = log S - logit of the label; its gradient is exp(logits) / S - 1 at the
// label. Megatron-LM's vocabulary-parallel loss.
struct DividedCrossEntropy : torch::autograd::Function<DividedCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits, const at::Tensor& labels,
                            int64_t ignored, int64_t first, const TensorRanks& ranks) {
    const int64_t rows = logits.size(0), columns = logits.size(1);
    const at::Tensor counted = labels.ne(ignored);
    const at::Tensor outside = labels.lt(first).logical_or_(labels.ge(first + columns));
    const at::Tensor place = (labels - first).masked_fill_(outside, 0).unsqueeze(1);
    const at::Tensor x = logits.to(at::kFloat);
    at::Tensor largest = columns > 0 ? std::get<0>(x.max(1)) : at::full({rows}, -INFINITY, x.options());
    sum(largest, ranks, Reduce::max);
    at::Tensor probabilities = (x - largest.unsqueeze(1)).exp_();
    at::Tensor label_logit =
        columns > 0 ? x.gather(1, place).squeeze(1).masked_fill_(outside, 0) : at::zeros({rows}, x.options());
    at::Tensor sums = at::stack({probabilities.sum(1), label_logit});
    sum(sums, ranks);
    const at::Tensor loss = (sums[0].log() + largest - sums[1]).masked_fill_(counted.logical_not(), 0);
    probabilities.div_(sums[0].unsqueeze(1));
    context->save_for_backward({probabilities, place, outside, counted});
    context->saved_data["dtype"] = logits.scalar_type();
    return loss;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &probabilities = saved[0], &place = saved[1], &outside = saved[2], &counted = saved[3];
    const at::Tensor scale = (gradients[0] * counted).unsqueeze(1);
    at::Tensor d = probabilities * scale;
    if (d.size(1) > 0) d.scatter_add_(1, place, -scale * outside.logical_not().unsqueeze(1));
    return {d.to(context->saved_data["dtype"].toScalarType()), {}, {}, {}, {}};
  }
};

void require_columns(const at::Tensor& x, const at::Tensor& weight, const TensorPlacement& placement) {
  if (x.dim() > 0 && x.size(-1) == weight.size(1)) return;
  fail("{} is divided over {} tensor-parallel ranks, and its input has {} columns: expected {}{}", placement.spec.name,
       placement.ranks.group->size(), x.dim() > 0 ? x.size(-1) : 0, weight.size(1),
       placement.role == TensorRole::row
           ? fmt::format(", this rank's part of {}, as a linear of role column gives it", placement.spec.shape[1])
           : std::string());
}

}  // namespace

at::Tensor sum_over_ranks(const at::Tensor& part, const TensorRanks& ranks) { return SumOverRanks::apply(part, ranks); }

at::Tensor gather_outputs(const at::Tensor& part, const TensorPlacement& placement) {
  return GatherOutputs::apply(part, placement.spec, placement.ranks);
}

at::Tensor placed_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const TensorPlacement& placement) {
  require_columns(x, weight, placement);
  if (placement.role == TensorRole::row) {
    const at::Tensor y = call_linear(x, weight, {}, placement.ranks, false, true);
    return bias.defined() ? y + bias : y;
  }
  const at::Tensor y = call_linear(x, weight, bias, placement.ranks, true, false);
  return placement.gather ? gather_outputs(y, placement) : y;
}

at::Tensor whole_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return call_linear(x, weight, bias, {}, false, false);
}

at::Tensor placed_embedding(const at::Tensor& table, const at::Tensor& indices, int64_t padding,
                            const TensorPlacement& placement) {
  const Box& box = placement.spec.local.front().box;
  at::_assert_async(
      indices.ge(0).logical_and(indices.lt(placement.spec.shape[0])).all(),
      fmt::format("an index is not in the table {} of {} rows", placement.spec.name, placement.spec.shape[0]));
  const at::Tensor outside = indices.lt(box.row).logical_or(indices.ge(box.row + box.rows));
  const bool pads = padding >= box.row && padding < box.row + box.rows;
  at::Tensor rows;
  {
    const OnOwnPart own;
    rows = at::embedding(table, (indices - box.row).masked_fill(outside, 0), pads ? padding - box.row : -1);
  }
  return sum_over_ranks(rows.masked_fill(outside.unsqueeze(-1), 0), placement.ranks);
}

at::Tensor divided_cross_entropy(const at::Tensor& logits, const at::Tensor& labels, int64_t ignored,
                                 const Vocabulary& vocabulary, const TensorRanks& ranks) {
  at::_assert_async(labels.eq(ignored).logical_or_(labels.ge(0).logical_and(labels.lt(vocabulary.size))).all(),
                    fmt::format("a label is not in the vocabulary of {} tokens", vocabulary.size));
  return DividedCrossEntropy::apply(logits, labels, ignored, vocabulary.first, ranks);
}

}  // namespace partita::internal
