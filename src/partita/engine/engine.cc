#include "partita/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/trace.h"
#include "partita/comm/device_stream.h"
#include "partita/engine/initial_weights.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/device_values.h"

namespace partita {
namespace {

Sharding sharding_of(const Zero& zero) {
  return {.ranks = zero.shard->size(), .few_weights = zero.few_weights, .few_gradients = zero.few_gradients};
}

std::unique_ptr<Stream> compute_stream(const EngineOptions& options) {
  if (options.graph) leave_default_stream(options.device);
  return make_stream(options.device, StreamUse::compute);
}

std::unique_ptr<Copies> make_offload_copies(const EnginePlan& plan, const EngineOptions& options) {
  if (!plan.states_on_host && !plan.activations_on_host) return nullptr;
  return options.offload.copies ? options.offload.copies() : make_copies(options.device);
}

std::unique_ptr<GradStore> make_grads(const EnginePlan& plan, const Zero& zero, const EngineOptions& options,
                                      const Arena& arena, Copies* copies, Stream& compute, Stream& side) {
  if (!options.training) return nullptr;
  return std::make_unique<GradStore>(plan.units, zero,
                                     GradStore::Options{.micro_batches = options.micro_batches,
                                                        .poison = options.poison,
                                                        .device = options.device,
                                                        .buffers = arena.gradients,
                                                        .slices = arena.slices,
                                                        .copies = plan.states_on_host ? copies : nullptr},
                                     compute, side);
}

std::unique_ptr<ActivationOffload> make_activation_offload(const EnginePlan& plan, const EngineOptions& options,
                                                           Copies* copies, Stream& compute) {
  if (!plan.activations_on_host) return nullptr;
  const ActivationOffload::Options offload{.poison = options.poison, .device = options.device};
  return std::make_unique<ActivationOffload>(plan.offloaded, plan.kept_bytes, offload, *copies, compute);
}

// [block]: where it keeps.
std::vector<at::Tensor> kept_memory(const Arena& arena, const ActivationOffload* moved) {
  std::vector<at::Tensor> memory = arena.kept;
  for (size_t b = 0; moved != nullptr && b < memory.size(); ++b)
    if (const at::Tensor slot = moved->memory(static_cast<int>(b)); slot.defined()) memory[b] = slot;
  return memory;
}

int64_t valid_tokens(const at::Tensor& labels) {
  const std::span<const int32_t> values(labels.data_ptr<int32_t>(), static_cast<size_t>(labels.numel()));
  return std::ranges::count_if(values, [](int32_t label) { return label != kIgnoredLabel; });
}

}  // namespace

Engine::Engine(std::vector<std::unique_ptr<Block>> blocks, const Zero& zero, Communicator& data,
               const EngineOptions& options)
    : blocks_(std::move(blocks)),
      data_(data),
      options_(options),
      plan_(plan_engine(blocks_, sharding_of(zero), zero.replica->size(), options)),
      arena_(make_arena(plan_.arena_bytes, plan_.gradients, options.device)),
      compute_(compute_stream(options)),
      side_(make_stream(options.device, StreamUse::side)),
      copies_(make_offload_copies(plan_, options)),
      masters_(make_masters(plan_, options)),
      weights_(plan_.units, zero, plan_.backward_reads,
               {.poison = options.poison, .device = options.device, .masters = masters_}, *compute_, *side_),
      grads_(make_grads(plan_, zero, options, arena_, copies_.get(), *compute_, *side_)),
      moved_(make_activation_offload(plan_, options, copies_.get(), *compute_)),
      activations_(blocks_, options.shape, plan_.keeps, kept_memory(arena_, moved_.get()), options.width,
                   options.compute, options.device),
      scales_(options.delayed_scales ? std::make_unique<AmaxHistory>(blocks_, options.device) : nullptr),
      now_(options.device),
      inputs_(options.device),
      sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(options.device))),
      states_(plan_, options, masters_,
              {.shard = *zero.shard,
               .weights = weights_,
               .grads = grads_.get(),
               .copies = copies_.get(),
               .compute = *compute_}) {
  now_.host.seed = options.seed;
  PARTITA_CHECK(!options.graph || (data.size() == 1 && !zero.few_weights && !copies_),
                "a step with collectives, gathers or offload cannot be recorded");
  record_steps(true);
}

void Engine::initialize(uint64_t seed) {
  set_weights([seed](const ParameterSpec& parameter, int64_t begin, const at::Tensor& out) {
    initial_weights(out, parameter, seed, begin);
  });
}

std::vector<ParameterSpec> Engine::parameters() const {
  std::vector<ParameterSpec> all;
  for (const Unit& unit : plan_.units.units)
    all.insert(all.end(), unit.layout.parameters.begin(), unit.layout.parameters.end());
  return all;
}

void Engine::take(const Batch& batch, size_t input) {
  if (inputs_.take(batch, input) && accumulation_) accumulation_->forget();
}

Context Engine::context(size_t input, Activations& activations, Mode mode) {
  const Inputs::Input& in = inputs_[input];
  const Shape shape = in.batch.shape();
  PARTITA_CHECK(shape == activations.shape(), "batch of {} x {} in memory for {} x {}", shape.samples, shape.length,
                activations.shape().samples, activations.shape().length);
  return {.mode = mode,
          .batch = &in.batch,
          .now = now_.device(),
          .handed = activations.handed(),
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
  Weights weights = weights_.use(block, pass);
  weights_.prefetch(block, pass);
  return weights;
}

void Engine::forward(Context& context, Activations& activations) {
  Residual x;
  for (int b = 0; b < blocks(); ++b) {
    const Weights w = use_weights(b, Pass::forward);
    context.scratch = activations.scratch(b);
    if (scales_) context.scales = scales_->scales(b);
    {
      const TraceSpan span("forward block", b);
      const bool moves = moved_ && context.mode == Mode::train;
      if (moves) moved_->before_forward(b);
      x = blocks_[static_cast<size_t>(b)]->forward(w, x, context, activations.saved(b));
      if (moves) moved_->after_forward(b);
    }
    weights_.release(b, Pass::forward);
    data_.progress();
  }
}

void Engine::backward(Context& context, Activations& activations, bool last_micro_batch) {
  ResidualGrad g;
  for (int b = blocks() - 1; b >= plan_.first_trainable; --b) {
    const Weights w = use_weights(b, Pass::backward);
    context.scratch = activations.scratch(b);
    if (scales_) context.scales = scales_->scales(b);
    const Block& block = *blocks_[static_cast<size_t>(b)];
    Saved& saved = activations.saved(b);
    {
      const TraceSpan span("recompute block", b);
      if (moved_) moved_->before_backward(b);
      // No layer has written to shared memory since the last one did.
      if (b != blocks() - 2 || !block.forward_fills_all()) block.recompute(w, context, saved);
    }
    const std::unique_ptr<Grads> open = grads_->open(b);
    {
      const TraceSpan span("backward block", b);
      g = block.backward(w, g, context, saved, *open);
      if (moved_) moved_->after_backward(b);
    }
    weights_.release(b, Pass::backward);
    {
      const TraceSpan span("reduce block", b);
      grads_->close(b, last_micro_batch);
    }
    data_.progress();
  }
}

int64_t Engine::count_valid_tokens(std::span<const Batch> batches) {
  at::Tensor count = at::zeros({1}, at::kLong);
  for (const Batch& batch : batches) *count.data_ptr<int64_t>() += valid_tokens(batch.labels);
  data_.all_reduce(count, Reduce::sum, *compute_).wait();  // of the host
  return *count.data_ptr<int64_t>();
}

void Engine::record_steps(bool on) {
  if (!options_.graph || on == (accumulation_ != nullptr)) return;
  if (!on) return accumulation_.reset();
  accumulation_ = make_repeated(options_.device);
}

void Engine::accumulate_gradients() {
  const auto micro_batches = static_cast<size_t>(options_.micro_batches);
  sums_.zero_();
  for (size_t i = 0; i < micro_batches; ++i) {
    if (scales_) scales_->begin();
    Context c = context(i, activations_, Mode::train);
    forward(c, activations_);
    states_.finish();  // the gradients that they read are about to be written
    backward(c, activations_, i + 1 == micro_batches);
  }
  grads_->finish();
  grads_->sum_of_squares(sums_.narrow(0, 0, 1));
  if (scales_) scales_->poison(sums_.narrow(0, 0, 1));
}

void Engine::record_scales(int64_t update, bool skipped) {
  if (skipped) return scales_->skip();
  const bool knew = scales_->known();
  scales_->record(update, data_, *compute_);
  if (!knew && accumulation_) accumulation_->forget();  // nothing is measured beforehand any more
}

void Engine::set_amax_history(std::span<const float> values) {
  if (!scales_) return;
  scales_->set(values);
  if (accumulation_) accumulation_->forget();
}

StepResult Engine::step(std::span<const Batch> batches, const StepInput& input) {
  PARTITA_CHECK(grads_ != nullptr, "an engine made for inference");
  PARTITA_CHECK(static_cast<int>(batches.size()) == options_.micro_batches, "{} micro-batches, engine made for {}",
                batches.size(), options_.micro_batches);
  StepResult result{.tokens = count_valid_tokens(batches)};
  StepScalars& now = now_.host;
  now.step = input.step;
  now.update = input.update;
  now.learning_rate = input.learning_rate;
  now.loss_weight = input.loss_scale / static_cast<float>(std::max<int64_t>(result.tokens, 1));
  now_.publish();
  for (size_t i = 0; i < batches.size(); ++i) take(batches[i], i);
  if (accumulation_)
    accumulation_->run([this] { accumulate_gradients(); });
  else
    accumulate_gradients();
  compute_->wait(data_.all_reduce(sums_, Reduce::sum, *compute_));
  const at::Tensor sums = [this] {
    const TraceSpan span("wait for the device");
    return sums_.to(at::kCPU);  // the one moment of a step at which the host does
  }();
  check_device_values(options_.device);
  const double scale = input.loss_scale;
  result.grad_norm = std::sqrt(sums.data_ptr<double>()[0]) / scale;
  result.loss = sums.data_ptr<double>()[1] / static_cast<double>(std::max<int64_t>(result.tokens, 1));
  result.skipped = !std::isfinite(result.grad_norm);
  if (scales_) record_scales(input.update, result.skipped);
  now.skip = result.skipped ? 1 : 0;
  const double clip = input.clip > 0 ? std::min(1.0, input.clip / (result.grad_norm + 1e-6)) : 1.0;
  now.gradient_scale = static_cast<float>(clip / scale);
  now_.publish();
  const TraceSpan span("update");
  states_.update(now_);
  return result;
}

EvalResult Engine::evaluate(const Batch& batch) {
  sums_.zero_();
  if (scales_) scales_->begin();
  take(batch, 0);
  Context c = context(0, activations_, Mode::evaluate);
  forward(c, activations_);
  at::Tensor sums = sums_.to(at::kCPU).clone();
  check_device_values(options_.device);
  sums.data_ptr<double>()[0] = static_cast<double>(valid_tokens(batch.labels));
  data_.all_reduce(sums, Reduce::sum, *compute_).wait();
  return {.loss_sum = sums.data_ptr<double>()[1], .tokens = static_cast<int64_t>(sums.data_ptr<double>()[0])};
}

at::Tensor Engine::logits(const Batch& batch, int64_t vocabulary, KvCache* cache) {
  if (!inference_ || inference_->shape() != batch.shape())
    inference_ = std::make_unique<Activations>(blocks_, batch.shape(), std::vector<Keep>(blocks_.size(), Keep::nothing),
                                               std::vector<at::Tensor>(blocks_.size()), options_.width,
                                               options_.compute, options_.device);
  take(batch, 0);
  if (scales_) scales_->begin();
  Context c = context(0, *inference_, Mode::infer);
  c.logits = at::empty({batch.shape().samples, vocabulary}, at::TensorOptions(at::kFloat).device(options_.device));
  c.cache = cache;
  forward(c, *inference_);
  if (cache != nullptr) cache->past += batch.shape().length;
  return c.logits.to(at::kCPU);
}

EngineMemory Engine::memory() const {
  const States::Bytes states = states_.bytes();
  EngineMemory m{.weights = weights_.bytes(),
                 .gradients = grads_ ? grads_->bytes() : 0,
                 .master = states.master,
                 .optimizer = states.optimizer,
                 .host = states.host + (grads_ ? grads_->host_bytes() : 0)};
  m.shared = arena_.shared_bytes;
  for (const at::Tensor& kept : arena_.kept)
    if (kept.defined()) m.activations += static_cast<int64_t>(kept.nbytes());
  if (moved_) {
    m.activations += moved_->bytes();
    m.host += moved_->host_bytes();
  }
  m.temporaries = activations_.temporary_bytes();
  return m;
}

}  // namespace partita
