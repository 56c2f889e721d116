#include "partita/train/tensor_plan_file.h"

#include "partita/base/file.h"
#include "partita/config/plan_file.h"

namespace partita {
using namespace internal;

TensorPlan read_tensor_plan(const std::filesystem::path& file) {
  TensorPlan plan;
  for (const PlanRule& rule : read_plan_rules(read_file(file), file.string()))
    plan.push_back({.module = rule.pattern,
                    .role = rule.role,
                    .parts = rule.parts,
                    .quantum = rule.quantum,
                    .gather = rule.gather,
                    .optional = rule.optional});
  return plan;
}

}  // namespace partita
