// Shared by the tests of engines on several ranks: the groups of a job, and the single-process run that every stage is
// compared with.
//
//   Groups groups;
//   const std::vector<StepResult> expected = reference(c, *groups.self, 8);
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/engine/small_model.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

inline constexpr int64_t kGlobalBatch = 12;  // divides by 1, 2, 3 and 4 ranks

struct Groups {
  std::unique_ptr<Communicator> self = test_world().self();
  std::unique_ptr<Communicator> data = test_world().group("data", test_ranks());
};

std::vector<StepResult> reference(const EngineCase& like, Communicator& self, int64_t steps);

// The same bits of losses, norms, weights and optimizer states, in engines of the same layout.
void expect_same_bits(const std::vector<StepResult>& found, const std::vector<StepResult>& expected,
                      const Engine& engine, const Engine& plain, const std::string& what);

void expect_equal(const std::vector<StepResult>& found, const std::vector<StepResult>& expected, double tolerance,
                  const std::string& what);

// Equal on all ranks of the group: the largest is the smallest.
void expect_equal_on_ranks(const std::vector<float>& values, Communicator& group, const std::string& what = {});

// Master weights and optimizer states, of which the single process holds whole parameters; tolerance: relative to the
// largest of a parameter.
void expect_same_values(const Engine& found, const Engine& whole, const std::string& what, double tolerance = 1e-5);

}  // namespace partita::internal::test
