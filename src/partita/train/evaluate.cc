#include "partita/train/evaluate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/checkpoint/communicator_peers.h"
#include "partita/comm/host_threads.h"
#include "partita/comm/mesh.h"
#include "partita/data/batch_reader.h"
#include "partita/data/padded_source.h"
#include "partita/data/prompt_dataset.h"
#include "partita/data/token_windows.h"
#include "partita/interop/model_tokenizer.h"
#include "partita/text/text_input.h"
#include "partita/train/build_model.h"
#include "partita/train/memory_forecast.h"
#include "partita/train/token_checks.h"
#include "partita/train/training_data.h"

namespace partita {
using namespace internal;
namespace {

constexpr int64_t kMostByDefault = 1024;

int64_t sequence_length_of(const EvaluateOptions& options, const ModelConfig& model) {
  if (options.sequence_length == 0) return std::min(model.max_length, kMostByDefault);
  if (options.sequence_length < 1 || options.sequence_length > model.max_length)
    fail("a sequence length of {}: the model takes 1 to {}", options.sequence_length, model.max_length);
  return options.sequence_length;
}

std::unique_ptr<SampleSource> open_data(const EvaluateOptions& options, const ModelSource& source, int64_t length,
                                        bool warns) {
  if (!is_json_lines(options.data, TextFormat::automatic)) {
    auto tokens = std::make_shared<const IndexedDataset>(options.data);
    Config config;  // the fields that the check reads
    config.model = source.model;
    config.data.tokenizer = options.tokenizer.empty() ? source.tokenizer : options.tokenizer;
    check_token_file(*tokens, config, warns ? 0 : 1, 1);
    return std::make_unique<TokenWindows>(std::move(tokens), length);
  }
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer_of(source, options.tokenizer);
  const auto examples = std::make_shared<const PromptExamples>(read_prompts(options.data, *tokenizer,
                                                                            {.prompt_key = options.prompt_key,
                                                                             .completion_key = options.completion_key,
                                                                             .specials = options.specials,
                                                                             .workers = at::get_num_threads()}));
  if (warns && examples->unread)
    log::warn("{}", describe(*examples->unread, options.data.string(), "--allow-special reads them as tokens"));
  auto dataset = std::make_unique<PromptDataset>(
      examples, SequenceRange{0, examples->size()},
      PromptDatasetSpec{.sequence_length = length, .shuffled = false, .packed = true, .too_long = TooLong::cut});
  log::info("{}: {}", options.data.string(), describe(dataset->summary()));
  return dataset;
}

}  // namespace

Evaluation evaluate(const std::filesystem::path& model, const EvaluateOptions& options, World& world) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (options.micro_batch < 1 || options.micro_batch > kMost)
    fail("a micro-batch of {}: 1 to {} samples expected", options.micro_batch, kMost);
  if (options.batches < 0 || options.batches > kMost)
    fail("{} batches: 0 (all) to {} expected", options.batches, kMost);
  configure_threads(world, 0);
  const at::Device device = select_device(options.device, world);
  if (device.is_cuda()) log::info("evaluating on {}", describe_device(device));
  const Mesh mesh(world, device);
  const ModelSource source = open_model(model, options.base);
  if (world.rank() == 0) show_warnings(source);
  const int64_t length = sequence_length_of(options, source.model);
  const std::unique_ptr<SampleSource> data = open_data(options, source, length, world.rank() == 0);

  // Collective: if one rank allocated first, the others would see less free memory.
  CommunicatorPeers peers(mesh.data());
  const std::vector<std::string> warnings = agree(peers, [&] {
    return require_inference_memory({.model = source.model,
                                     .lora = source.lora,
                                     .compute = options.precision,
                                     .shape = {.samples = options.micro_batch, .length = length},
                                     .zero_stage = options.zero_stage},
                                    world.size(), world.launch().local_size, device);
  });
  if (world.rank() == 0) log_memory_warning(warnings);
  const auto engine =
      build_inference_engine(source.model, source.lora, options.precision,
                             {.samples = options.micro_batch, .length = length}, mesh, options.zero_stage);
  load_weights(*engine, source, 0);

  const int64_t at_once = options.micro_batch * world.size();
  const int64_t samples =
      options.batches > 0 ? std::min(options.batches * options.micro_batch, data->size()) : data->size();
  const PaddedSource padded(*data, samples, at_once);
  const BatchReader reader(padded, make_batch_plan(at_once, options.micro_batch, world.size()), world.rank());
  TokenBatch buffer;
  EvalResult sum;
  for (int64_t consumed = 0; consumed < padded.size(); consumed += at_once) {
    reader.read(consumed, 0, buffer);
    const EvalResult r = engine->evaluate(view_of(buffer));
    sum.loss_sum += r.loss_sum;
    sum.tokens += r.tokens;
  }
  if (sum.tokens == 0)
    fail("{}: no token to predict in {} samples: give data with text after the first token", options.data.string(),
         samples);
  return {.loss = sum.loss_sum / static_cast<double>(sum.tokens), .tokens = sum.tokens, .samples = samples};
}

}  // namespace partita
