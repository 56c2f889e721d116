#include "partita/ops/deterministic.h"

#include <atomic>

namespace partita::internal {
namespace {

std::atomic<bool> wanted = false;

}  // namespace

void set_deterministic(bool on) { wanted = on; }
bool is_deterministic() { return wanted; }

}  // namespace partita::internal
