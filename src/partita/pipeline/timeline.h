// When each action of a pipeline runs, from the times of its stages: bubble, and memory for activations. Pure.
//
//   const StageTimes times{.forward = 1, .input_gradient = 1.3, .weight_gradient = 0.8};
//   const Timeline timeline = simulate(lists, StagePlacement(shape), {.stages = {times}, .hop = 0.02});
//   timeline.bubble                                                // 0.28: ranks wait for 28% of the step
//
// A rank runs its list in order, each action as soon as the rank and its inputs are ready. What comes from another rank
// arrives one hop after it was computed. Sending takes no time of a rank: messages travel under computation. So bubbles
// of arXiv 2401.10241, table 5, come out to the digit, and measured steps take 3 to 8% more.
#pragma once
#include <vector>

#include "partita/pipeline/action.h"
#include "partita/pipeline/placement.h"

namespace partita::internal {

// Of one stage and micro-batch, in any unit. A whole backward takes the time of both gradients.
struct StageTimes {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
};

struct PipelineTimes {
  std::vector<StageTimes> stages;  // [stage]; a single element: of every stage
  double hop = 0;                  // of a message between two ranks
  double overlap = 0;  // part of the shorter action of a pair that runs under the longer one: 0 none of it, 1 all
};

struct Timeline {
  struct Span {
    PipelineAction action;
    double start = 0, end = 0;  // of a pair: both actions have the span of the pair
  };
  std::vector<std::vector<Span>> ranks;  // [rank], in list order
  std::vector<double> busy;              // [rank]: time in which it computes
  double makespan = 0;                   // end of the last action: ranks then wait for each other, for the norm
  double bubble = 0;                     // part of the makespan in which the busiest rank waits
};

// Lists without messages that check_actions accepts. Error: a number of stage times that is neither 1 nor that of the
// stages; a time that is negative or not finite; an overlap outside [0, 1].
[[nodiscard]] Timeline simulate(const ActionLists&, const StagePlacement&, const PipelineTimes&);

}  // namespace partita::internal
