#include "partita/optim/runs.h"

#include "partita/base/random.h"

namespace partita::internal {

std::vector<OptimizerRun> optimizer_runs(const Layout& layout, std::span<const Segment> segments, DType master) {
  std::vector<OptimizerRun> runs;
  for (const Segment& s : segments) {
    const ParameterSpec& parameter = layout.parameters[static_cast<size_t>(s.parameter)];
    if (master != DType::fp32)
      runs.push_back({s.in_slice, s.count, parameter.decay, {hash_of(parameter.name), s.first_number(parameter)}});
    else if (!runs.empty() && runs.back().decay == parameter.decay)
      runs.back().count = s.in_slice + s.count - runs.back().begin;
    else
      runs.push_back({s.in_slice, s.count, parameter.decay, {}});
  }
  return runs;
}

}  // namespace partita::internal
