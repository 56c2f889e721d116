#include "partita/module/pipeline.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "partita/base/error.h"
#include "partita/device/device_stream.h"
#include "partita/engine/pipeline_stage.h"
#include "partita/module/gradient_hooks.h"
#include "partita/module/operand_key.h"
#include "partita/module/stage_pass.h"
#include "partita/module/tensor_messages.h"
#include "partita/pipeline/balance.h"
#include "partita/pipeline/placement.h"
#include "partita/pipeline/schedules.h"

namespace partita {
using namespace internal;
namespace {

int virtual_stages_of(const PipelineOptions& options) {
  return options.virtual_stages != 0 ? options.virtual_stages : default_chunks(options.schedule);
}

// [stage]: its first part; and the number of parts at the end.
std::vector<int> cut(const std::vector<PipelinePart>& parts, const std::vector<int>& given, int stages) {
  if (std::ssize(parts) < stages)
    fail("Pipeline: {} parts for {} stages, expected at least one part for each", parts.size(), stages);
  if (given.empty()) {
    std::vector<double> times;
    for (const PipelinePart& part : parts) times.push_back(part.time);
    return balance_stages(times, stages).first;
  }
  std::vector<int> first{0};
  for (const int count : given) {
    if (count < 1) fail("Pipeline: a stage of {} parts, expected at least 1", count);
    first.push_back(first.back() + count);
  }
  if (std::ssize(given) != stages || first.back() != std::ssize(parts))
    fail("Pipeline: {} stages of {} parts in all, expected {} stages of {}", given.size(), first.back(), stages,
         parts.size());
  return first;
}

struct Cell {                                              // of a micro-batch in a chunk of this rank
  std::optional<TensorMessages::Arrival> input, gradient;  // received, not used yet
  std::vector<at::Tensor> local_input, local_gradient;     // from another chunk of this rank
  std::unique_ptr<StagePass> pass;
  std::vector<at::Tensor> like;             // outputs that require gradients: shapes of what comes back
  std::vector<at::Tensor> output, d_input;  // to be sent
};

}  // namespace

struct Pipeline::Implementation {
  Implementation(std::vector<PipelinePart> all_parts, const Mesh& mesh, const PipelineOptions& options);

  [[nodiscard]] std::span<const PipelinePart> parts_of(int chunk) const {
    const auto stage = static_cast<size_t>(placement_.stage(rank_, chunk));
    return std::span(parts_).subspan(static_cast<size_t>(first_[stage]),
                                     static_cast<size_t>(first_[stage + 1] - first_[stage]));
  }
  void mark_tied();
  void require_buffer_names() const;
  void mark_weights();
  void require_fits(const ZeroOptimizer&) const;
  void forward(const Action&, const Inputs&, const Loss&);
  void backward(const Action&, ZeroOptimizer&);
  void transfer(const Action&);
  Cell& cell(int chunk, int micro_batch) { return cells_[{chunk, micro_batch}]; }
  double run(const std::vector<Action>&, ZeroOptimizer*, const Inputs&, const Loss&);
  [[nodiscard]] double mean_loss();

  PipelineOptions options_;
  const Mesh& mesh_;
  std::vector<PipelinePart> parts_;  // of the whole model
  PipelineShape shape_;
  StagePlacement placement_;
  int rank_;
  std::vector<int> first_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<TensorMessages> messages_;  // null: one rank
  std::vector<Action> actions_;
  BeforePart before_part_;
  bool defers_;  // weight gradients wait
  std::map<std::pair<int, int>, Cell> cells_;
  at::Tensor loss_sum_;
  bool failed_ = false;
};

Pipeline::Implementation::Implementation(std::vector<PipelinePart> all_parts, const Mesh& mesh,
                                         const PipelineOptions& options)
    : options_(options),
      mesh_(mesh),
      parts_(std::move(all_parts)),
      shape_{options.schedule, mesh.pipeline().size(), virtual_stages_of(options), options.micro_batches},
      placement_(shape_),
      rank_(mesh.pipeline().rank()),
      first_(cut(parts_, options.stages, placement_.stages())),
      stream_(make_stream(mesh.device(), StreamUse::compute)),
      actions_(stage_actions(shape_, rank_, options.open_weights)),
      defers_(std::ranges::any_of(actions_, [](const Action& a) { return a.gradients == Gradients::weights; })) {
  mark_tied();
  require_buffer_names();
}

void Pipeline::Implementation::require_buffer_names() const {
  std::map<std::string, const void*> named;
  for (const PipelinePart& part : parts_)
    for (const NamedParameter& buffer : part.buffers)
      if (const void* const tensor = buffer.tensor.unsafeGetTensorImpl();
          named.try_emplace(buffer.name, tensor).first->second != tensor)
        fail("Pipeline: two buffers are called {}: give the parts different names", buffer.name);
}

// ZeroOptimizer gives parameters other memory, without the key.
void Pipeline::Implementation::mark_weights() {
  if (!defers_) return;
  for (int chunk = 0; chunk < shape_.chunks; ++chunk)
    for (const PipelinePart& part : parts_of(chunk))
      for (const NamedParameter& p : part.parameters)
        if (p.tensor.dim() == 2 && p.tensor.requires_grad() && !has_operand_key(p.tensor))
          set_data(p.tensor, with_operand_key(p.tensor.detach()));
}

// Before anything is sent: an error of one rank would leave the others waiting.
void Pipeline::Implementation::require_fits(const ZeroOptimizer& optimizer) const {
  if (const int passes = shape_.chunks * shape_.micro_batches; optimizer.micro_batches() != passes)
    fail("Pipeline: the optimizer has micro_batches {}, expected {}, the passes() of the pipeline",
         optimizer.micro_batches(), passes);
  for (int chunk = 0; chunk < shape_.chunks; ++chunk)
    for (const PipelinePart& part : parts_of(chunk))
      for (const NamedParameter& p : part.parameters)
        if (p.tensor.requires_grad() && !GradientHooks::is_taken(p.tensor))
          fail("Pipeline: {} is trained by no ZeroOptimizer: create it with the parameters() of the pipeline", p.name);
}

// Parameters of two ranks: a copy on each.
void Pipeline::Implementation::mark_tied() {
  struct Use {
    NamedParameter* parameter;
    int stage;
  };
  std::map<const void*, Use> uses;
  std::map<std::string, const void*> named;
  const int last = placement_.stages() - 1;
  for (int stage = 0; stage <= last; ++stage)
    for (int p = first_[static_cast<size_t>(stage)]; p < first_[static_cast<size_t>(stage) + 1]; ++p)
      for (NamedParameter& parameter : parts_[static_cast<size_t>(p)].parameters) {
        const void* const tensor = parameter.tensor.unsafeGetTensorImpl();
        const auto [found, is_first] = uses.try_emplace(tensor, Use{&parameter, stage});
        if (is_first) {
          if (!named.try_emplace(parameter.name, tensor).second)
            fail("Pipeline: two parameters are called {}: give the parts different names", parameter.name);
          continue;
        }
        const Use& use = found->second;
        const int from = placement_.rank(use.stage), to = placement_.rank(stage);
        parameter.name = use.parameter->name;
        if (from == to) continue;
        if (use.stage != 0 || stage != last)
          fail(
              "Pipeline: {} is used by stages {} and {}, on different ranks: only the first and the last stage may "
              "share a parameter",
              parameter.name, use.stage, stage);
        use.parameter->copy = ParameterSpec::Copy::first;
        parameter.copy = ParameterSpec::Copy::second;
        if (rank_ != from && rank_ != to) continue;
        const at::NoGradGuard none;
        at::Tensor values = parameter.tensor.detach().clone(at::MemoryFormat::Contiguous);
        stream_->wait(mesh_.ends().broadcast(values, 0, *stream_));
        parameter.tensor.copy_(values);
      }
}

void Pipeline::Implementation::forward(const Action& action, const Inputs& inputs, const Loss& loss) {
  Cell& own = cell(action.chunk, action.micro_batch);
  const int stage = placement_.stage(rank_, action.chunk), last = placement_.stages() - 1;
  std::vector<at::Tensor> in = stage == 0  ? inputs(action.micro_batch)
                               : own.input ? messages_->take(*own.input)
                                           : std::exchange(own.local_input, {});
  own.input.reset();
  const auto before = [&](size_t part) {
    if (before_part_) before_part_(first_[static_cast<size_t>(stage)] + static_cast<int>(part), action.micro_batch);
  };
  own.pass =
      std::make_unique<StagePass>(parts_of(action.chunk), std::move(in), defers_ && at::GradMode::is_enabled(), before);
  if (stage == last) {
    const at::Tensor value = loss(own.pass->outputs(), action.micro_batch);
    if (value.numel() != 1) fail("Pipeline: a loss with {} elements, expected one", value.numel());
    loss_sum_.add_(value.detach().to(at::kDouble).reshape({}));
    own.pass->set_outputs({value});
    return;
  }
  std::vector<at::Tensor> outputs;
  for (const at::Tensor& t : own.pass->outputs()) outputs.push_back(t.detach().requires_grad_(t.requires_grad()));
  own.like = differentiable(outputs);
  if (placement_.handed_over(stage))
    own.output = std::move(outputs);
  else
    cell(placement_.chunk(stage + 1), action.micro_batch).local_input = std::move(outputs);
}

void Pipeline::Implementation::backward(const Action& action, ZeroOptimizer& optimizer) {
  Cell& own = cell(action.chunk, action.micro_batch);
  const int stage = placement_.stage(rank_, action.chunk), last = placement_.stages() - 1;
  if (action.gradients != Gradients::inputs) {
    std::vector<at::Tensor> parameters;
    for (const PipelinePart& part : parts_of(action.chunk))
      for (const NamedParameter& p : part.parameters) parameters.push_back(p.tensor);
    optimizer.expect_gradients(parameters);
  }
  if (action.gradients == Gradients::weights) {
    own.pass->weight_gradients();
    own.pass.reset();
    return;
  }
  std::vector<at::Tensor> d_outputs;
  if (stage == last)
    for (const at::Tensor& t : differentiable(own.pass->outputs()))
      d_outputs.push_back(at::scalar_tensor(1.0 / options_.micro_batches, t.options()).expand_as(t));
  else
    d_outputs = own.gradient ? messages_->take(*own.gradient) : std::exchange(own.local_gradient, {});
  own.gradient.reset();
  std::vector<at::Tensor> d_inputs =
      action.gradients == Gradients::all ? own.pass->backward(d_outputs) : own.pass->input_gradients(d_outputs);
  if (action.gradients == Gradients::all) own.pass.reset();
  if (stage == 0) return;
  if (placement_.handed_over(stage - 1))
    own.d_input = std::move(d_inputs);
  else
    cell(placement_.chunk(stage - 1), action.micro_batch).local_gradient = std::move(d_inputs);
}

void Pipeline::Implementation::transfer(const Action& action) {
  Cell& own = cell(action.chunk, action.micro_batch);
  const bool sends = action.transfer == Transfer::send;
  if (action.pass == Pass::forward) {
    if (sends)
      messages_->send(std::exchange(own.output, {}), action.peer);
    else
      own.input = messages_->receive(action.peer);
  } else if (sends) {
    messages_->send_like(std::exchange(own.d_input, {}), action.peer);
  } else {
    own.gradient = messages_->receive_like(std::exchange(own.like, {}), action.peer);
  }
}

double Pipeline::Implementation::mean_loss() {
  stream_->wait(mesh_.pipeline().all_reduce(loss_sum_, Reduce::sum, *stream_));
  return loss_sum_.item<double>() / options_.micro_batches;
}

double Pipeline::Implementation::run(const std::vector<Action>& actions, ZeroOptimizer* optimizer, const Inputs& inputs,
                                     const Loss& loss) {
  if (failed_)
    fail("Pipeline: an earlier step failed: end the program, because messages of that step may be under way");
  failed_ = true;                                             // until the end
  stream_ = make_stream(mesh_.device(), StreamUse::compute);  // the current one
  if (mesh_.edges() != nullptr) messages_ = std::make_unique<TensorMessages>(*mesh_.edges(), *stream_, mesh_.device());
  loss_sum_ = at::zeros({}, at::TensorOptions(at::kDouble).device(mesh_.device()));
  for (const Action& action : actions) {
    if (action.transfer != Transfer::none)
      transfer(action);
    else if (action.pass == Pass::forward)
      forward(action, inputs, loss);
    else
      backward(action, *optimizer);
  }
  if (messages_) messages_->finish();
  cells_.clear();
  failed_ = false;
  return mean_loss();
}

Pipeline::Pipeline(std::vector<PipelinePart> parts, const Mesh& mesh, const PipelineOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(parts), mesh, options)) {}

Pipeline::~Pipeline() = default;

std::vector<NamedParameter> Pipeline::parameters() const {
  std::vector<NamedParameter> all;
  for (int chunk = 0; chunk < implementation_->shape_.chunks; ++chunk)
    for (const PipelinePart& part : implementation_->parts_of(chunk))
      for (const NamedParameter& p : part.parameters) {
        const auto same = [&](const NamedParameter& other) { return other.tensor.is_same(p.tensor); };
        if (std::ranges::none_of(all, same)) all.push_back(p);
      }
  return all;
}

Untrained Pipeline::untrained() const {
  Untrained all;
  for (int chunk = 0; chunk < implementation_->shape_.chunks; ++chunk)
    for (const PipelinePart& part : implementation_->parts_of(chunk))
      for (const NamedParameter& buffer : part.buffers)
        if (std::ranges::find(all.buffers, buffer.name, &NamedParameter::name) == all.buffers.end())
          all.buffers.push_back(buffer);
  for (NamedParameter& p : parameters())
    if (!p.tensor.requires_grad()) all.frozen.push_back(std::move(p));
  return all;
}

int Pipeline::micro_batches() const { return implementation_->options_.micro_batches; }

int Pipeline::passes() const { return implementation_->shape_.chunks * implementation_->shape_.micro_batches; }

int Pipeline::first_part(int stage) const { return implementation_->first_.at(static_cast<size_t>(stage)); }

bool Pipeline::has_first_stage() const {
  return implementation_->placement_.embedding_rank() == implementation_->rank_;
}

bool Pipeline::has_last_stage() const { return implementation_->placement_.head_rank() == implementation_->rank_; }

void Pipeline::before_each_part(BeforePart before) { implementation_->before_part_ = std::move(before); }

double Pipeline::step(ZeroOptimizer& optimizer, const Inputs& inputs, const Loss& loss) {
  const at::AutoGradMode records(true);
  implementation_->require_fits(optimizer);
  implementation_->mark_weights();
  return implementation_->run(implementation_->actions_, &optimizer, inputs, loss);
}

double Pipeline::evaluate(const Inputs& inputs, const Loss& loss) {
  const at::NoGradGuard none;
  std::vector<Action> actions;
  for (int m = 0; m < implementation_->options_.micro_batches; ++m)
    for (Action action : forward_actions(implementation_->placement_, implementation_->rank_)) {
      action.micro_batch = m;
      actions.push_back(action);
    }
  return implementation_->run(actions, nullptr, inputs, loss);
}

}  // namespace partita
