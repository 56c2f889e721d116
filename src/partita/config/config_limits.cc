#include "partita/config/config_limits.h"

#include <array>

#include "partita/base/thread_limit.h"
#include "partita/models/size_limits.h"

namespace partita::internal {
namespace {

constexpr double kMostSamples = 1 << 30, kMostSteps = 1e12, kMostCount = 1e9, kMostLength = 1e15, kMostRate = 1000;

struct Limit {
  const char* key;
  double most;
};

constexpr std::array kLimits = {
    Limit{"model.layers", kMostLayers},
    Limit{"model.hidden_size", kMostWidth},
    Limit{"model.heads", kMostHeads},
    Limit{"model.kv_heads", kMostHeads},
    Limit{"model.head_width", kMostHeads},
    Limit{"model.ffn_hidden_size", kMostFfnWidth},
    Limit{"model.vocab_size", kMostPositions},
    Limit{"model.max_length", kMostPositions},
    Limit{"model.init_std", 1000},
    Limit{"model.norm_epsilon", 1},
    Limit{"model.rope_theta", 1e15},
    Limit{"model.rope_factor", 1e6},
    Limit{"model.rope_low_frequency", 1e6},
    Limit{"model.rope_high_frequency", 1e6},
    Limit{"model.rope_original_length", kMostPositions},
    Limit{"lora.rank", kMostHeads},
    Limit{"lora.alpha", 1e6},
    Limit{"train.steps", kMostSteps},
    Limit{"train.sequence_length", kMostPositions},
    Limit{"train.micro_batch", kMostSamples},
    Limit{"train.global_batch", kMostSamples},
    Limit{"memory.recompute_full_layers", kMostLayers},
    Limit{"memory.offload_activations", kMostLayers},
    Limit{"train.threads", kMostThreads},
    Limit{"optimizer.learning_rate", kMostRate},
    Limit{"optimizer.min_learning_rate", kMostRate},
    Limit{"optimizer.weight_decay", 1000},
    Limit{"optimizer.epsilon", 1},
    Limit{"optimizer.clip", 1e30},
    Limit{"loss_scale.initial", 1e30},
    Limit{"loss_scale.lowest", 1e30},
    Limit{"loss_scale.window", kMostCount},
    Limit{"schedule.warmup", kMostLength},
    Limit{"schedule.decay", kMostLength},
    Limit{"schedule.wsd_decay", kMostLength},
    Limit{"parallel.data", kMostCount},
    Limit{"parallel.tensor", kMostCount},
    Limit{"parallel.pipeline", kMostCount},
    Limit{"parallel.context", kMostCount},
    Limit{"parallel.virtual_stages", kMostLayers},
    Limit{"parallel.layers_per_collective", kMostLayers},
    Limit{"parallel.timeout_seconds", kMostCount},
    Limit{"eval.batches", kMostCount},
    Limit{"checkpoint.keep_last", kMostCount},
    Limit{"log.profile_steps", 1000},
};

}  // namespace

void limit_sizes(ConfigSchema& schema) {
  for (const auto& [key, most] : kLimits) schema.at_most(key, most);
}

}  // namespace partita::internal
