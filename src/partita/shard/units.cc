#include "partita/shard/units.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "partita/base/error.h"

namespace partita {
namespace {

constexpr int64_t kCollectiveElements = 30'000'000;
constexpr int kLeastUnits = 4;

// Gives every parameter a unit, by name; a name met again (tied) keeps its first.
class Planner {
 public:
  Planner(std::span<const std::vector<ParameterSpec>> blocks, const UnitOptions& options)
      : blocks_(blocks), options_(options) {}

  UnitPlan plan() {
    const int last = static_cast<int>(blocks_.size()) - 1;
    if (last < 1) fail("a model needs an embedding and a head, found {} blocks", blocks_.size());
    const bool tied = std::ranges::any_of(blocks_[static_cast<size_t>(last)], [&](const ParameterSpec& p) {
      return std::ranges::any_of(blocks_[0], [&](const ParameterSpec& q) { return p.name == q.name; });
    });
    const int step = options_.blocks_per_unit > 0 ? options_.blocks_per_unit
                                                  : automatic_blocks_per_unit(elements_per_layer(), last - 1);

    if (tied)
      add("ends", Pool::ends, {0, last});
    else
      add("embedding", Pool::ends, {0});
    for (int begin = 1; begin < last; begin += step) {
      const int end = std::min(begin + step, last);
      add(fmt::format("layers.{}-{}", begin - 1, end - 2), Pool::layers, range(begin, end));
    }
    if (!tied) add("head", Pool::ends, {last});
    add("vectors", Pool::own, range(0, last + 1));
    return assemble();
  }

 private:
  static bool is_matrix(const ParameterSpec& p) { return p.shape.size() > 1 && !p.adapter; }

  int64_t elements_per_layer() const {
    int64_t most = 0;
    for (size_t b = 1; b + 1 < blocks_.size(); ++b) {
      int64_t sum = 0;
      for (const ParameterSpec& p : blocks_[b]) sum += is_matrix(p) ? p.count() : 0;
      most = std::max(most, sum);
    }
    return most;
  }

  static std::vector<int> range(int begin, int end) {
    std::vector<int> list(static_cast<size_t>(end - begin));
    std::iota(list.begin(), list.end(), begin);
    return list;
  }

  // The matrices of the blocks, or, in Pool::own, all else; those that are trained and those that are frozen.
  void add(const std::string& name, Pool pool, const std::vector<int>& blocks) {
    for (const bool trainable : {true, false}) {
      std::vector<ParameterSpec> parameters;
      for (int b : blocks)
        for (const ParameterSpec& p : blocks_[static_cast<size_t>(b)])
          if (is_matrix(p) == (pool != Pool::own) && p.trainable == trainable &&
              unit_of_.try_emplace(p.name, static_cast<int>(plan_.units.size())).second)
            parameters.push_back(p);
      if (parameters.empty()) continue;
      plan_.units.push_back({.name = trainable ? name : name + ".frozen",
                             .layout = make_layout(std::move(parameters), options_.ranks),
                             .weight = options_.weight,
                             .gradient = pool == Pool::layers ? options_.matrix_gradient : DType::fp32,
                             .gradient_sum = pool == Pool::layers ? options_.matrix_gradient_sum : DType::fp32,
                             .pool = pool,
                             .trainable = trainable});
    }
  }

  UnitPlan assemble() {
    const size_t units = plan_.units.size();
    plan_.first_block.assign(units, static_cast<int>(blocks_.size()));
    plan_.last_block.assign(units, -1);
    std::map<std::string, int> index;  // in its unit
    for (const Unit& unit : plan_.units)
      for (size_t p = 0; p < unit.layout.parameters.size(); ++p)
        index[unit.layout.parameters[p].name] = static_cast<int>(p);
    for (size_t b = 0; b < blocks_.size(); ++b) {
      std::vector<Placement> placements;
      std::vector<int> used;
      for (const ParameterSpec& p : blocks_[b]) {
        const Placement place{unit_of_.at(p.name), index.at(p.name)};
        const auto& stored =
            plan_.units[static_cast<size_t>(place.unit)].layout.parameters[static_cast<size_t>(place.parameter)];
        if (stored.shape != p.shape)
          fail("parameter {} has shape [{}] in one block and [{}] in another", p.name, fmt::join(stored.shape, ", "),
               fmt::join(p.shape, ", "));
        placements.push_back(place);
        used.push_back(place.unit);
        auto& first = plan_.first_block[static_cast<size_t>(place.unit)];
        first = std::min(first, static_cast<int>(b));
        plan_.last_block[static_cast<size_t>(place.unit)] = static_cast<int>(b);
      }
      std::ranges::sort(used);
      used.erase(std::unique(used.begin(), used.end()), used.end());
      plan_.blocks.push_back(std::move(placements));
      plan_.units_of_block.push_back(std::move(used));
    }
    return std::move(plan_);
  }

  std::span<const std::vector<ParameterSpec>> blocks_;
  UnitOptions options_;
  UnitPlan plan_;
  std::map<std::string, int> unit_of_;
};

}  // namespace

int automatic_blocks_per_unit(int64_t elements_per_layer, int layers) {
  if (layers < 1) return 1;
  const int64_t for_size = (kCollectiveElements + elements_per_layer - 1) / std::max<int64_t>(elements_per_layer, 1);
  const int64_t for_memory = std::max(1, layers / kLeastUnits);
  return static_cast<int>(std::clamp<int64_t>(for_size, 1, for_memory));
}

UnitPlan plan_units(std::span<const std::vector<ParameterSpec>> blocks, const UnitOptions& options) {
  return Planner(blocks, options).plan();
}

bool SlotPlan::shared(int unit) const {
  return std::ranges::count(slot_of_unit, slot_of_unit[static_cast<size_t>(unit)]) > 1;
}

int first_trainable_block(const UnitPlan& plan) {
  int first = static_cast<int>(plan.blocks.size());
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (plan.units[u].trainable) first = std::min(first, plan.first_block[u]);
  return first;
}

SlotPlan plan_slots(const UnitPlan& plan, bool few, SlotsFor what) {
  SlotPlan slots;
  const auto put = [&](int slot, const Unit& unit) {
    if (slot == static_cast<int>(slots.slot_count.size())) slots.slot_count.push_back(0);
    auto& count = slots.slot_count[static_cast<size_t>(slot)];
    count = std::max(count, unit.layout.count);
    slots.slot_of_unit.push_back(slot);
  };
  std::vector<int> layer_slots;
  std::array<int, 2> ends_slots = {-1, -1};  // of frozen and of trained ones: a block may use both at once
  int layer = 0;
  for (const Unit& unit : plan.units) {
    const int fresh = static_cast<int>(slots.slot_count.size());
    if (what == SlotsFor::gradients && !unit.trainable) {
      slots.slot_of_unit.push_back(-1);
    } else if (!few || unit.pool == Pool::own) {
      put(fresh, unit);
    } else if (unit.pool == Pool::ends) {
      int& ends_slot = ends_slots[unit.trainable ? 1 : 0];
      if (ends_slot < 0) ends_slot = fresh;
      put(ends_slot, unit);
    } else {
      const auto turn = static_cast<size_t>(layer++ % 2);
      if (turn == layer_slots.size()) layer_slots.push_back(fresh);
      put(layer_slots[turn], unit);
    }
  }
  return slots;
}

}  // namespace partita
