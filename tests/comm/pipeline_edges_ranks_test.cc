#include "partita/comm/pipeline_edges.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/ranks.h"

namespace partita::internal {
namespace {

// Three messages to each neighbor and from it, of unlike sizes, all posted before one is waited for; those of one
// direction arrive in order.
TEST(PipelineEdges, MessagesOfBothDirectionsDoNotWaitForEachOther) {
  const int count = test_world().size(), rank = test_world().rank();
  if (count == 1) GTEST_SKIP() << "a rank alone has no neighbors";
  std::vector<int> ranks(static_cast<size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  const PipelineEdges edges(test_world(), ranks);
  const int next = (rank + 1) % count, previous = (rank + count - 1) % count;
  CpuStream stream;
  std::vector<at::Tensor> received, sent;
  std::vector<Event> events;
  const auto value = [](int from, int to, int number) { return 100.0F * from + 10.0F * to + number; };
  std::vector<std::pair<int, int>> from;  // of each received tensor: neighbor, number
  for (int number = 0; number < 3; ++number)
    for (const int neighbor : next == previous ? std::vector<int>{next} : std::vector<int>{next, previous}) {
      received.push_back(at::zeros({number + 5}, at::kFloat));
      from.emplace_back(neighbor, number);
      events.push_back(edges.receive(received.back(), neighbor, stream));
      sent.push_back(at::full({number + 5}, value(rank, neighbor, number), at::kFloat));
      events.push_back(edges.send(sent.back(), neighbor, stream));
    }
  for (const Event& event : events) stream.wait(event);
  for (size_t i = 0; i < received.size(); ++i) {
    const auto [neighbor, number] = from[i];
    EXPECT_EQ(received[i].sum().item<float>(), value(neighbor, rank, number) * static_cast<float>(number + 5));
  }
}

}  // namespace
}  // namespace partita::internal
