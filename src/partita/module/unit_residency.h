// Which units have their weights gathered while a program uses them in an order that only its run shows. Pure.
//
//   UnitResidency residency(3);
//   for each operation:
//     for (const auto& action : residency.use(units)) ...    // evicts and gathers: now they are all there
//     ...
//     for (const auto& action : residency.release(units)) ...
//   residency.end_step();
//
// The order of a step is expected again in the next: the unit that comes then is gathered one ahead. What was used
// least recently leaves first. Ranks that use the same units in the same order act alike.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

namespace partita::internal {

class UnitResidency {
 public:
  struct Action {
    enum class Kind { evict, gather } kind;
    int unit;
    friend bool operator==(const Action&, const Action&) = default;
  };
  // held: the most units that are there at once, but for an operation that uses more itself; at least 2.
  explicit UnitResidency(int held) : most_(static_cast<size_t>(held)) {}

  // An operation uses these units, which stay until release.
  [[nodiscard]] std::vector<Action> use(std::span<const int> units);
  [[nodiscard]] std::vector<Action> release(std::span<const int> units);
  // Evicts everything. Error: something is in use.
  [[nodiscard]] std::vector<Action> clear();
  void end_step();

  [[nodiscard]] bool holds(int unit) const;

 private:
  void evict_down_to(size_t count, std::vector<Action>&);
  void note(int unit);
  [[nodiscard]] int next_expected() const;  // that is not held; -1: none

  size_t most_;
  std::vector<int> held_;              // the least recently used first
  std::vector<int> in_use_;            // a unit once for each use
  std::vector<int> expected_, noted_;  // of the last step and of this one, without repetitions
  size_t place_ = 0;                   // index in expected_ of the unit after the last one used
};

}  // namespace partita::internal
