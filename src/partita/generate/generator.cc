#include "partita/generate/generator.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/thread_limit.h"
#include "partita/base/timer.h"
#include "partita/generate/decoder.h"
#include "partita/interop/model_tokenizer.h"
#include "partita/train/build_model.h"
#include "partita/train/memory_forecast.h"

namespace partita {
using namespace internal;
namespace {

// Tokens that end a text: eos_token_id of generation_config.json or config.json, one or several, and the tokenizer's
// end of document, which training on prompts appends to completions.
std::vector<int32_t> end_tokens(const GenerationConfig& generation, const Tokenizer& tokenizer) {
  std::vector<int32_t> ends;
  if (const auto end = tokenizer.end_of_document()) ends.push_back(*end);
  for (const int64_t id : generation.eos_token_ids) ends.push_back(static_cast<int32_t>(id));
  return ends;
}

}  // namespace

size_t whole_characters(std::string_view bytes) {
  // A character has at most 4 bytes: look among the last 3 for a lead byte that announces more bytes than follow.
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return bytes.size();
    if (byte < 0xC0) continue;  // continuation byte
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

double GenerateReport::tokens_per_second() const {
  return tokens > 1 && seconds > 0 ? static_cast<double>(tokens - 1) / seconds : 0;
}

Generator Generator::open(const Paths& paths, const Mesh& mesh, DType compute) {
  if (mesh.layout().ranks() != 1)
    fail("generation runs on one rank, found a mesh of {}: use Mesh::alone(world)", mesh.layout().ranks());
  const at::Device device = mesh.device();
  const ModelSource source = open_model(paths.path, paths.base);
  show_warnings(source);
  Generator g;
  g.path_ = source.path;
  g.model_ = source.model;
  g.published_ = source.generation;
  g.tokenizer_ = load_tokenizer_of(source, paths.tokenizer);
  g.ends_ = end_tokens(source.generation, *g.tokenizer_);
  g.compute_ = compute;
  g.device_ = device;
  require_threads(at::get_num_threads());
  log_memory_warning(std::array{require_inference_memory(
      {.model = source.model, .lora = source.lora, .compute = compute, .shape = {}}, 1, 1, device)});
  g.engine_ = build_inference_engine(source.model, source.lora, compute, {.samples = 1, .length = 1}, mesh);
  load_weights(*g.engine_, source, 0);
  return g;
}

GenerateReport Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                   const std::function<void(std::string_view)>& piece) {
  validate(options.sampling);
  GenerateReport report;
  std::vector<int32_t> next;
  PromptEncoder encoder(*tokenizer_, options.specials);
  encoder.prompt(prompt, next);
  if (encoder.unread())
    log::warn("{}", describe(*encoder.unread(), "the prompt", "--allow-special reads them as tokens"));
  const auto end = tokenizer_->end_of_document();
  if (next.empty()) {
    if (!end) fail("an empty prompt needs a tokenizer with an end-of-document token: give a prompt");
    next.push_back(*end);
  }
  report.prompt_tokens = static_cast<int64_t>(next.size());
  if (report.prompt_tokens > model_.max_length)
    log::warn("the prompt has {} tokens and the model takes {}: it sees only the last {}", report.prompt_tokens,
              model_.max_length, Decoder::kept_tokens(model_.max_length));
  const int64_t most_tokens = report.prompt_tokens + std::min(options.tokens, model_.max_length);
  log_memory_warning(std::array{
      require_inference_memory({.model = model_,
                                .compute = compute_,
                                .shape = {.samples = 1, .length = std::min(report.prompt_tokens, model_.max_length)},
                                .holds_weights = true,
                                .cached_tokens = std::min(most_tokens, model_.max_length)},
                               1, 1, device_)});
  Decoder decoder(*engine_, model_, compute_, most_tokens, device_);
  const size_t known =
      static_cast<size_t>(tokenizer_->vocab_size());  // extra rows of a padded token table correspond to no text
  if (!prompt.empty()) piece(prompt);
  std::string pending;
  Timer timer;
  while (report.tokens < options.tokens) {
    const at::Tensor logits = decoder.append(next);
    if (report.tokens == 0) report.prompt_seconds = timer.lap();
    const double draw = uniform(options.seed, report.tokens);
    const int32_t token = sample({logits.const_data_ptr<float>(), known}, options.sampling, draw);
    ++report.tokens;
    if (std::ranges::find(ends_, token) != ends_.end()) break;
    next = {token};
    pending += tokenizer_->bytes_of(token);
    const size_t whole = whole_characters(pending);
    if (whole > 0) piece(std::string_view(pending).substr(0, whole));
    pending.erase(0, whole);
  }
  if (!pending.empty()) piece(pending);
  report.seconds = timer.seconds();
  return report;
}

}  // namespace partita
