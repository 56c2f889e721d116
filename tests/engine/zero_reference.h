// Shared by the ZeRO tests: the groups of a job, and the single-process run that every stage is compared with.
//
//   Groups groups;
//   const std::vector<StepResult> expected = reference(c, *groups.self, 8);
#pragma once
#include <memory>
#include <vector>

#include "tests/engine/small_model.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

inline constexpr int64_t kGlobalBatch = 12;  // divides by 1, 2, 3 and 4 ranks

struct Groups {
  std::unique_ptr<Communicator> self = test_world().self();
  std::unique_ptr<Communicator> data = test_world().group("data", test_ranks());
};

inline std::vector<StepResult> reference(const EngineCase& like, Communicator& self, int64_t steps) {
  EngineCase one = like;
  one.stage = 0;
  one.poison = false;
  one.recompute = Recompute::none;
  one.samples = kGlobalBatch;
  one.micro_batches = 1;
  return run_steps(*make_engine(one, self, self), one, 0, 1, 0, steps);
}

}  // namespace partita::internal::test
