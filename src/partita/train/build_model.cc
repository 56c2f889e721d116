#include "partita/train/build_model.h"

#include <algorithm>
#include <iterator>

#include "partita/base/error.h"
#include "partita/engine/graph_pays.h"
#include "partita/engine/initial_weights.h"
#include "partita/models/model.h"
#include "partita/tokenizer/tokenizer.h"
#include "partita/train/frozen.h"

namespace partita {

Keep keep_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return Keep::all;
    case Recompute::selective:
      return Keep::selective;
    case Recompute::mlp:
      return Keep::attention;
    case Recompute::full:
      return Keep::entry;
  }
  fail("unknown recompute mode {}", static_cast<int>(recompute));
}

namespace {

// Whether forward and backward are recorded as a graph.
bool wants_graph(const Config& c, std::span<const std::unique_ptr<Block>> blocks, int ranks, at::Device device) {
  const bool offloads = c.train.offload_optimizer || c.train.offload_activations > 0;
  const bool possible = device.is_cuda() && ranks == 1 && !offloads;
  if (c.train.cuda_graph == Switch::on && !possible)
    fail("train.cuda_graph is true on {} with {} rank(s){}: a step can be recorded on a GPU, for one rank, without "
         "offload; use auto",
         device.str(), ranks, offloads ? " and offload" : "");
  if (c.train.cuda_graph != Switch::automatic || !possible) return c.train.cuda_graph == Switch::on;
  int64_t most = 0;
  for (size_t b = 1; b + 1 < blocks.size(); ++b) {
    int64_t parameters = 0;
    for (const ParameterSpec& p : blocks[b]->parameters()) parameters += p.count();
    most = std::max(most, parameters);
  }
  return graph_pays(most, c.train.micro_batch * c.train.sequence_length);
}

}  // namespace

std::unique_ptr<Engine> build_training_engine(const Config& c, const Zero& zero, Communicator& data,
                                              at::Device device) {
  if (device.is_cpu() && (c.train.offload_optimizer || c.train.offload_activations > 0))
    fail("train.{} on the CPU: all lies in host memory already; leave it out, or train on cuda",
         c.train.offload_optimizer ? "offload_optimizer" : "offload_activations");
  std::vector<std::unique_ptr<Block>> blocks = make_blocks(c.model, c.train.precision, c.lora, device, c.train.fp8 != Fp8Recipe::off);
  const FrozenParameters frozen(c.train.freeze, c.lora);
  const EngineOptions options{.shape = {.samples = c.train.micro_batch, .length = c.train.sequence_length},
                              .micro_batches = static_cast<int>(accumulation_steps(c, data.size())),
                              .width = c.model.hidden_size,
                              .compute = c.train.precision,
                              .states = c.train.states,
                              .fp32_gradients = c.train.fp32_gradients,
                              .keep = keep_of(c.train.recompute),
                              .entry_layers = static_cast<int>(c.train.recompute_full_layers),
                              .blocks_per_unit = static_cast<int>(c.parallel.blocks_per_unit),
                              .device = device,
                              .optimizer = {.kind = c.optimizer.kind,
                                            .beta1 = c.optimizer.beta1,
                                            .beta2 = c.optimizer.beta2,
                                            .epsilon = c.optimizer.epsilon,
                                            .momentum = c.optimizer.momentum,
                                            .weight_decay = c.optimizer.weight_decay},
                              .frozen = frozen,
                              .offload = {.optimizer = c.train.offload_optimizer,
                                          .activations = static_cast<int>(c.train.offload_activations),
                                          .copies = {}},
                              .seed = static_cast<uint64_t>(c.train.seed),
                              .graph = wants_graph(c, blocks, data.size(), device),
                              .poison = c.debug.poison};
  std::vector<ParameterSpec> parameters;
  for (const auto& block : blocks) std::ranges::move(block->parameters(), std::back_inserter(parameters));
  frozen.check(parameters);
  return std::make_unique<Engine>(std::move(blocks), zero, data, options);
}

std::unique_ptr<Engine> build_inference_engine(const ModelConfig& model, const LoraConfig& lora, DType compute,
                                               Shape shape, const Zero& zero, Communicator& data,
                                               at::Device device) {
  const EngineOptions options{.shape = shape,
                              .width = model.hidden_size,
                              .compute = compute,
                              .states = compute,
                              .keep = Keep::nothing,
                              .device = device,
                              .training = false};
  return std::make_unique<Engine>(make_blocks(model, compute, lora, device), zero, data, options);
}

void load_weights(Engine& engine, const ModelSource& source, uint64_t seed) {
  std::vector<ParameterSpec> wanted = engine.parameters();
  const bool new_adapters = source.lora.rank == 0;
  if (new_adapters) std::erase_if(wanted, [](const ParameterSpec& p) { return p.adapter; });
  source.weights->check(wanted);
  engine.set_weights([&](const ParameterSpec& p, int64_t begin, std::span<float> out) {
    if (p.adapter && new_adapters)
      initial_weights(out, p, seed, begin);
    else
      source.weights->read(p, begin, out);
  });
}

void complete_model(Config& c) {
  const bool named = !c.data.tokenizer.empty();
  if (!named && !c.from.empty()) c.data.tokenizer = open_model(c.from, c.base).tokenizer;
  if (c.data.tokenizer.empty()) return;
  // Beside token files it is only handed on: it may be of a kind that is not read here.
  if (!named && c.data.format == DataFormat::tokens && c.model.vocab_size > 0) return;
  const int64_t tokens = load_tokenizer(c.data.tokenizer)->vocab_size();
  if (c.model.vocab_size == 0) c.model.vocab_size = tokens;
  if (c.model.vocab_size < tokens)
    fail("model.vocab_size is {}, {} has {} tokens: use at least {}", c.model.vocab_size, c.data.tokenizer.string(),
         tokens, tokens);
}

}  // namespace partita
