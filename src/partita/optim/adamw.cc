#include "partita/optim/adamw.h"

#include <array>

#include "partita/ops/adamw.h"
#include "partita/shard/flat_buffer.h"

namespace partita {

std::vector<OptimizerRun> optimizer_runs(const Layout& layout, int rank) {
  std::vector<OptimizerRun> runs;
  for (const Segment& s : slice_segments(layout, rank)) {
    const bool decay = layout.parameters[static_cast<size_t>(s.parameter)].decay;
    if (!runs.empty() && runs.back().decay == decay)
      runs.back().count = s.in_slice + s.count - runs.back().begin;
    else
      runs.push_back({s.in_slice, s.count, decay});
  }
  return runs;
}

std::span<const std::string> AdamWOptimizer::state_names() {
  static const std::array<std::string, 2> names = {"adamw.m", "adamw.v"};
  return names;
}

std::vector<at::Tensor> AdamWOptimizer::make_states(int64_t count) const {
  return {flat_zeros(count, DType::fp32), flat_zeros(count, DType::fp32)};
}

void AdamWOptimizer::step(std::span<const OptimizerRun> runs, const ShardView& shard, const StepScalars* now) const {
  for (const OptimizerRun& run : runs) {
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, run.begin, run.count); };
    adamw_step(part(shard.master), part(shard.states[0]), part(shard.states[1]), part(shard.gradient),
               part(shard.weight),
               {.beta1 = static_cast<float>(options_.beta1),
                .beta2 = static_cast<float>(options_.beta2),
                .epsilon = static_cast<float>(options_.epsilon),
                .weight_decay = run.decay ? static_cast<float>(options_.weight_decay) : 0.0F},
               now);
  }
}

}  // namespace partita
