// When the gradients of a unit may be written and reduced in a backward pass that autograd runs. Pure.
//
//   BackwardOrder order(parameters, buffers);                     // of each unit
//   order.begin(std::vector(units, true));
//   for each gradient:
//     order.arrived(unit, parameter);
//     for (int u = order.complete(); u >= 0; u = order.complete()) reduce(u), order.reduced();
//
// Units are reduced in one sequence, so that ranks whose gradients arrive in different orders make the same calls: a
// unit waits for those before it. The sequence is the reverse of the units at first, then that in which the gradients
// of a backward pass were complete.
#pragma once
#include <cstddef>
#include <vector>

namespace partita::internal {

class BackwardOrder {
 public:
  // [unit]: the number of its parameters; its buffer, which units may share.
  BackwardOrder(const std::vector<int>& parameters, std::vector<int> buffers);

  void set_sequence(std::vector<int> units);  // a permutation; between passes
  // The units in the order in which the last pass had all of their gradients; those that it had not, at the end.
  [[nodiscard]] std::vector<int> seen() const;

  // A backward pass, after which these units are reduced: [unit].
  void begin(std::vector<bool> units);
  // A parameter's gradient is there. Error: its unit has been reduced, or is not one of the pass.
  void arrived(int unit, int parameter);
  // Whether the unit's buffer is its own by now: no unit before it in the sequence that shares it is to be reduced.
  [[nodiscard]] bool writable(int unit) const;
  // The next unit of the sequence; -1: all are reduced. complete: -1, too, if gradients of it are missing.
  [[nodiscard]] int next() const { return next_ < sequence_.size() ? sequence_[next_] : -1; }
  [[nodiscard]] int complete() const { return next() >= 0 && missing_[static_cast<size_t>(next())] == 0 ? next() : -1; }
  void reduced() { ++next_, skip(); }  // unit next()

 private:
  void skip() {
    while (next_ < sequence_.size() && !in_pass_[static_cast<size_t>(sequence_[next_])]) ++next_;
  }
  std::vector<int> buffers_;
  std::vector<bool> in_pass_;  // [unit]
  std::vector<int> sequence_;
  std::vector<size_t> place_;             // [unit] in the sequence
  std::vector<int> seen_;                 // units whose gradients were complete, in this order
  std::vector<std::vector<bool>> there_;  // [unit][parameter]
  std::vector<int> missing_;              // [unit]: parameters without gradient
  size_t next_ = 0;                       // in the sequence
};

}  // namespace partita::internal
