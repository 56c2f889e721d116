#include "partita/shard/states_place.h"

#include <vector>

#include "partita/shard/units.h"

namespace partita::internal {
namespace {

constexpr double kRounding = 1e-9;  // 0.3 + 0.7 is all

// Of the whole parameters: what a rank holds of them differs between tensor-parallel ranks, which must decide alike.
double elements_of(const Unit& unit) {
  double sum = 0;
  for (const ParameterSpec& p : unit.layout.parameters) sum += static_cast<double>(p.count());
  return sum;
}

// The units that may leave, the last one first.
std::vector<Unit*> candidates(UnitPlan& plan, bool all) {
  std::vector<Unit*> matrices, trained;
  for (auto unit = plan.units.rbegin(); unit != plan.units.rend(); ++unit) {
    if (!unit->trainable || (!all && unit->stage_copy != ParameterSpec::Copy::none)) continue;
    trained.push_back(&*unit);
    if (unit->pool != BufferPool::persistent) matrices.push_back(&*unit);
  }
  return all || matrices.empty() ? trained : matrices;
}

}  // namespace

void place_states(UnitPlan& plan, const StatesShares& shares, bool one_reduction) {
  const double share = shares.host + shares.disk;
  if (share <= 0) return;
  const bool all = share >= 1 - kRounding;
  double elements = 0;
  for (const Unit& unit : plan.units)
    if (unit.trainable) elements += elements_of(unit);
  double away = share * elements, disk = shares.disk * elements;
  bool first = true;
  for (Unit* unit : candidates(plan, all)) {
    const double count = elements_of(*unit);
    if (!all && !first && away < count / 2) return;
    unit->states = shares.disk > 0 && (first || disk >= count / 2) ? StatesPlace::disk : StatesPlace::host;
    // A table of two stages waits for the gradient of the other one.
    unit->shares_gradient_buffer = one_reduction && unit->stage_copy == ParameterSpec::Copy::none;
    away -= count;
    disk -= count;
    first = false;
  }
}

}  // namespace partita::internal
