#include "partita/train/build_model.h"

#include "partita/base/error.h"
#include "partita/models/gpt2.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {
namespace {

Keep keep_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return Keep::all;
    case Recompute::selective:
      return Keep::selective;
    case Recompute::full:
      return Keep::entry;
  }
  fail("unknown recompute mode {}", static_cast<int>(recompute));
}

}  // namespace

std::unique_ptr<Engine> build_training_engine(const Config& c, const Zero& zero, Communicator& data) {
  const EngineOptions options{.shape = {.samples = c.train.micro_batch, .length = c.train.sequence_length},
                              .micro_batches = static_cast<int>(accumulation_steps(c, data.size())),
                              .width = c.model.hidden_size,
                              .compute = c.train.precision,
                              .keep = keep_of(c.train.recompute),
                              .blocks_per_unit = static_cast<int>(c.parallel.blocks_per_unit),
                              .optimizer = {.beta1 = c.optimizer.beta1,
                                            .beta2 = c.optimizer.beta2,
                                            .epsilon = c.optimizer.epsilon,
                                            .weight_decay = c.optimizer.weight_decay},
                              .seed = static_cast<uint64_t>(c.train.seed),
                              .poison = c.debug.poison};
  return std::make_unique<Engine>(make_gpt2(c.model, c.train.precision), zero, data, options);
}

std::unique_ptr<Engine> build_inference_engine(const ModelConfig& model, Communicator& self) {
  const EngineOptions options{.shape = {.samples = 1, .length = 1}, .width = model.hidden_size, .training = false};
  return std::make_unique<Engine>(make_gpt2(model, DType::fp32), make_zero(0, self, self), self, options);
}

void complete_model(Config& c) {
  if (c.data.tokenizer.empty()) return;
  const int64_t tokens = load_tokenizer(c.data.tokenizer)->vocab_size();
  if (c.model.vocab_size == 0) c.model.vocab_size = tokens;
  if (c.model.vocab_size < tokens)
    fail("model.vocab_size is {}, {} has {} tokens: use at least {}", c.model.vocab_size, c.data.tokenizer.string(),
         tokens, tokens);
}

}  // namespace partita
