#include "partita/data/order_memory.h"

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace {

constexpr int64_t kTakesAWhile = int64_t{256} << 20;

std::string what(const OrderSize& order) {
  return fmt::format("the order of {} samples of split \"{}\" ({} epochs)", order.samples, order.name, order.epochs);
}

}  // namespace

std::string order_problem(const OrderSize& order, const FreeMemory& free) {
  if (order.bytes <= free.bytes) return {};
  return fmt::format(
      "{} takes {} of memory, and {} is free ({}): lower train.steps or train.global_batch (--samples); a later "
      "start with more train.steps continues a run",
      what(order), human_bytes(order.bytes), human_bytes(free.bytes), free.limit);
}

void announce_order(const OrderSize& order) {
  if (order.bytes < kTakesAWhile) return;
  if (const std::string problem = order_problem(order, free_for_process(memory_limits(), 1)); !problem.empty())
    throw Error(problem);
  log::info("making {}, in {} of memory", what(order), human_bytes(order.bytes));
}

}  // namespace partita::internal
