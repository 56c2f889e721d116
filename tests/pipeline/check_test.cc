#include "partita/pipeline/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "partita/base/error.h"
#include "partita/pipeline/messages.h"
#include "tests/pipeline/cases.h"

namespace partita::internal {
namespace {

using testing::HasSubstr;

constexpr PipelineShape k1F1B{PipelineSchedule::one_f_one_b, 2, 1, 3};  // F0 F1 B0 F2 B1 B2 / F0 B0 F1 B1 F2 B2
constexpr PipelineShape kZb{PipelineSchedule::zb_h1, 2, 1, 3};          // rank 1: F0 I0 F1 I1 W0 F2 I2 W1 W2

std::string error_of(const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What check_actions says of the shape's lists after `change`.
std::string after(const PipelineShape& shape, const std::function<void(ActionLists&)>& change) {
  ActionLists lists = pipeline_actions(shape);
  change(lists);
  return error_of([&] { check_actions(lists, shape); });
}

// What check_messages says of the shape's lists with messages after `change`.
std::string after_messages(const PipelineShape& shape, const std::function<void(ActionLists&)>& change) {
  ActionLists lists = with_messages(pipeline_actions(shape), StagePlacement(shape));
  change(lists);
  return error_of([&] { check_messages(lists, shape); });
}

size_t find(const ActionList& list, ActionKind kind, int micro_batch) {
  return static_cast<size_t>(std::find_if(list.begin(), list.end(),
                                          [&](const PipelineAction& action) {
                                            return action.kind == kind && action.micro_batch == micro_batch;
                                          }) -
                             list.begin());
}

TEST(CheckActions, WrongLists) {
  EXPECT_EQ(
      after(k1F1B, [](ActionLists& lists) { lists[0].pop_back(); }),
      "pipeline: the list of rank 0 ends with chunk 0, micro-batch 2 after its forward pass: expected its backward "
      "pass too");
  EXPECT_EQ(after(k1F1B, [](ActionLists& lists) { lists[1].insert(lists[1].begin() + 1, lists[1][0]); }),
            "pipeline: rank 1, action 1, the forward pass of chunk 0, micro-batch 0, stands after its forward pass: "
            "expected before its forward pass; list each pass once, in this order");
  EXPECT_EQ(after(k1F1B, [](ActionLists& lists) { std::swap(lists[1][0], lists[1][1]); }),
            "pipeline: rank 1, action 0, the backward pass of chunk 0, micro-batch 0, stands before its forward pass: "
            "expected after its forward pass; list each pass once, in this order");
  EXPECT_EQ(after(kZb, [](ActionLists& lists) { lists[1][4].kind = ActionKind::backward; }),
            "pipeline: rank 1, action 4, the backward pass of chunk 0, micro-batch 0, stands after its input gradient: "
            "expected after its forward pass; list each pass once, in this order");
  EXPECT_EQ(after(kZb, [](ActionLists& lists) { lists[1].pop_back(); }),
            "pipeline: the list of rank 1 ends with chunk 0, micro-batch 2 after its input gradient: expected its "
            "backward pass too");
  EXPECT_EQ(after(kZb, [](ActionLists& lists) { lists[1].push_back(lists[1].back()); }),
            "pipeline: rank 1, action 9, the weight gradient of chunk 0, micro-batch 2, stands after its last pass: "
            "expected after its input gradient; list each pass once, in this order");
  EXPECT_THAT(after(k1F1B, [](ActionLists& lists) { lists[1][2].chunk = 1; }),
              HasSubstr("expected passes of 1 chunks"));
  EXPECT_THAT(after(k1F1B, [](ActionLists& lists) { lists[1][2].micro_batch = 3; }),
              HasSubstr("rank 1, action 2 is the forward pass of chunk 0, micro-batch 3; expected"));
  EXPECT_THAT(after(k1F1B, [](ActionLists& lists) { lists[1][2].micro_batch = -1; }), HasSubstr("list these only"));
  EXPECT_EQ(after(k1F1B, [](ActionLists& lists) { lists.pop_back(); }),
            "pipeline: 1 lists for 2 ranks: expected one for each");
}

TEST(CheckActions, Pairs) {
  EXPECT_EQ(after(k1F1B, [](ActionLists& lists) { lists[0][1].with_next = true; }), "");
  EXPECT_EQ(
      after(k1F1B, [](ActionLists& lists) { lists[1][0].with_next = true; }),
      "pipeline: rank 0 waits at action 2, the backward pass of chunk 0, micro-batch 0, for the input gradient of "
      "stage 1 (rank 1) for micro-batch 0; rank 1 waits at action 0, the forward pass of chunk 0, micro-batch 0, "
      "for the output of stage 1 (rank 1) for micro-batch 0: expected an order in which ranks do not wait in a circle")
      << "a backward cannot run together with its own forward";
  for (const auto& [rank, index] : {std::pair{0, 0}, {0, 2}, {0, 5}})
    EXPECT_THAT(after(k1F1B,
                      [&](ActionLists& lists) {
                        lists[static_cast<size_t>(rank)][static_cast<size_t>(index)].with_next = true;
                      }),
                HasSubstr("expected a forward paired with a whole backward"));
}

TEST(CheckActions, Deadlock) {
  // Rank 0 wants the first gradient before it starts the second micro-batch, rank 1 the second micro-batch before that.
  const std::string error = after(k1F1B, [](ActionLists& lists) {
    lists[0] = {{ActionKind::forward, 0, 0},  {ActionKind::backward, 0, 0}, {ActionKind::forward, 0, 1},
                {ActionKind::backward, 0, 1}, {ActionKind::forward, 0, 2},  {ActionKind::backward, 0, 2}};
    std::swap(lists[1][1], lists[1][2]);
  });
  EXPECT_EQ(
      error,
      "pipeline: rank 0 waits at action 1, the backward pass of chunk 0, micro-batch 0, for the input gradient of "
      "stage 1 (rank 1) for micro-batch 0; rank 1 waits at action 1, the forward pass of chunk 0, micro-batch 1, "
      "for the output of stage 0 (rank 0) for micro-batch 1: expected an order in which ranks do not wait in a circle");
}

// Receives where their data is used: each rank sends, and nobody receives (pytorch#172668).
TEST(CheckMessages, ReceivesMovedToTheirUseDeadlock) {
  for (const auto& [ranks, chunks] : {std::pair{2, 2}, {4, 1}, {4, 2}, {8, 3}}) {
    const PipelineShape shape{PipelineSchedule::interleaved, ranks, chunks, 4 * ranks};
    const std::string error = after_messages(shape, [](ActionLists& lists) {
      for (ActionList& list : lists) {
        ActionList moved, waiting;
        for (const PipelineAction& action : list) {
          if (action.kind == ActionKind::receive_activation || action.kind == ActionKind::receive_gradient) {
            waiting.push_back(action);
            continue;
          }
          const auto wanted =
              action.kind == ActionKind::forward ? ActionKind::receive_activation : ActionKind::receive_gradient;
          if (!is_message(action.kind))
            std::erase_if(waiting, [&](const PipelineAction& receive) {
              const bool used =
                  receive.kind == wanted && receive.chunk == action.chunk && receive.micro_batch == action.micro_batch;
              if (used) moved.push_back(receive);
              return used;
            });
          moved.push_back(action);
        }
        list = moved;
      }
    });
    EXPECT_THAT(error,
                testing::AnyOf(HasSubstr("no two ranks wait for each other"), HasSubstr("in the order of sends")))
        << described(shape);
  }
}

TEST(CheckMessages, NamesBothEndsOfADeadlock) {
  const std::string error = after_messages(k1F1B, [](ActionLists& lists) {
    // Rank 1: the gradient is sent only after the next forward, for which it has received nothing yet.
    const size_t sent = find(lists[1], ActionKind::send_gradient, 0);
    const size_t received = find(lists[1], ActionKind::receive_activation, 1);
    ASSERT_LT(received, sent);
    std::swap(lists[1][sent], lists[1][received]);
  });
  EXPECT_EQ(error,
            "pipeline: rank 1, action 2, the send of the input gradient of chunk 0, micro-batch 0 (to rank 0), comes "
            "before it is "
            "computed: put it after the pass");
  const std::string late = after_messages(k1F1B, [](ActionLists& lists) {
    const size_t received = find(lists[1], ActionKind::receive_activation, 1);
    std::rotate(lists[1].begin() + static_cast<long>(received), lists[1].begin() + static_cast<long>(received) + 1,
                lists[1].begin() + static_cast<long>(find(lists[1], ActionKind::forward, 1)));
  });
  EXPECT_EQ(
      late,
      "pipeline: rank 0 waits at action 3, the send of the output of chunk 0, micro-batch 1 (to rank 1), for rank 1, "
      "which waits at the send of the input gradient of chunk 0, micro-batch 0 (to rank 0): expected an order of "
      "messages in "
      "which no two ranks wait for each other");
}

TEST(CheckMessages, OrderOnAnEdge) {
  const std::string error = after_messages({PipelineSchedule::gpipe, 2, 1, 3}, [](ActionLists& lists) {
    std::swap(lists[1][find(lists[1], ActionKind::receive_activation, 0)],
              lists[1][find(lists[1], ActionKind::receive_activation, 1)]);
  });
  EXPECT_EQ(
      error,
      "pipeline: rank 0, action 1 is the send of the output of chunk 0, micro-batch 0 (to rank 1), but rank 1 receives "
      "the output of stage 0 (rank 0) for micro-batch 1 there: receive in the order of sends");
}

TEST(CheckMessages, MissingAndNeedless) {
  const auto erase = [](ActionList& list, ActionKind kind, int m) {
    list.erase(list.begin() + static_cast<long>(find(list, kind, m)));
  };
  EXPECT_EQ(after_messages(k1F1B,
                           [&](ActionLists& lists) {
                             erase(lists[0], ActionKind::send_activation, 2);
                             erase(lists[1], ActionKind::receive_activation, 2);
                           }),
            "pipeline: rank 1, action 8, the forward pass of chunk 0, micro-batch 2, needs the output of stage 0 (rank "
            "0) for micro-batch 2, which is not there yet: receive it before");
  EXPECT_THAT(after_messages(k1F1B, [&](ActionLists& lists) { erase(lists[1], ActionKind::receive_activation, 2); }),
              HasSubstr("rank 0 waits at action 7, the send of the output of chunk 0, micro-batch 2"));
  EXPECT_THAT(after_messages(k1F1B, [&](ActionLists& lists) { erase(lists[0], ActionKind::send_activation, 2); }),
              HasSubstr("no two ranks wait for each other"));
  EXPECT_EQ(after_messages(k1F1B,
                           [](ActionLists& lists) {
                             lists[0].push_back({.kind = ActionKind::send_activation, .micro_batch = 2, .peer = 1});
                             lists[1].push_back({.kind = ActionKind::receive_activation, .micro_batch = 2, .peer = 0});
                           }),
            "pipeline: rank 1 receives the output of stage 0 (rank 0) for micro-batch 2 twice: send it once");
  EXPECT_THAT(after_messages(k1F1B,
                             [](ActionLists& lists) {
                               lists[0].push_back({.kind = ActionKind::send_gradient, .micro_batch = 2, .peer = 1});
                             }),
              HasSubstr("no neighboring stage is there"));
  EXPECT_THAT(after_messages(k1F1B, [](ActionLists& lists) { lists[0][1].peer = 0; }),
              HasSubstr("no neighboring stage is there"));
}

TEST(CheckMessages, ToNoNeighbor) {
  for (const PipelineAction& message :
       {PipelineAction{.kind = ActionKind::send_activation, .peer = 1},  // the turn of the V: to itself
        {.kind = ActionKind::send_gradient, .chunk = 2, .peer = 0},
        {.kind = ActionKind::send_activation, .chunk = -1, .peer = 0},
        {.kind = ActionKind::send_activation, .chunk = 1, .micro_batch = -1, .peer = 0},
        {.kind = ActionKind::send_activation, .chunk = 1, .peer = 7}})
    EXPECT_THAT(after_messages({PipelineSchedule::zbv, 2, 2, 1},
                               [&](ActionLists& lists) { lists[1].insert(lists[1].begin() + 2, message); }),
                HasSubstr("no neighboring stage is there"))
        << action_name(message);
}

TEST(CheckMessages, InsideAPair) {
  const std::string error = after_messages({PipelineSchedule::dual_pipe_v, 2, 2, 6}, [](ActionLists& lists) {
    for (ActionList& list : lists)
      for (size_t i = 0; i < list.size(); ++i)
        if (list[i].with_next && is_message(list[i + 2].kind)) return std::swap(list[i + 1], list[i + 2]);
  });
  EXPECT_THAT(error, HasSubstr("comes between the two passes of a pair"));
}

}  // namespace
}  // namespace partita::internal
