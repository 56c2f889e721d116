#include "partita/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/trace.h"
#include "partita/comm/device_stream.h"
#include "partita/engine/initial_weights.h"
#include "partita/ops/cross_entropy.h"
#include "partita/ops/device_values.h"
#include "partita/ops/flat.h"
#include "partita/shard/flat_buffer.h"

namespace partita {
namespace {

UnitPlan plan_of(std::span<const std::unique_ptr<Block>> blocks, const Zero& zero, const EngineOptions& options) {
  std::vector<std::vector<ParameterSpec>> parameters;
  for (const auto& block : blocks) {
    parameters.push_back(block->parameters());
    if (options.frozen)
      for (ParameterSpec& p : parameters.back()) p.trainable = !options.frozen(p);
  }
  // What micro-batches or replicas add up in is fp32, else it may be half precision: sums are made in fp32 and rounded once.
  const DType half = options.fp32_gradients ? DType::fp32 : options.compute;
  const bool adds = options.micro_batches > 1, one_rank = zero.shard->size() == 1 && zero.replica->size() == 1;
  const DType gradient = zero.few_gradients || (one_rank && !adds) ? half : DType::fp32;
  return plan_units(parameters, {.ranks = zero.shard->size(),
                                 .weight = options.compute,
                                 .matrix_gradient = gradient,
                                 .matrix_gradient_sum = adds ? DType::fp32 : gradient,
                                 .blocks_per_unit = options.blocks_per_unit});
}

// Blocks below the first that is trained have no backward.
std::vector<bool> backward_reads_of(std::span<const std::unique_ptr<Block>> blocks, int first_trainable) {
  std::vector<bool> reads;
  for (const auto& block : blocks)
    reads.push_back(static_cast<int>(reads.size()) >= first_trainable && block->backward_reads_weights());
  return reads;
}

std::vector<Keep> keeps_of(size_t blocks, int first_trainable, const EngineOptions& options) {
  std::vector<Keep> keeps(blocks, options.keep);
  // Block 0 is the embedding, the last the head.
  for (size_t b = 1; b + 1 < blocks && static_cast<int>(b) <= options.entry_layers; ++b)
    keeps[b] = std::min(options.keep, Keep::entry);
  for (size_t b = 0; b < blocks && static_cast<int>(b) < first_trainable; ++b) keeps[b] = Keep::nothing;
  return keeps;
}

GradientLifetimes lifetimes_of(const UnitPlan& plan, const Zero& zero, const EngineOptions& options) {
  if (!options.training || options.offload.optimizer) return {};  // offloaded gradients stay for a moment only
  const Sharding sharding{
      .ranks = zero.shard->size(), .few_weights = zero.few_weights, .few_gradients = zero.few_gradients};
  return gradient_lifetimes(plan, sharding, options.micro_batches);
}

std::vector<at::Tensor> masters_of(const UnitPlan& plan, const EngineOptions& options) {
  std::vector<at::Tensor> masters;
  for (const Unit& unit : plan.units)
    masters.push_back(options.training && unit.trainable && options.states != options.compute && !options.offload.optimizer
                          ? flat_zeros(unit.layout.slice_count(), options.states, options.device)
                          : at::Tensor());
  return masters;
}

bool offloads(const EngineOptions& options) {
  return options.training && (options.offload.optimizer || options.offload.activations > 0);
}

std::vector<OffloadedBlock> offloaded_blocks(std::span<const Keep> keeps, const EngineOptions& options) {
  return plan_activation_offload(keeps, options.training ? options.offload.activations : 0);
}

// Of what is kept in memory of its own.
std::vector<int64_t> kept_bytes_of(std::span<const std::unique_ptr<Block>> blocks, std::span<const Keep> keeps,
                                   const EngineOptions& options) {
  std::vector<int64_t> bytes = Activations::kept_bytes(blocks, options.shape, keeps);
  const std::vector<OffloadedBlock> offloaded = offloaded_blocks(keeps, options);
  for (size_t b = 0; b < bytes.size(); ++b)
    if (offloaded[b].slot >= 0) bytes[b] = 0;
  return bytes;
}

std::unique_ptr<Stream> compute_stream(const EngineOptions& options) {
  if (options.graph) leave_default_stream(options.device);
  return make_stream(options.device, StreamUse::compute);
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
      plan_(plan_of(blocks_, zero, options)),
      first_trainable_(first_trainable_block(plan_)),
      backward_reads_(backward_reads_of(blocks_, first_trainable_)),
      keeps_(keeps_of(blocks_.size(), first_trainable_, options)),
      arena_(make_arena(kept_bytes_of(blocks_, keeps_, options), lifetimes_of(plan_, zero, options), options.device)),
      compute_(compute_stream(options)),
      side_(make_stream(options.device, StreamUse::side)),
      copies_(!offloads(options)       ? nullptr
              : options.offload.copies ? options.offload.copies()
                                       : make_copies(options.device)),
      masters_(masters_of(plan_, options)),
      weights_(plan_, zero, backward_reads_,
               {.poison = options.poison, .device = options.device, .masters = masters_}, *compute_, *side_),
      grads_(options.training ? std::make_unique<GradStore>(plan_, zero,
                                                            GradStore::Options{.micro_batches = options.micro_batches,
                                                                               .poison = options.poison,
                                                                               .device = options.device,
                                                                               .buffers = arena_.gradients,
                                                                               .slices = arena_.slices,
                                                                               .copies = options.offload.optimizer
                                                                                             ? copies_.get()
                                                                                             : nullptr},
                                                            *compute_, *side_)
                              : nullptr),
      moved_(copies_ && options.offload.activations > 0
                 ? std::make_unique<ActivationOffload>(
                       offloaded_blocks(keeps_, options), Activations::kept_bytes(blocks_, options.shape, keeps_),
                       ActivationOffload::Options{.poison = options.poison, .device = options.device}, *copies_,
                       *compute_)
                 : nullptr),
      activations_(blocks_, options.shape, keeps_, kept_memory(), options.width, options.compute, options.device),
      optimizer_(make_optimizer(options.optimizer)),
      now_(options.device),
      sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(options.device))) {
  PARTITA_CHECK(options.states == DType::fp32 || options.states == options.compute, "states in {} with compute in {}",
                name_of(options.states), name_of(options.compute));
  now_.host.seed = options.seed;
  record_steps(true);
  const int states = static_cast<int>(optimizer_->state_names().size());
  if (options.training && options.offload.optimizer)
    host_ = std::make_unique<HostStates>(
        plan_,
        HostStates::Options{
            .master = options.states, .weight = options.compute, .states = states, .device = options.device},
        *copies_);
  int parameters = 0;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const Unit& unit = plan_.units[u];
    const int index = static_cast<int>(u);
    const bool trained = grads_ && unit.trainable, on_host = trained && host_;
    const at::Tensor weight = on_host ? host_->weight(index) : weights_.slice(index);
    ShardView shard{.layout = &unit.layout,
                    .segments = slice_segments(unit.layout, zero_.shard->rank()),
                    .first_parameter = parameters,
                    .master = on_host                 ? host_->master(index)
                              : masters_[u].defined() ? masters_[u]
                                                      : weight,
                    .gradient = trained ? grads_->gradient(index) : at::Tensor(),
                    .weight = weight,
                    .states = {}};
    if (on_host)
      shard.states = host_->states(index);
    else if (trained)
      shard.states = optimizer_->make_states(unit.layout.slice_count(), options.states, options.device);
    shards_.push_back(std::move(shard));
    parameters += static_cast<int>(unit.layout.parameters.size());
  }
  if (optimizer_->needs_norms())
    norms_ = at::zeros({parameters, 2}, sums_.options().device(host_ ? at::Device(at::kCPU) : options.device));
}

std::vector<at::Tensor> Engine::kept_memory() const {
  std::vector<at::Tensor> memory = arena_.kept;
  for (int b = 0; moved_ && b < blocks(); ++b)
    if (moved_->memory(b).defined()) memory[static_cast<size_t>(b)] = moved_->memory(b);
  return memory;
}

void Engine::set_weights(const ReadWeights& read) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<float> piece;
  for (const OwnedRun& run : owned_runs()) {
    for (int64_t begin = 0; begin < run.count; begin += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, run.count - begin)));
      read(*run.parameter, run.begin + begin, piece);
      const auto count = static_cast<int64_t>(piece.size());
      cast(run.values[0].narrow(0, begin, count), at::from_blob(piece.data(), {count}, at::kFloat).to(run.values[0].device()));
    }
    for (size_t s = 1; s < run.values.size(); ++s) run.values[s].zero_();
  }
  publish_weights();
}

void Engine::initialize(uint64_t seed) {
  set_weights([&](const ParameterSpec& parameter, int64_t begin, std::span<float> out) {
    initial_weights(out, parameter, seed, begin);
  });
}

std::vector<OwnedRun> Engine::owned_runs() const {
  if (host_) host_->finish();
  std::vector<OwnedRun> owned;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const Layout& layout = plan_.units[u].layout;
    const ShardView& shard = shards_[u];
    for (const Segment& s : shard.segments) {
      OwnedRun run{.parameter = &layout.parameters[static_cast<size_t>(s.parameter)],
                   .begin = s.in_parameter,
                   .count = s.count,
                   .values = {}};
      run.values.push_back(shard.master.narrow(0, s.in_slice, s.count));
      for (const at::Tensor& state : shard.states) run.values.push_back(state.narrow(0, s.in_slice, s.count));
      owned.push_back(std::move(run));
    }
  }
  return owned;
}

void Engine::publish_weights() {
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const ShardView& shard = shards_[u];
    const auto round = [&shard] {
      if (shard.weight.defined() && !shard.weight.is_same(shard.master)) cast(shard.weight, shard.master);
    };
    const int index = static_cast<int>(u);
    if (host_ && plan_.units[u].trainable) {
      weights_.publish(index, host_->update(index, weights_.slice(index), compute_->record(), round));
      continue;
    }
    round();
    weights_.publish(index);
  }
}

std::vector<ParameterSpec> Engine::parameters() const {
  std::vector<ParameterSpec> all;
  for (const Unit& unit : plan_.units)
    all.insert(all.end(), unit.layout.parameters.begin(), unit.layout.parameters.end());
  return all;
}

void Engine::take(const Batch& batch, size_t input) {
  if (inputs_.size() <= input) inputs_.resize(input + 1);
  Batch& held = inputs_[input].batch;
  bool moved = false;
  const auto copy = [&](at::Tensor& to, const at::Tensor& from) {
    if (to.defined() != from.defined() || (to.defined() && to.sizes() != from.sizes())) {
      to = from.defined() ? at::empty(from.sizes(), from.options().device(options_.device)) : at::Tensor();
      moved = true;
    }
    if (to.defined()) to.copy_(from, /*non_blocking=*/true);
  };
  copy(held.tokens, batch.tokens);
  copy(held.labels, batch.labels);
  copy(held.positions, batch.positions);
  copy(held.first_keys, batch.first_keys);
  held.samples = batch.samples;
  copy(inputs_[input].samples,
       at::from_blob(held.samples.data(), {static_cast<int64_t>(held.samples.size())}, at::kLong));
  if (moved && accumulation_) accumulation_->forget();
}

Context Engine::context(size_t input, Activations& activations, Mode mode) {
  const Input& in = inputs_[input];
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
          .cache = nullptr};
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
  for (int b = blocks() - 1; b >= first_trainable_; --b) {
    const Weights w = use_weights(b, Pass::backward);
    context.scratch = activations.scratch(b);
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
  PARTITA_CHECK(data_.size() == 1 && !offloads(options_), "a step with collectives or offload cannot be recorded");
  accumulation_ = make_repeated(options_.device);
}

void Engine::accumulate_gradients() {
  const auto micro_batches = static_cast<size_t>(options_.micro_batches);
  sums_.zero_();
  for (size_t i = 0; i < micro_batches; ++i) {
    Context c = context(i, activations_, Mode::train);
    forward(c, activations_);
    if (host_) host_->finish();  // the gradients that it reads are about to be written
    backward(c, activations_, i + 1 == micro_batches);
  }
  grads_->finish();

  grads_->sum_of_squares(sums_.narrow(0, 0, 1));
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
  now.skip = result.skipped ? 1 : 0;
  const double clip = input.clip > 0 ? std::min(1.0, input.clip / (result.grad_norm + 1e-6)) : 1.0;
  now.gradient_scale = static_cast<float>(clip / scale);
  now_.publish();
  const TraceSpan span("update");
  host_ ? update_on_host() : update();
  return result;
}

void Engine::update() {
  if (optimizer_->needs_norms()) {
    norms_.zero_();
    for (size_t u = 0; u < plan_.units.size(); ++u)
      if (plan_.units[u].trainable) optimizer_->measure(shards_[u], norms_, now_.device());
    compute_->wait(zero_.shard->all_reduce(norms_, Reduce::sum, *compute_));
  }
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    if (!plan_.units[u].trainable) continue;
    optimizer_->step(shards_[u], norms_, now_.device());
    weights_.publish(static_cast<int>(u));
  }
}

// The vectors first, which the first layer reads: then the next forward follows the update unit by unit.
void Engine::update_on_host() {
  std::vector<size_t> order;
  for (const bool vectors : {true, false})
    for (size_t u = 0; u < plan_.units.size(); ++u)
      if (plan_.units[u].trainable && (plan_.units[u].pool == Pool::own) == vectors) order.push_back(u);
  for (size_t u : order) grads_->await(static_cast<int>(u));
  host_now_ = now_.host;
  if (optimizer_->needs_norms()) {
    norms_.zero_();
    for (size_t u : order) optimizer_->measure(shards_[u], norms_, &host_now_);
    zero_.shard->all_reduce(norms_, Reduce::sum, *compute_).wait();
  }
  for (size_t u : order) {
    const int unit = static_cast<int>(u);
    weights_.publish(unit, host_->update(unit, weights_.slice(unit), compute_->record(),
                                         [this, u] { optimizer_->step(shards_[u], norms_, &host_now_); }));
  }
}

EvalResult Engine::evaluate(const Batch& batch) {
  sums_.zero_();
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
  Context c = context(0, *inference_, Mode::infer);
  c.logits = at::empty({batch.shape().samples, vocabulary}, at::TensorOptions(at::kFloat).device(options_.device));
  c.cache = cache;
  forward(c, *inference_);
  if (cache != nullptr) cache->past += batch.shape().length;
  return c.logits.to(at::kCPU);
}

EngineMemory Engine::memory() const {
  EngineMemory m{.weights = weights_.bytes(), .gradients = grads_ ? grads_->bytes() : 0};
  if (host_) m.host = host_->bytes() + grads_->host_bytes();
  for (const ShardView& s : shards_) {
    if (s.gradient.defined() && host_) continue;
    if (!s.weight.is_same(s.master)) m.master += static_cast<int64_t>(s.master.nbytes());
    for (const at::Tensor& state : s.states) m.optimizer += static_cast<int64_t>(state.nbytes());
  }
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
