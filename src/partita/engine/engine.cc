#include "partita/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "partita/base/error.h"
#include "partita/base/trace.h"
#include "partita/device/device_stream.h"
#include "partita/engine/initial_weights.h"
#include "partita/engine/stage_history.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/device_values.h"

namespace partita {
using namespace internal;
namespace {

std::unique_ptr<Stream> compute_stream(const EngineOptions& options) {
  if (options.graph) leave_default_stream(options.device);
  return make_stream(options.device, StreamUse::compute);
}

// Events from outside of a recording cannot be waited for in it, so a recorded step begins when all is updated.
std::unique_ptr<Stream> update_stream(const EngineOptions& options) {
  if (!options.training || options.graph) return nullptr;
  return make_stream(options.device, StreamUse::background);
}

std::unique_ptr<TensorParallel> make_tensor_parallel(const Zero& zero, const EngineOptions& options, Stream& compute) {
  const int ranks = zero.tensor == nullptr ? 1 : zero.tensor->size();
  if (options.tensor.ranks != ranks || (ranks > 1 && options.tensor.rank != zero.tensor->rank()))
    fail("EngineOptions::tensor is rank {} of {}, but Zero::tensor has {} rank{}: both are of the same mesh",
         options.tensor.rank, options.tensor.ranks, ranks, ranks == 1 ? "" : "s");
  if (ranks == 1) return nullptr;
  return std::make_unique<TensorParallel>(*zero.tensor, compute, options.tensor, options.shape.rows(), options.width,
                                          options.compute, options.device);
}

std::unique_ptr<ContextParallel> make_context_parallel(const Zero& zero, const EngineOptions& options,
                                                       Stream& compute) {
  const int ranks = zero.context == nullptr ? 1 : zero.context->size();
  if (options.context.ranks != ranks || (ranks > 1 && options.context.rank != zero.context->rank()))
    fail("EngineOptions::context is rank {} of {}, but Zero::context has {} rank{}: both are of the same mesh",
         options.context.rank, options.context.ranks, ranks, ranks == 1 ? "" : "s");
  if (ranks == 1) return nullptr;
  if (options.shape.length % 2 != 0)
    fail(
        "EngineOptions::shape has {} tokens of each sample on a context-parallel rank: these are two equal pieces, so "
        "use samples of a multiple of {}",
        options.shape.length, 2 * ranks);
  return std::make_unique<ContextParallel>(*zero.context, compute);
}

std::unique_ptr<Handover> make_handover(const EnginePlan& plan, const Zero& zero, const EngineOptions& options,
                                        Stream& compute) {
  const PipelineStage& stage = options.pipeline;
  const int ranks = zero.pipeline == nullptr ? 1 : zero.pipeline->size();
  if (stage.shape.ranks != ranks || (ranks > 1 && stage.rank != zero.pipeline->rank()))
    fail("EngineOptions::pipeline is rank {} of {}, but Zero::pipeline has {} rank{}: both are of the same mesh",
         stage.rank, stage.shape.ranks, ranks, ranks == 1 ? "" : "s");
  if (ranks == 1) return nullptr;
  PARTITA_CHECK(zero.edges != nullptr, "Zero::pipeline without Zero::edges");
  return std::make_unique<Handover>(stage, plan.handover_buffers, options.tensor.stream_rows(options.shape.rows()),
                                    options.width, options.compute, options.device, *zero.edges, compute,
                                    options.check_messages);
}

std::unique_ptr<Copies> make_offload_copies(const EnginePlan& plan, const EngineOptions& options) {
  if (!plan.parameters_off_device && !plan.activations_on_host) return nullptr;
  return options.offload.copies ? options.offload.copies() : make_copies(options.device);
}

std::unique_ptr<ActivationOffload> make_activation_offload(const EnginePlan& plan, const EngineOptions& options,
                                                           Copies* copies, Stream& compute) {
  if (!plan.activations_on_host) return nullptr;
  const ActivationOffload::Options offload{.poison = options.poison, .device = options.device};
  return std::make_unique<ActivationOffload>(plan.offload, plan.kept_bytes, offload, *copies, compute);
}

// [slot * blocks + block]: memory for saved activations.
std::vector<at::Tensor> kept_memory(const Arena& arena, const ActivationOffload* offload, int blocks) {
  std::vector<at::Tensor> memory = arena.kept;
  for (size_t i = 0; offload != nullptr && i < memory.size(); ++i)
    if (const at::Tensor buffer = offload->memory(static_cast<int>(i) % blocks); buffer.defined()) memory[i] = buffer;
  return memory;
}

Zero with_sharding(Zero zero, const Sharding& sharding) {
  zero.sharding = sharding;
  return zero;
}

double clip_factor(const StepInput& input, double norm) {
  return input.clip > 0 ? std::min(1.0, input.clip / (norm + 1e-6)) : 1.0;
}

int64_t valid_tokens(const at::Tensor& labels) {
  const std::span<const int32_t> values(labels.data_ptr<int32_t>(), static_cast<size_t>(labels.numel()));
  return std::ranges::count_if(values, [](int32_t label) { return label != kIgnoredLabel; });
}

}  // namespace

Engine::Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data,
               const EngineOptions& options)
    : blocks_(std::move(blocks)),
      zero_(zero),
      data_(data),
      options_(options),
      plan_(plan_engine(blocks_, zero.sharding, options)),
      arena_(make_arena(plan_.kept, plan_.gradients, options.device)),
      compute_(compute_stream(options)),
      communication_(make_stream(options.device, StreamUse::concurrent)),
      update_(update_stream(options)),
      tensor_(make_tensor_parallel(zero, options, *compute_)),
      sequence_(make_context_parallel(zero, options, *compute_)),
      handover_(make_handover(plan_, zero, options, *compute_)),
      copies_(make_offload_copies(plan_, options)),
      activation_offload_(make_activation_offload(plan_, options, copies_.get(), *compute_)),
      activations_(blocks_, options.shape, plan_.recompute,
                   kept_memory(arena_, activation_offload_.get(), this->blocks()), options.width, options.compute,
                   options.device, options.tensor),
      open_gradients_(plan_.open_bytes, this->blocks(), options.device),
      scales_(options.delayed_scales ? std::make_unique<AmaxHistory>(blocks_, plan_.slots, options.device) : nullptr),
      now_(options.device),
      update_now_(options.device),
      inputs_(options.device),
      sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(options.device))),
      parameters_(plan_.units, with_sharding(zero, plan_.sharding), parameter_options(options),
                  {.buffers = arena_.gradients, .slices = arena_.slices}, copies_.get(), *compute_, *communication_,
                  update_ ? *update_ : *compute_) {
  now_.host.seed = options.seed;
  // Events from outside of a recording cannot be waited for in it. A pipeline's receives wait for other ranks while
  // passes run, but branches of a graph need not run at the same time.
  PARTITA_CHECK(!options.graph || (data.size() == 1 && !handover_ && !zero.sharding.weights && !copies_),
                "a step with data-parallel collectives, messages, gathers or offload cannot be recorded");
  record_steps(true);
}

// On a GPU updates and gathers may still be writing into memory that is given back now.
Engine::~Engine() {
  if (!options_.device.is_cpu()) try {
      parameters_.finish();
    } catch (...) {  // other ranks have failed, which is reported elsewhere
    }
}

void Engine::initialize(uint64_t seed) {
  set_weights([seed](const ParameterSpec& parameter, const Box& box, const at::Tensor& out) {
    initial_weights(out, parameter, seed, box);
  });
}

void Engine::take(const Batch& batch, size_t input) {
  if (inputs_.take(batch, input) && accumulation_) accumulation_->invalidate();
}

Context Engine::context(size_t input, Activations& activations, Mode mode) {
  const Inputs::Input& in = inputs_[input];
  const Shape shape = in.batch.shape();
  if (shape != activations.shape())
    fail("a batch of {} samples x {} tokens, expected {} x {}: EngineOptions::shape", shape.samples, shape.length,
         activations.shape().samples, activations.shape().length);
  return {.mode = mode,
          .batch = &in.batch,
          .now = now_.device(),
          .tensor = tensor_.get(),
          .sequence = sequence_.get(),
          .outputs = activations.outputs(),
          .scratch = {},
          .samples = in.samples,
          .loss = sums_.narrow(0, 1, 1),
          .logits = {},
          .cache = nullptr,
          .scales = {},
          .scales_known = scales_ && scales_->known()};
}

Weights Engine::use_weights(int block, Pass pass) {
  const TraceSpan span("gather block", block);
  const Weights weights = parameters_.weights().use(block, pass);
  parameters_.weights().prefetch();
  return weights;
}

void Engine::forward(Context& context, Activations& activations, const Action& action) {
  Residual x;
  if (handover_) std::tie(x.sum, x.branch) = handover_->read(action);
  if (context.mode == Mode::train) mark();
  for (int b = plan_.blocks.begin(action.chunk); b < plan_.blocks.end(action.chunk); ++b) {
    const Weights w = use_weights(b, Pass::forward);
    context.scratch = activations.scratch(b);
    if (&activations == &activations_)
      for (const int unit : arena_.gradients_under[static_cast<size_t>(action.slot * blocks() + b)])
        parameters_.finish_update(unit);
    if (scales_) context.scales = scales_->begin(action.slot, b);
    {
      const TraceSpan span("forward block", b);
      const bool offloads = activation_offload_ && context.mode == Mode::train;
      if (offloads) activation_offload_->before(action.slot, b, Pass::forward);
      x = blocks_[static_cast<size_t>(b)]->forward(w, x, context, activations.saved(action.slot, b));
      if (offloads) activation_offload_->after(action.slot, b, Pass::forward);
    }
    parameters_.weights().release();
    data_.progress();
  }
  if (handover_) {
    handover_->release(action);
    handover_->write(action, x.sum, x.branch);
  }
  if (activation_offload_ && context.mode == Mode::train) activation_offload_->end_pass();
  if (context.mode == Mode::train) mark();
}

void Engine::backward(Context& context, const Action& action, bool follows_forward) {
  ResidualGrad g;
  if (handover_) std::tie(g.sum, g.branch) = handover_->read(action);
  mark();
  // The shared buffers still hold what the forward of the last layer wrote.
  bool shared_is_filled = follows_forward;
  for (int b = plan_.blocks.end(action.chunk) - 1; b >= plan_.blocks.lowest_backward(action.chunk); --b) {
    const Weights w = use_weights(b, Pass::backward);
    context.scratch = activations_.scratch(b);
    if (scales_) context.scales = scales_->scales(action.slot, b);
    const Block& block = *blocks_[static_cast<size_t>(b)];
    const BlockTraits traits = block.traits();
    Saved& saved = activations_.saved(action.slot, b);
    {
      const TraceSpan span("recompute block", b);
      if (activation_offload_) activation_offload_->before(action.slot, b, Pass::backward);
      const bool layer = traits.kind == BlockKind::layer;
      if (!(layer && shared_is_filled && traits.forward_fills_all)) block.recompute(w, context, saved);
      if (layer) shared_is_filled = false;
    }
    const std::unique_ptr<Grads> open = parameters_.gradients().open(b);
    std::unique_ptr<Grads> collected;  // heads and embeddings compute all gradients at once
    if (action.gradients == Gradients::inputs && traits.kind == BlockKind::layer)
      collected = open_gradients_.collect(*open, action.open, b, traits.leaves_operands ? &saved : nullptr);
    {
      const TraceSpan span("backward block", b);
      g = block.backward(w, g, context, saved, collected ? *collected : *open);
      if (activation_offload_) activation_offload_->after(action.slot, b, Pass::backward);
    }
    parameters_.weights().release();
    if (action.gradients == Gradients::all) {
      const TraceSpan span("reduce block", b);
      parameters_.gradients().close(b, action.last);
      parameters_.update_arrived();
    }
    data_.progress();
  }
  if (handover_) {
    handover_->release(action);
    handover_->write(action, g.sum, g.branch);
  }
  mark();
}

void Engine::weight_gradients(const Action& action) {
  mark();
  for (int b = plan_.blocks.end(action.chunk) - 1; b >= plan_.blocks.lowest_backward(action.chunk); --b) {
    (void)use_weights(b, Pass::backward);  // none, but gathers those of later passes
    {
      const TraceSpan span("weight gradients of block", b);
      open_gradients_.compute(action.open, b, *parameters_.gradients().open(b));
    }
    parameters_.weights().release();
    parameters_.gradients().close(b, action.last);
    parameters_.update_arrived();
    data_.progress();
  }
  mark();
}

int64_t Engine::count_valid_tokens(std::span<const Batch> batches) {
  at::Tensor count = at::zeros({1}, at::kLong);
  for (const Batch& batch : batches) *count.data_ptr<int64_t>() += valid_tokens(batch.labels);
  data_.all_reduce(count, Reduce::sum, *compute_).wait();  // blocks the host
  return *count.data_ptr<int64_t>();
}

void Engine::record_steps(bool on) {
  if (!options_.graph || on == (accumulation_ != nullptr)) return;
  if (!on) return accumulation_.reset();
  accumulation_ = make_graph_runner(options_.device);
}

void Engine::time_actions(bool on) { stopwatch_ = on ? make_stopwatch(options_.device) : nullptr; }

std::vector<TimedAction> Engine::action_times() {
  std::vector<TimedAction> times;
  if (!stopwatch_) return times;
  const std::vector<double> marks = stopwatch_->take();  // of the step's start, then of each pass two
  plan_.step.each([&](const Action& action) {
    const size_t next = 1 + 2 * times.size();
    if (action.transfer == Transfer::none && next + 1 < marks.size())
      times.push_back({action, marks[next], marks[next + 1]});
  });
  return times;
}

void Engine::accumulate_gradients() {
  mark();
  sums_.zero_();
  parameters_.weights().begin(plan_.training);
  if (activation_offload_) activation_offload_->begin();
  Action before{.micro_batch = -1};  // the pass before
  bool updated = false;
  plan_.step.each([&](const Action& action) {
    if (action.transfer != Transfer::none) return handover_->transfer(action);
    if (action.gradients == Gradients::weights) return weight_gradients(action);
    Context c = context(static_cast<size_t>(action.micro_batch), activations_, Mode::train);
    if (action.pass == Pass::forward) {
      forward(c, activations_, action);
    } else {
      if (!updated) {
        parameters_.finish_update();  // backward is about to overwrite the gradients that the update reads
        parameters_.begin_gradients(early_);
      }
      updated = true;
      backward(c, action, before.micro_batch == action.micro_batch && before.chunk == action.chunk);
    }
    before = action;
  });
  if (handover_) handover_->finish();
  parameters_.gradients().finish();
  parameters_.update_arrived();
  parameters_.gradients().sum_of_squares(sums_.narrow(0, 0, 1));
  if (scales_) scales_->poison(sums_.narrow(0, 0, 1));
}

void Engine::record_scales(int64_t update, bool skipped) {
  if (skipped) return scales_->skip();
  const bool knew = scales_->known();
  scales_->record(update, data_, tensor_ ? zero_.tensor : nullptr, *compute_);
  if (!knew && accumulation_) accumulation_->invalidate();  // the recorded step still measured scales before use
}

std::vector<float> Engine::amax_history() const {
  if (!scales_) return {};
  return handover_ ? model_history(scales_->values(), blocks_, options_.pipeline, *zero_.pipeline) : scales_->values();
}

void Engine::set_amax_history(std::span<const float> values) {
  if (!scales_) return;
  scales_->set(handover_ ? stage_history(values, blocks_, options_.pipeline, *zero_.pipeline)
                         : std::vector<float>(values.begin(), values.end()));
  if (accumulation_) accumulation_->invalidate();
}

void Engine::sum_over_ranks() {
  compute_->wait(data_.all_reduce(sums_, Reduce::sum, *compute_));
  if (tensor_) compute_->wait(zero_.tensor->all_reduce(sums_.narrow(0, 0, 1), Reduce::sum, *compute_));
  if (handover_) compute_->wait(zero_.pipeline->all_reduce(sums_, Reduce::sum, *compute_));
}

std::optional<float> Engine::early_scale(const StepInput& input) const {
  const bool known = input.clip <= 0 || (std::isfinite(input.previous_norm) && input.previous_norm > 0);
  if (!plan_.updates_early || !known) return {};
  PARTITA_CHECK(input.loss_scale == 1, "early updates with a loss scale");
  return static_cast<float>(clip_factor(input, input.previous_norm));
}

StepResult Engine::step(std::span<const Batch> batches, const StepInput& input) {
  PARTITA_CHECK(parameters_.trains(), "an engine made for inference");
  if (static_cast<int>(batches.size()) != options_.micro_batches)
    fail("{} micro-batches, expected {}: EngineOptions::micro_batches", batches.size(), options_.micro_batches);
  StepResult result{.tokens = count_valid_tokens(batches)};
  StepScalars& now = now_.host;
  now.step = input.step;
  now.update = input.update;
  now.learning_rate = static_cast<float>(input.learning_rate);
  now.loss_weight = input.loss_scale / static_cast<float>(std::max<int64_t>(result.tokens, 1));
  now_.publish();
  early_.reset();
  if (const std::optional<float> factor = early_scale(input)) {
    early_ = now;
    early_->gradient_scale = *factor;
  }
  for (size_t i = 0; i < batches.size(); ++i) take(batches[i], i);
  if (accumulation_)
    accumulation_->run([this] { accumulate_gradients(); });
  else
    accumulate_gradients();
  sum_over_ranks();
  const at::Tensor sums = [this] {
    const TraceSpan span("wait for the device");
    return sums_.to(at::kCPU);  // the only point in a step where the host waits
  }();
  check_device_values(options_.device);
  const double scale = input.loss_scale;
  result.grad_norm = std::sqrt(sums.data_ptr<double>()[0]) / scale;
  result.loss = sums.data_ptr<double>()[1] / static_cast<double>(std::max<int64_t>(result.tokens, 1));
  result.skipped = !std::isfinite(result.grad_norm);
  if (result.skipped && early_)
    fail(
        "the gradient norm of step {} is {}, and early updates have used the gradient already: continue from the last "
        "checkpoint without memory.early_updates, or with a lower learning rate",
        input.step, result.grad_norm);
  if (scales_) record_scales(input.update, result.skipped);
  update_now_.host = now;
  update_now_.host.skip = result.skipped ? 1 : 0;
  update_now_.host.gradient_scale =
      early_ ? early_->gradient_scale : static_cast<float>(clip_factor(input, result.grad_norm) / scale);
  update_now_.publish();
  const TraceSpan span("update");
  parameters_.update(update_now_);
  return result;
}

EvalResult Engine::evaluate(const Batch& batch) {
  sums_.zero_();
  take(batch, 0);
  Context c = context(0, activations_, Mode::evaluate);
  parameters_.weights().begin(plan_.forward);
  for (const Action& action : plan_.forward_actions)
    if (action.transfer != Transfer::none)
      handover_->transfer(action);
    else
      forward(c, activations_, action);
  if (handover_) handover_->finish();
  at::Tensor sums = sums_.to(at::kCPU).clone();
  check_device_values(options_.device);
  sums.data_ptr<double>()[0] = static_cast<double>(valid_tokens(batch.labels));
  data_.all_reduce(sums, Reduce::sum, *compute_).wait();
  if (handover_) zero_.pipeline->all_reduce(sums.narrow(0, 1, 1), Reduce::sum, *compute_).wait();
  return {.loss_sum = sums.data_ptr<double>()[1], .tokens = static_cast<int64_t>(sums.data_ptr<double>()[0])};
}

at::Tensor Engine::logits(const Batch& batch, int64_t vocabulary, KvCache* cache) {
  if (handover_) fail("logits of a pipeline stage: load the model without pipeline parallelism");
  if (sequence_) fail("logits of pieces of a sequence: load the model without context parallelism");
  if (!inference_ || inference_->shape() != batch.shape())
    inference_ = std::make_unique<Activations>(blocks_, batch.shape(), std::vector<BlockRecompute>(blocks_.size()),
                                               std::vector<at::Tensor>(blocks_.size()), options_.width,
                                               options_.compute, options_.device, options_.tensor);
  take(batch, 0);
  Context c = context(0, *inference_, Mode::infer);
  c.logits = at::empty({batch.shape().samples, vocabulary}, at::TensorOptions(at::kFloat).device(options_.device));
  c.cache = cache;
  parameters_.weights().begin(plan_.forward);
  forward(c, *inference_, {});
  if (cache != nullptr) cache->past += batch.shape().length;
  return c.logits.to(at::kCPU);
}

EngineMemory Engine::memory() const {
  EngineMemory m{parameters_.memory()};
  m.shared = arena_.shared_bytes;
  for (const at::Tensor& kept : arena_.kept)
    if (kept.defined()) m.activations += static_cast<int64_t>(kept.nbytes());
  if (activation_offload_) {
    m.activations += activation_offload_->bytes();
    m.host += activation_offload_->host_bytes();
  }
  m.activations += open_gradients_.bytes();
  m.temporaries = activations_.temporary_bytes() + (handover_ ? handover_->bytes() : 0) +
                  TensorParallel::bytes(options_.tensor, options_.shape.rows(), options_.width, options_.compute);
  return m;
}

}  // namespace partita
