#include "partita/shard/states_place.h"

#include <vector>

#include "partita/shard/slots.h"
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

// Puts units in their order off the device until the shares are reached.
class Shares {
 public:
  Shares(const StatesShares& shares, double elements)
      : all_(shares.host + shares.disk >= 1 - kRounding),
        has_disk_(shares.disk > 0),
        away_((shares.host + shares.disk) * elements),
        disk_(shares.disk * elements) {}

  [[nodiscard]] bool all() const { return all_; }
  // Where the next unit goes: to the device once the shares are reached.
  [[nodiscard]] StatesPlace next(const Unit& unit) {
    const double count = elements_of(unit);
    if (!all_ && !first_ && away_ < count / 2) return StatesPlace::device;
    const bool to_disk = has_disk_ && (first_ || disk_ >= count / 2);
    away_ -= count;
    disk_ -= count;
    first_ = false;
    return to_disk ? StatesPlace::disk : StatesPlace::host;
  }

 private:
  bool all_, has_disk_, first_ = true;
  double away_, disk_;
};

// Two layers have two buffers, and the embedding or the head alone has one.
void keep_what_saves_nothing(UnitPlan& plan) {
  const auto away = [](const Unit& unit) { return unit.weights != StatesPlace::device; };
  const auto layers = std::ranges::count_if(
      plan.units, [&](const Unit& unit) { return away(unit) && unit.pool == BufferPool::layers; });
  const SlotPlan slots = weight_slots(plan, {});
  for (size_t u = 0; u < plan.units.size(); ++u) {
    Unit& unit = plan.units[u];
    if (away(unit) && (unit.pool == BufferPool::layers ? layers < 3 : !slots.shared(static_cast<int>(u))))
      unit.weights = StatesPlace::device;
  }
}

}  // namespace

void place_states(UnitPlan& plan, const StatesShares& shares, bool one_reduction) {
  if (shares.host + shares.disk <= 0) return;
  double elements = 0;
  for (const Unit& unit : plan.units)
    if (unit.trainable) elements += elements_of(unit);
  Shares left(shares, elements);
  for (Unit* unit : candidates(plan, left.all())) {
    const StatesPlace place = left.next(*unit);
    if (place == StatesPlace::device) return;
    unit->states = place;
    // A table of two stages waits for the gradient of the other one.
    unit->shares_gradient_buffer = one_reduction && unit->stage_copy == ParameterSpec::Copy::none;
  }
}

void place_gradient_sums(UnitPlan& plan) {
  for (Unit& unit : plan.units)
    unit.adds_on_host = unit.on_host() && unit.trainable && unit.stage_copy == ParameterSpec::Copy::none;
}

void place_weights(UnitPlan& plan, const StatesShares& shares) {
  if (shares.host + shares.disk <= 0) return;
  double elements = 0;
  for (const Unit& unit : plan.units) elements += elements_of(unit);
  Shares left(shares, elements);
  for (auto unit = plan.units.rbegin(); unit != plan.units.rend(); ++unit) {
    if (unit->pool == BufferPool::persistent || unit->stage_copy != ParameterSpec::Copy::none ||
        (unit->trainable && !unit->on_host()))
      continue;
    unit->weights = left.next(*unit);
    if (unit->weights == StatesPlace::device) break;
  }
  keep_what_saves_nothing(plan);
}

}  // namespace partita::internal
