#include "partita/engine/engine.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "partita/base/error.h"
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
  if (!options.training) return {};
  const Sharding sharding{
      .ranks = zero.shard->size(), .few_weights = zero.few_weights, .few_gradients = zero.few_gradients};
  return gradient_lifetimes(plan, sharding, options.micro_batches);
}

std::vector<at::Tensor> masters_of(const UnitPlan& plan, const EngineOptions& options) {
  std::vector<at::Tensor> masters;
  for (const Unit& unit : plan.units)
    masters.push_back(options.training && unit.trainable && options.states != options.compute
                          ? flat_zeros(unit.layout.slice_count(), options.states, options.device)
                          : at::Tensor());
  return masters;
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
      arena_(make_arena(Activations::kept_bytes(blocks_, options.shape, keeps_), lifetimes_of(plan_, zero, options),
                        options.device)),
      compute_(make_stream(options.device, StreamUse::compute)),
      side_(make_stream(options.device, StreamUse::side)),
      masters_(masters_of(plan_, options)),
      weights_(plan_, zero, backward_reads_,
               {.poison = options.poison, .device = options.device, .masters = masters_}, *compute_, *side_),
      grads_(options.training ? std::make_unique<GradStore>(plan_, zero,
                                                            GradStore::Options{.micro_batches = options.micro_batches,
                                                                               .poison = options.poison,
                                                                               .device = options.device,
                                                                               .buffers = arena_.gradients,
                                                                               .slices = arena_.slices},
                                                            *compute_, *side_)
                              : nullptr),
      activations_(blocks_, options.shape, keeps_, arena_.kept, options.width, options.compute, options.device),
      optimizer_(make_optimizer(options.optimizer)),
      now_(options.device),
      sums_(at::zeros({2}, at::TensorOptions(at::kDouble).device(options.device))) {
  PARTITA_CHECK(options.states == DType::fp32 || options.states == options.compute, "states in {} with compute in {}",
                name_of(options.states), name_of(options.compute));
  now_.host.seed = options.seed;
  int parameters = 0;
  for (size_t u = 0; u < plan_.units.size(); ++u) {
    const Unit& unit = plan_.units[u];
    const int64_t count = unit.layout.slice_count();
    const at::Tensor weight = weights_.slice(static_cast<int>(u));
    const bool trained = grads_ && unit.trainable;
    shards_.push_back({.layout = &unit.layout,
                       .segments = slice_segments(unit.layout, zero_.shard->rank()),
                       .first_parameter = parameters,
                       .master = masters_[u].defined() ? masters_[u] : weight,
                       .gradient = trained ? grads_->gradient(static_cast<int>(u)) : at::Tensor(),
                       .weight = weight,
                       .states = trained ? optimizer_->make_states(count, options.states, options.device)
                                         : std::vector<at::Tensor>{}});
    parameters += static_cast<int>(unit.layout.parameters.size());
  }
  if (optimizer_->needs_norms()) norms_ = at::zeros({parameters, 2}, sums_.options());
}

void Engine::set_weights(const ReadWeights& read) {
  constexpr int64_t kPiece = 1 << 20;
  std::vector<float> piece;
  for (const OwnedRun& run : owned_runs()) {
    for (int64_t begin = 0; begin < run.count; begin += kPiece) {
      piece.resize(static_cast<size_t>(std::min(kPiece, run.count - begin)));
      read(*run.parameter, run.begin + begin, piece);
      const auto count = static_cast<int64_t>(piece.size());
      cast(run.values[0].narrow(0, begin, count), at::from_blob(piece.data(), {count}, at::kFloat).to(options_.device));
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
    if (shard.weight.defined() && !shard.weight.is_same(shard.master)) cast(shard.weight, shard.master);
    weights_.publish(static_cast<int>(u));
  }
}

std::vector<ParameterSpec> Engine::parameters() const {
  std::vector<ParameterSpec> all;
  for (const Unit& unit : plan_.units)
    all.insert(all.end(), unit.layout.parameters.begin(), unit.layout.parameters.end());
  return all;
}

Context Engine::context(const Batch& batch, Activations& activations, Mode mode) {
  const Shape shape = batch.shape();
  PARTITA_CHECK(shape == activations.shape(), "batch of {} x {} in memory for {} x {}", shape.samples, shape.length,
                activations.shape().samples, activations.shape().length);
  const auto here = [&](const at::Tensor& t) { return t.defined() ? t.to(options_.device, /*non_blocking=*/true) : t; };
  batch_ = {.tokens = here(batch.tokens),
            .labels = here(batch.labels),
            .positions = here(batch.positions),
            .samples = batch.samples,
            .first_keys = here(batch.first_keys)};
  const at::Tensor ids = at::from_blob(batch_.samples.data(), {shape.samples}, at::kLong);
  return {.mode = mode,
          .batch = &batch_,
          .now = now_.device(),
          .handed = activations.handed(),
          .scratch = {},
          .samples = here(ids),
          .loss = sums_.narrow(0, 1, 1),
          .logits = {},
          .cache = nullptr};
}

void Engine::forward(Context& context, Activations& activations) {
  Residual x;
  for (int b = 0; b < blocks(); ++b) {
    const Weights w = weights_.use(b, Pass::forward);
    weights_.prefetch(b, Pass::forward);
    context.scratch = activations.scratch(b);
    x = blocks_[static_cast<size_t>(b)]->forward(w, x, context, activations.saved(b));
    weights_.release(b, Pass::forward);
    data_.progress();
  }
}

void Engine::backward(Context& context, Activations& activations, bool last_micro_batch) {
  ResidualGrad g;
  for (int b = blocks() - 1; b >= first_trainable_; --b) {
    const Weights w = weights_.use(b, Pass::backward);
    weights_.prefetch(b, Pass::backward);
    context.scratch = activations.scratch(b);
    const Block& block = *blocks_[static_cast<size_t>(b)];
    Saved& saved = activations.saved(b);
    block.recompute(w, context, saved);
    const std::unique_ptr<Grads> open = grads_->open(b);
    g = block.backward(w, g, context, saved, *open);
    weights_.release(b, Pass::backward);
    grads_->close(b, last_micro_batch);
    data_.progress();
  }
}

int64_t Engine::count_valid_tokens(std::span<const Batch> batches) {
  at::Tensor count = at::zeros({1}, at::kLong);
  for (const Batch& batch : batches) *count.data_ptr<int64_t>() += valid_tokens(batch.labels);
  data_.all_reduce(count, Reduce::sum, *compute_).wait();  // of the host
  return *count.data_ptr<int64_t>();
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
  sums_.zero_();
  for (size_t i = 0; i < batches.size(); ++i) {
    Context c = context(batches[i], activations_, Mode::train);
    forward(c, activations_);
    backward(c, activations_, i + 1 == batches.size());
  }
  grads_->finish();

  grads_->sum_of_squares(sums_.narrow(0, 0, 1));
  compute_->wait(data_.all_reduce(sums_, Reduce::sum, *compute_));
  const at::Tensor sums = sums_.to(at::kCPU);  // the one moment of a step at which the host waits for the device
  check_device_values(options_.device);
  const double scale = input.loss_scale;
  result.grad_norm = std::sqrt(sums.data_ptr<double>()[0]) / scale;
  result.loss = sums.data_ptr<double>()[1] / static_cast<double>(std::max<int64_t>(result.tokens, 1));
  result.skipped = !std::isfinite(result.grad_norm);
  now.skip = result.skipped ? 1 : 0;
  const double clip = input.clip > 0 ? std::min(1.0, input.clip / (result.grad_norm + 1e-6)) : 1.0;
  now.gradient_scale = static_cast<float>(clip / scale);
  now_.publish();
  update();
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

EvalResult Engine::evaluate(const Batch& batch) {
  sums_.zero_();
  Context c = context(batch, activations_, Mode::evaluate);
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
  Context c = context(batch, *inference_, Mode::infer);
  c.logits = at::empty({batch.shape().samples, vocabulary}, at::TensorOptions(at::kFloat).device(options_.device));
  c.cache = cache;
  forward(c, *inference_);
  if (cache != nullptr) cache->past += batch.shape().length;
  return c.logits.to(at::kCPU);
}

EngineMemory Engine::memory() const {
  EngineMemory m{.weights = weights_.bytes(), .gradients = grads_ ? grads_->bytes() : 0};
  for (const ShardView& s : shards_) {
    if (!s.weight.is_same(s.master)) m.master += static_cast<int64_t>(s.master.nbytes());
    for (const at::Tensor& state : s.states) m.optimizer += static_cast<int64_t>(state.nbytes());
  }
  m.shared = arena_.shared_bytes;
  m.activations = activations_.kept_bytes();
  m.temporaries = activations_.temporary_bytes();
  return m;
}

}  // namespace partita
