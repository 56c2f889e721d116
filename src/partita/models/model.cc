#include "partita/models/model.h"

#include "partita/base/error.h"
#include "partita/models/gpt2.h"
#include "partita/models/llama.h"
#include "partita/ops/fp8.h"

namespace partita {
using namespace internal;
namespace {

LoraOptions options_of(const LoraConfig& lora, ModelKind kind) {
  if (lora.rank == 0) return {};
  LoraOptions options{.rank = lora.rank,
                      .scale = static_cast<float>(lora.alpha / static_cast<double>(lora.rank)),
                      .dropout = static_cast<float>(lora.dropout),
                      .parts = {}};
  for (const LoraTarget& target : adapted_targets(lora, kind)) options.parts.emplace_back(target.part);
  return options;
}

}  // namespace

std::vector<std::unique_ptr<Block>> make_blocks(const ModelConfig& config, DType compute, const LoraConfig& lora,
                                                at::Device device, bool fp8, const TensorSplit& tensor,
                                                const ContextSplit& context, bool leaves_operands,
                                                const TensorDivision& division) {
  validate(config);
  validate(lora, config.kind);
  if (config.vocab_size < 1) fail("model.vocab_size is not known: set it, or name a tokenizer in data.tokenizer");
  if (fp8 && compute != DType::bf16) fail("fp8 needs compute in bf16, not {}: use precision bf16", name_of(compute));
  if (fp8) check_fp8_device(device);
  const BlockBuild build{.compute = compute,
                         .lora = options_of(lora, config.kind),
                         .device = device,
                         .fp8 = fp8,
                         .tensor = tensor,
                         .context = context,
                         .leaves_operands = leaves_operands,
                         .division = division};
  return config.kind == ModelKind::gpt2 ? make_gpt2(config, build) : make_llama(config, build);
}

}  // namespace partita
