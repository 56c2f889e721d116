#include "partita/train/build_model.h"

#include <algorithm>
#include <iterator>

#include "partita/base/error.h"
#include "partita/config/frozen.h"
#include "partita/config/optimizer_place.h"
#include "partita/engine/graph_pays.h"
#include "partita/engine/initial_weights.h"
#include "partita/models/blocks.h"
#include "partita/models/model.h"
#include "partita/nn/layer.h"
#include "partita/ops/fp8.h"
#include "partita/tokenizer/tokenizer.h"
#include "partita/train/stages.h"

namespace partita {
using namespace internal;

bool records_steps(const Config& c, int64_t parameters_per_layer, int64_t ranks, bool on_gpu) {
  const bool offloads = optimizer_place(c.memory.optimizer).off_device() > 0 ||
                        parameters_place(c.memory.parameters).off_device() > 0 || c.memory.offload_activations > 0;
  const int64_t data = sharding_ranks(c, ranks);  // ranks that reduce gradients
  const bool possible = on_gpu && data == 1 && c.parallel.pipeline == 1 && !offloads && c.parallel.zero_stage < 3;
  if (c.kernels.cuda_graph == Switch::on && !possible)
    fail(
        "kernels.cuda_graph is true on {} with {} data-parallel rank{}{}, ZeRO stage {}{}: it needs a GPU, one "
        "data-parallel rank, ZeRO 0-2, no pipeline and no offload; use auto",
        on_gpu ? "a GPU" : "the CPU", data, data == 1 ? "" : "s", c.parallel.pipeline > 1 ? " and a pipeline" : "",
        c.parallel.zero_stage, offloads ? " and offload" : "");
  if (c.kernels.cuda_graph != Switch::automatic) return c.kernels.cuda_graph == Switch::on;
  // An upper bound, where something is on every rank.
  const int64_t own = c.parallel.plan.empty() ? parameters_per_layer / c.parallel.tensor : parameters_per_layer;
  return possible && graph_pays(own, tokens_of_micro_batch(c));
}

int64_t parameters_per_layer(const Config& c) {
  ModelConfig small = c.model;
  small.layers = 2, small.vocab_size = 1, small.max_length = 1;
  int64_t count = 0;
  // Block 0 is the embedding. Block 2, the second layer, also has the bias applied at its input.
  for (const ParameterSpec& p : make_blocks(small, c.precision.compute, c.lora)[2]->parameters()) count += p.count();
  return count;
}

namespace {

// Whether some linear of a layer runs in fp8: its sizes permit it on every tensor-parallel rank.
bool some_fp8_fits(const ModelConfig& m, int64_t rows, int ranks, const TensorDivision& division, int64_t layer) {
  bool qkv = true, output = true, up = true;  // down only if up does
  for (int rank = 0; rank < ranks; ++rank) {
    const LocalLayer own =
        local_layer(layer_options(m, layer, {.tensor = {.rank = rank, .ranks = ranks}, .division = division}),
                    {.heads = m.heads, .kv_heads = m.key_value_heads(), .head_width = m.head_size()});
    qkv = qkv && fp8_fits(rows, m.hidden_size, own.qkv_width());
    output = output && fp8_fits(rows, own.query_width(), m.hidden_size);
    up = up && fp8_fits(rows, m.hidden_size, (m.kind == ModelKind::llama ? 2 : 1) * own.ffn_width);
  }
  return qkv || output || up;
}

bool some_fp8_fits(const ModelConfig& m, int64_t rows, int ranks, const TensorDivision& division) {
  for (int64_t l = 0; l < (division.layers.empty() ? 1 : m.layers); ++l)
    if (some_fp8_fits(m, rows, ranks, division, l)) return true;
  return false;
}

// Of all blocks, each once.
std::vector<ParameterSpec> model_parameters(const Config& c, int tensor_rank, const FrozenParameters& frozen) {
  std::vector<ParameterSpec> all;
  for (const auto& block : make_blocks(c.model, c.precision.compute, c.lora, at::kCPU, false,
                                       tensor_split(c, tensor_rank), {}, false, tensor_division(c)))
    for (ParameterSpec& p : block->parameters()) {
      if (std::ranges::find(all, p.name, &ParameterSpec::name) != all.end()) continue;
      p.trainable = !frozen(p);
      all.push_back(std::move(p));
    }
  return all;
}

}  // namespace

// If linears of the residual stream's width do not qualify, hardly any do.
void check_fp8_sizes(const Config& c) {
  const int64_t rows = tokens_of_micro_batch(c), width = c.model.hidden_size;
  if (c.precision.fp8 == Fp8Recipe::off) return;
  if (!fp8_fits(rows, width, width))
    fail(
        "precision.fp8 is {} with {} tokens per micro-batch (train.micro_batch x sequence_length{}) and "
        "model.hidden_size {}: fp8 matmuls need multiples of 16",
        name_of(c.precision.fp8), rows, c.parallel.context > 1 ? " / parallel.context" : "", width);
  if (const int64_t tensor = c.parallel.tensor;
      tensor > 1 && !some_fp8_fits(c.model, rows, static_cast<int>(tensor), tensor_division(c)))
    fail(
        "precision.fp8 is {} with parallel.tensor {}: of each matrix of a layer, some rank has a part whose size is no "
        "multiple of 16, as fp8 matmuls need; use another parallel.tensor",
        name_of(c.precision.fp8), tensor);
}

EngineOptions training_options(const Config& c, int64_t ranks, at::Device device, MeshLayout::Position at) {
  const FrozenParameters frozen(c.train.freeze, c.lora);
  std::vector<ParameterSpec> whole;
  if (c.parallel.pipeline > 1) whole = model_parameters(c, at.tensor, frozen);
  const OptimizerPlace place = optimizer_place(c.memory.optimizer);
  const OptimizerPlace weights = parameters_place(c.memory.parameters);
  return {.shape = {.samples = c.train.micro_batch, .length = tokens_of_sample(c)},
          .micro_batches = static_cast<int>(accumulation_steps(c, ranks)),
          .width = c.model.hidden_size,
          .compute = c.precision.compute,
          .states = c.precision.states,
          .fp32_gradients = c.precision.fp32_gradients,
          .recompute = c.memory.recompute,
          .full_recompute_layers = static_cast<int>(own_layers_below(c, at.pipeline, c.memory.recompute_full_layers)),
          .layers_per_unit = static_cast<int>(c.parallel.layers_per_collective),
          .tensor = tensor_split(c, at.tensor),
          .context = context_split(c, at.context),
          .pipeline = training_stage(c, ranks, at.pipeline, frozen),
          .model_parameters = std::move(whole),
          .device = device,
          .optimizer = {.kind = c.optimizer.kind,
                        .beta1 = c.optimizer.beta1,
                        .beta2 = c.optimizer.beta2,
                        .epsilon = c.optimizer.epsilon,
                        .momentum = c.optimizer.momentum,
                        .weight_decay = c.optimizer.weight_decay},
          .frozen = frozen,
          .offload = {.optimizer = place.host,
                      .disk = place.disk,
                      .disk_folder = disk_folder(c),
                      .weights = weights.host,
                      .weights_disk = weights.disk,
                      .gradients = c.memory.gradients_on_host,
                      .early_updates = c.memory.early_updates,
                      .activations = static_cast<int>(own_layers_below(c, at.pipeline, c.memory.offload_activations)),
                      .copies = {}},
          .delayed_scales = c.precision.fp8 == Fp8Recipe::delayed,
          .seed = static_cast<uint64_t>(c.train.seed),
          .graph = records_steps(c, parameters_per_layer(c), ranks, device.is_cuda()),
          .poison = c.debug.poison,
          .check_messages = c.debug.check_messages};
}

std::vector<std::unique_ptr<Block>> training_blocks(const Config& c, at::Device device, MeshLayout::Position at) {
  return take_stage(
      make_blocks(c.model, c.precision.compute, c.lora, device, c.precision.fp8 != Fp8Recipe::off,
                  tensor_split(c, at.tensor), context_split(c, at.context), delays_weights(c), tensor_division(c)),
      c, at.pipeline);
}

at::Device planning_device(at::Device device) { return device.is_cpu() ? device : at::Device(at::kMeta); }

MeshLayout::Sizes mesh_sizes(const Config& c, int64_t ranks) {
  return {.data = static_cast<int>(data_ranks(c, ranks)),
          .tensor = static_cast<int>(c.parallel.tensor),
          .pipeline = static_cast<int>(c.parallel.pipeline),
          .context = static_cast<int>(c.parallel.context),
          .kv_heads = static_cast<int>(c.model.key_value_heads())};
}

std::unique_ptr<Engine> make_engine(const ModelConfig& model, const Mesh& mesh, int zero_stage, EngineOptions options,
                                    const ModelBuild& build) {
  const MeshLayout::Sizes& sizes = mesh.layout().sizes();
  if (sizes.pipeline > 1) fail("make_engine: a mesh of {} pipeline stages: not built yet, use 1", sizes.pipeline);
  const TensorDivision division = [&] {
    try {
      return divide_model(model, build.plan);
    } catch (const Error& error) {
      fail("ModelBuild::plan: {}", error.what());
    }
  }();
  if (sizes.tensor > model.key_value_heads() && sizes.kv_heads != model.key_value_heads())
    fail("make_engine: {} tensor-parallel ranks share {} key/value heads: set MeshLayout::Sizes::kv_heads to {}",
         sizes.tensor, model.key_value_heads(), model.key_value_heads());
  options.tensor.rank = mesh.position().tensor;
  options.tensor.ranks = sizes.tensor;
  options.context = {.rank = mesh.position().context, .ranks = sizes.context};
  options.width = model.hidden_size;
  options.device = mesh.device();
  if (!options.training) options.states = options.compute;
  if (options.delayed_scales && !build.fp8) fail("EngineOptions::delayed_scales without ModelBuild::fp8: set both");
  if (build.fp8 && !fp8_fits(options.shape.rows(), model.hidden_size, model.hidden_size))
    fail("fp8 with {} tokens per micro-batch and hidden_size {}: fp8 matmuls need multiples of 16",
         options.shape.rows(), model.hidden_size);
  if (build.fp8 && sizes.tensor > 1 && !some_fp8_fits(model, options.shape.rows(), sizes.tensor, division))
    fail(
        "fp8 over {} tensor-parallel ranks: of each matrix of a layer, some rank has a part whose size is no multiple "
        "of 16, as fp8 matmuls need; use another number of ranks",
        sizes.tensor);
  if (build.lora.rank > 0)
    options.frozen = [base = FrozenParameters("", build.lora), other = options.frozen](const ParameterSpec& p) {
      return base(p) || (other && other(p));
    };
  auto engine = std::make_unique<Engine>(make_blocks(model, options.compute, build.lora, mesh.device(), build.fp8,
                                                     options.tensor, options.context, false, division),
                                         make_zero(zero_stage, mesh), mesh.data_context(), options);
  engine->initialize(options.seed);
  return engine;
}

std::filesystem::path disk_folder(const Config& c) {
  return c.memory.disk_folder.empty() ? c.run.directory : c.memory.disk_folder;
}

void check_offload(const Config& c, at::Device device) {
  if (!device.is_cpu()) return;
  const auto refuse = [](const std::string& setting, const char* instead) {
    fail("memory.{} on the CPU: everything is in host memory already; leave it out{}, or train on cuda", setting,
         instead);
  };
  if (optimizer_place(c.memory.optimizer).host > 0)
    refuse(fmt::format("optimizer is \"{}\"", c.memory.optimizer), " or use \"disk\" alone");
  if (parameters_place(c.memory.parameters).host > 0)
    refuse(fmt::format("parameters is \"{}\"", c.memory.parameters), " or use \"disk\" alone");
  if (c.memory.gradients_on_host) refuse("gradients_on_host", "");
  if (c.memory.offload_activations > 0) refuse("offload_activations", "");
}

std::unique_ptr<Engine> build_training_engine(const Config& c, const Mesh& mesh) {
  const at::Device device = mesh.device();
  check_offload(c, device);
  check_fp8_sizes(c);
  std::vector<std::unique_ptr<Block>> blocks = training_blocks(c, device, mesh.position());
  const EngineOptions options = training_options(c, mesh.layout().ranks(), device, mesh.position());
  const FrozenParameters frozen(c.train.freeze, c.lora);
  frozen.check(model_parameters(c, mesh.position().tensor, frozen));
  const Zero zero = make_zero(static_cast<int>(c.parallel.zero_stage), mesh);
  return std::make_unique<Engine>(std::move(blocks), zero, mesh.data_context(), options);
}

EngineOptions inference_options(const ModelConfig& model, DType compute, Shape shape, at::Device device) {
  return {.shape = shape,
          .width = model.hidden_size,
          .compute = compute,
          .states = compute,
          .device = device,
          .training = false};
}

std::unique_ptr<Engine> build_inference_engine(const ModelConfig& model, const LoraConfig& lora, DType compute,
                                               Shape shape, const Mesh& mesh, int zero_stage) {
  return std::make_unique<Engine>(make_blocks(model, compute, lora, mesh.device()),
                                  make_zero(zero_stage, mesh.self(), mesh.data()), mesh.data(),
                                  inference_options(model, compute, shape, mesh.device()));
}

void load_weights(Engine& engine, const ModelSource& source, uint64_t seed) {
  std::vector<ParameterSpec> wanted = engine.parameters();
  const bool new_adapters = source.lora.rank == 0;
  if (new_adapters) std::erase_if(wanted, [](const ParameterSpec& p) { return p.adapter; });
  source.weights->check(wanted);
  const FillWeights stored = from_host(
      [&source](const ParameterSpec& p, const Box& box, std::span<float> out) { source.weights->read(p, box, out); });
  engine.set_weights([&](const ParameterSpec& p, const Box& box, const at::Tensor& out) {
    if (p.adapter && new_adapters)
      initial_weights(out, p, seed, box);
    else
      stored(p, box, out);
  });
}

void complete_model(Config& c) {
  const bool named = !c.data.tokenizer.empty();
  open_source(c);
  if (!named && c.source != nullptr) c.data.tokenizer = c.source->tokenizer;
  if (c.data.tokenizer.empty()) return;
  // With token files the tokenizer is only copied, so its format need not be one that we can load.
  if (!named && c.data.format == DataFormat::tokens && c.model.vocab_size > 0) return;
  const int64_t tokens = load_tokenizer(c.data.tokenizer)->vocab_size();
  if (c.model.vocab_size == 0) c.model.vocab_size = tokens;
  if (c.model.vocab_size < tokens)
    fail("model.vocab_size is {}, {} has {} tokens: use at least {}", c.model.vocab_size, c.data.tokenizer.string(),
         tokens, tokens);
}

}  // namespace partita
