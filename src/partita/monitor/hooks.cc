#include "partita/monitor/hooks.h"

#include <algorithm>
#include <utility>

namespace partita {
using namespace internal;

void Hooks::add(std::unique_ptr<Hook> hook) {
  const auto place = std::upper_bound(hooks_.begin(), hooks_.end(), hook->priority(),
                                      [](int priority, const auto& other) { return priority < other->priority(); });
  hooks_.insert(place, std::move(hook));
}

void Hooks::add_all(Hooks others) {
  for (std::unique_ptr<Hook>& hook : others.hooks_) add(std::move(hook));
}

}  // namespace partita
