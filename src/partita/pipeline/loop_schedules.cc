#include "partita/pipeline/loop_schedules.h"

#include <algorithm>

namespace partita::internal {
namespace {

struct ChunkPass {
  int chunk, micro_batch;
};

// In which order the passes run: group by group, all chunks for each.
struct Order {
  std::vector<ChunkPass> forwards, backwards;
  int first_group = 0;
};

Order order_of(const PipelineShape& shape) {
  const int groups = std::max(1, shape.micro_batches / shape.ranks);
  Order order;
  for (int group = 0, begin = 0; group < groups; ++group) {
    const int size = shape.micro_batches / groups + (group < shape.micro_batches % groups ? 1 : 0);
    if (group == 0) order.first_group = size;
    for (int chunk = 0; chunk < shape.chunks; ++chunk)
      for (int m = begin; m < begin + size; ++m) {
        order.forwards.push_back({chunk, m});
        order.backwards.push_back({shape.chunks - 1 - chunk, m});
      }
    begin += size;
  }
  return order;
}

}  // namespace

ActionList breadth_first_actions(int chunks, int micro_batches, ReturnOrder back) {
  ActionList list;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (int m = 0; m < micro_batches; ++m) list.push_back({ActionKind::forward, chunk, m});
  for (int chunk = chunks - 1; chunk >= 0; --chunk)
    for (int m = 0; m < micro_batches; ++m)
      list.push_back({ActionKind::backward, chunk, back == ReturnOrder::same ? m : micro_batches - 1 - m});
  return list;
}

ActionList loop_actions(const PipelineShape& shape, int rank, BackwardForm backward) {
  const Order order = order_of(shape);
  const size_t count = order.forwards.size();
  const bool split = backward == BackwardForm::split;
  const int per_later_rank = shape.chunks > 1 && !split ? 2 : 1;
  const auto warm_up = std::min(
      count, static_cast<size_t>((shape.chunks - 1) * order.first_group + per_later_rank * (shape.ranks - 1 - rank)));

  ActionList list;
  const auto add = [&](ActionKind kind, ChunkPass pass) { list.push_back({kind, pass.chunk, pass.micro_batch}); };
  for (size_t i = 0; i < warm_up; ++i) add(ActionKind::forward, order.forwards[i]);
  size_t weights = 0;
  for (size_t i = 0; i < count; ++i) {
    if (warm_up + i < count) add(ActionKind::forward, order.forwards[warm_up + i]);
    add(split ? ActionKind::input_gradient : ActionKind::backward, order.backwards[i]);
    if (split && i >= static_cast<size_t>(rank)) add(ActionKind::weight_gradient, order.backwards[weights++]);
  }
  if (split)
    while (weights < count) add(ActionKind::weight_gradient, order.backwards[weights++]);
  return list;
}

}  // namespace partita::internal
