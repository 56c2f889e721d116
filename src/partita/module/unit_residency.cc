#include "partita/module/unit_residency.h"

#include <algorithm>
#include <utility>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr size_t kMostNoted = 1 << 16;  // many evaluations may pass without a step

bool contains(const std::vector<int>& all, int unit) { return std::ranges::find(all, unit) != all.end(); }

}  // namespace

bool UnitResidency::holds(int unit) const { return contains(held_, unit); }

void UnitResidency::evict_down_to(size_t count, std::vector<Action>& actions) {
  for (size_t i = 0; i < held_.size() && held_.size() > count;) {
    if (contains(in_use_, held_[i])) {
      ++i;
      continue;
    }
    actions.push_back({Action::Kind::evict, held_[i]});
    held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void UnitResidency::note(int unit) {
  if (!noted_.empty() && noted_.back() == unit) return;
  if (noted_.size() < kMostNoted) noted_.push_back(unit);
  const auto found = std::find(expected_.begin() + static_cast<std::ptrdiff_t>(place_), expected_.end(), unit);
  if (found != expected_.end()) place_ = static_cast<size_t>(found - expected_.begin()) + 1;
}

int UnitResidency::next_expected() const {
  return place_ < expected_.size() && !holds(expected_[place_]) ? expected_[place_] : -1;
}

std::vector<UnitResidency::Action> UnitResidency::use(std::span<const int> units) {
  std::vector<Action> actions;
  in_use_.insert(in_use_.end(), units.begin(), units.end());
  for (const int unit : units) {
    const auto found = std::ranges::find(held_, unit);
    if (found != held_.end()) {
      held_.erase(found);
    } else {
      evict_down_to(most_ - 1, actions);
      actions.push_back({Action::Kind::gather, unit});
    }
    held_.push_back(unit);
    note(unit);
  }
  if (const int next = next_expected(); next >= 0) {
    evict_down_to(most_ - 1, actions);
    if (held_.size() < most_) {
      actions.push_back({Action::Kind::gather, next});
      held_.push_back(next);
    }
  }
  return actions;
}

std::vector<UnitResidency::Action> UnitResidency::release(std::span<const int> units) {
  for (const int unit : units) in_use_.erase(std::ranges::find(in_use_, unit));
  std::vector<Action> actions;
  evict_down_to(most_, actions);
  return actions;
}

std::vector<UnitResidency::Action> UnitResidency::clear() {
  PARTITA_CHECK(in_use_.empty(), "unit {} is in use", in_use_.front());
  std::vector<Action> actions;
  evict_down_to(0, actions);
  return actions;
}

void UnitResidency::end_step() {
  expected_ = std::exchange(noted_, {});
  place_ = 0;
}

}  // namespace partita::internal
