#include "partita/generate/generator.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <numeric>

#include "partita/base/error.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/train/build_model.h"
#include "partita/train/engine_state.h"
#include "partita/train/run_state.h"

namespace partita {
namespace {

// The checkpoint's own, or that of its run: RUN/checkpoints/step-....
std::filesystem::path find_tokenizer(const std::filesystem::path& checkpoint) {
  const std::filesystem::path folder = std::filesystem::canonical(checkpoint);
  for (const std::filesystem::path& place : {folder, folder.parent_path(), folder.parent_path().parent_path()})
    for (const char* name : {"tokenizer.json", "vocab.json"})
      if (std::filesystem::exists(place / name)) return place / name;
  fail("no tokenizer.json or vocab.json in or above {}: name a tokenizer with --tokenizer", checkpoint.string());
}

}  // namespace

size_t whole_characters(std::string_view bytes) {
  // A character has at most 4 bytes: look for a leading byte among the last 3 that promises more than there is.
  for (size_t back = 1; back <= std::min<size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return bytes.size();
    if (byte < 0xC0) continue;  // a continuation
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? bytes.size() - back : bytes.size();
  }
  return bytes.size();
}

Generator Generator::open(const std::filesystem::path& path, const std::filesystem::path& tokenizer,
                          Communicator& self) {
  Generator g;
  g.checkpoint_ = resolve_checkpoint(path);
  g.model_ = run_state(read_scalars(g.checkpoint_), g.checkpoint_).model;
  g.tokenizer_ = load_tokenizer(tokenizer.empty() ? find_tokenizer(g.checkpoint_) : tokenizer);
  if (g.tokenizer_->vocab_size() > g.model_.vocab_size)
    fail("the tokenizer has {} tokens, the model of {} knows {}: use the tokenizer it was trained with",
         g.tokenizer_->vocab_size(), g.checkpoint_.string(), g.model_.vocab_size);
  g.engine_ = build_inference_engine(g.model_, self);
  Alone alone;
  (void)load_checkpoint(g.checkpoint_, wanted_weights(*g.engine_), alone, {.ignore = {"adamw."}});
  g.engine_->publish_weights();
  return g;
}

void Generator::generate(std::string_view prompt, const GenerateOptions& options,
                         const std::function<void(std::string_view)>& piece) {
  validate(options.sampling);
  std::vector<int32_t> ids = tokenizer_->encode(prompt);
  const auto end = tokenizer_->end_of_document();
  if (ids.empty()) {
    if (!end) fail("an empty prompt needs a tokenizer with an end-of-document token: give a prompt");
    ids.push_back(*end);
  }
  std::vector<int32_t> positions(static_cast<size_t>(model_.max_length));
  std::iota(positions.begin(), positions.end(), 0);
  const size_t known = static_cast<size_t>(tokenizer_->vocab_size());  // rows of a padded table stand for no text
  std::string pending;
  for (int64_t i = 0; i < options.tokens; ++i) {
    const int64_t length = std::min<int64_t>(static_cast<int64_t>(ids.size()), model_.max_length);
    const Batch batch{
        .tokens = at::from_blob(ids.data() + (static_cast<int64_t>(ids.size()) - length), {1, length}, at::kInt),
        .labels = {},
        .positions = at::from_blob(positions.data(), {1, length}, at::kInt),
        .samples = {0}};
    const at::Tensor logits = engine_->logits(batch, model_.vocab_size);
    const int32_t token = sample({logits.data_ptr<float>(), known}, options.sampling, uniform(options.seed, i));
    if (end && token == *end) break;
    ids.push_back(token);
    pending += tokenizer_->bytes_of(token);
    const size_t whole = whole_characters(pending);
    if (whole > 0) piece(std::string_view(pending).substr(0, whole));
    pending.erase(0, whole);
  }
  if (!pending.empty()) piece(pending);
}

}  // namespace partita
