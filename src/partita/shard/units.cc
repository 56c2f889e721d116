#include "partita/shard/units.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr int64_t kCollectiveElements = 30'000'000;
constexpr int kLeastUnits = 4;

// Assigns every parameter to a unit by name; a repeated (tied) name stays in its first unit.
class Planner {
 public:
  Planner(std::span<const BlockParameters> blocks, const UnitOptions& options) : blocks_(blocks), options_(options) {
    for (size_t b = 0; b < blocks.size(); ++b) of_kind_[blocks[b].kind].push_back(static_cast<int>(b));
  }

  UnitPlan plan() {
    if (blocks_.empty()) fail("the model has no blocks");
    const std::vector<int>&embeddings = of_kind_[BlockKind::embedding], &heads = of_kind_[BlockKind::head];
    if (tied()) {
      std::vector<int> both = embeddings;
      both.insert(both.end(), heads.begin(), heads.end());
      add("embedding_and_head", BufferPool::embedding_and_head, both);
    } else {
      add("embedding", BufferPool::embedding_and_head, embeddings);
    }
    add_layers();
    if (!tied()) add("head", BufferPool::embedding_and_head, heads);
    std::vector<int> all(blocks_.size());
    for (size_t b = 0; b < all.size(); ++b) all[b] = static_cast<int>(b);
    add("vectors", BufferPool::persistent, all);
    return assemble();
  }

 private:
  static bool is_matrix(const ParameterSpec& p) { return p.shape.size() > 1 && !p.adapter; }

  [[nodiscard]] const std::vector<ParameterSpec>& parameters(int block) const {
    return blocks_[static_cast<size_t>(block)].parameters;
  }

  [[nodiscard]] bool tied() {
    for (const int e : of_kind_[BlockKind::embedding])
      for (const int h : of_kind_[BlockKind::head])
        for (const ParameterSpec& p : parameters(e))
          if (std::ranges::find(parameters(h), p.name, &ParameterSpec::name) != parameters(h).end()) return true;
    return false;
  }

  void add_layers() {
    const std::vector<int>& layers = of_kind_[BlockKind::layer];
    int64_t most = 0;  // matrix elements of the largest layer
    for (const int b : layers) {
      int64_t sum = 0;
      for (const ParameterSpec& p : parameters(b)) sum += is_matrix(p) ? p.count() / options_.tensor_ranks : 0;
      most = std::max(most, sum);
    }
    const int count = static_cast<int>(layers.size());
    const int step = options_.layers_per_unit > 0 ? options_.layers_per_unit : automatic_layers_per_unit(most, count);
    const auto chunk = [&](int layer) {
      return blocks_[static_cast<size_t>(layers[static_cast<size_t>(layer)])].chunk;
    };
    for (int begin = 0, end = 0; begin < count; begin = end) {
      for (end = begin; end < std::min(begin + step, count) && chunk(end) == chunk(begin);) ++end;
      add(fmt::format("layers.{}-{}", begin, end - 1), BufferPool::layers,
          {layers.begin() + begin, layers.begin() + end});
    }
  }

  // Adds units for the matrices of the blocks, or for all other parameters if the pool is persistent; trainable and
  // frozen ones separately.
  void add(const std::string& name, BufferPool pool, const std::vector<int>& blocks) {
    for (const auto copy : {ParameterSpec::Copy::first, ParameterSpec::Copy::second, ParameterSpec::Copy::none})
      for (const bool trainable : {true, false}) add(name, pool, blocks, trainable, copy);
  }

  void add(const std::string& name, BufferPool pool, const std::vector<int>& blocks, bool trainable,
           ParameterSpec::Copy copy) {
    std::vector<ParameterSpec> members;
    for (const int b : blocks)
      for (const ParameterSpec& p : parameters(b))
        if (is_matrix(p) == (pool != BufferPool::persistent) && p.trainable == trainable && p.stage_copy == copy &&
            unit_of_.try_emplace(p.name, static_cast<int>(plan_.units.size())).second)
          members.push_back(p);
    if (members.empty()) return;
    const bool layers = pool == BufferPool::layers;
    const std::string kind = copy == ParameterSpec::Copy::none ? "" : ".tied";
    plan_.units.push_back({.name = name + kind + (trainable ? "" : ".frozen"),
                           .layout = make_layout(std::move(members), options_.ranks),
                           .weight = options_.weight,
                           .gradient = layers ? options_.matrix_gradient : DType::fp32,
                           .gradient_sum = layers ? options_.matrix_gradient_sum : DType::fp32,
                           .pool = pool,
                           .trainable = trainable,
                           .stage_copy = copy});
  }

  UnitPlan assemble() {
    const size_t units = plan_.units.size();
    plan_.first_block.assign(units, static_cast<int>(blocks_.size()));
    plan_.last_block.assign(units, -1);
    std::map<std::string, int> index;  // index within the unit
    for (const Unit& unit : plan_.units)
      for (size_t p = 0; p < unit.layout.parameters.size(); ++p)
        index[unit.layout.parameters[p].name] = static_cast<int>(p);
    for (size_t b = 0; b < blocks_.size(); ++b) {
      std::vector<Placement> placements;
      std::vector<int> used;
      for (const ParameterSpec& p : blocks_[b].parameters) {
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

  std::span<const BlockParameters> blocks_;
  UnitOptions options_;
  std::map<BlockKind, std::vector<int>> of_kind_;
  UnitPlan plan_;
  std::map<std::string, int> unit_of_;
};

}  // namespace

int automatic_layers_per_unit(int64_t elements_per_layer, int layers) {
  if (layers < 1) return 1;
  const int64_t for_size = (kCollectiveElements + elements_per_layer - 1) / std::max<int64_t>(elements_per_layer, 1);
  const int64_t for_memory = std::max(1, layers / kLeastUnits);
  return static_cast<int>(std::clamp<int64_t>(for_size, 1, for_memory));
}

UnitPlan plan_units(std::span<const BlockParameters> blocks, const UnitOptions& options) {
  return Planner(blocks, options).plan();
}

int first_trainable_block(const UnitPlan& plan) {
  int first = static_cast<int>(plan.blocks.size());
  for (size_t u = 0; u < plan.units.size(); ++u)
    if (plan.units[u].trainable) first = std::min(first, plan.first_block[u]);
  return first;
}

}  // namespace partita::internal
