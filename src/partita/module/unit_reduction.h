// The backward side of ZeroOptimizer: takes gradients as autograd computes them, adds them to those of their units, and
// reduces units over the data-parallel ranks, all ranks in the same order (backward_order.h).
//
//   UnitReduction reduction(parts, {.micro_batches = 2, .each_pass = true}, data);
//   reduction.begin_pass(); reduction.arrived(parameter, gradient); reduction.end_pass();     // of a backward pass
//   reduction.finish(mesh, compute);                                                          // before the update
#pragma once
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "partita/comm/mesh.h"
#include "partita/module/backward_order.h"
#include "partita/module/module_parameters.h"

namespace partita::internal {

class UnitReduction {
 public:
  struct Options {
    int micro_batches = 1;   // backward passes of a step, at most
    bool each_pass = false;  // units are reduced in every pass, with stages 2 and 3; otherwise in the last one
    bool overlap = true;     // while backward goes on
  };
  // The parts and the communicator must outlive this object.
  UnitReduction(const ModuleParts&, const Options&, Communicator& data);

  // Of all parts: `parameter` of arrived is a place in this list.
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }

  // The next pass gives gradients to none but these.
  void expect(const std::vector<at::Tensor>& parameters);
  // Errors: a pass within a pass, or one too many.
  void begin_pass();
  // Error: a sparse gradient.
  void arrived(size_t parameter, const at::Tensor& gradient);
  void end_pass();

  [[nodiscard]] int passes() const { return passes_; }  // since the last step
  // Reduces what no pass has reduced; then the stores' slices may be finished. Collective.
  void finish(const Mesh&, Stream& compute);
  // Forgets the passes since the last step. False: there were none.
  bool drop();

 private:
  struct Place {
    ModuleParameters* part;
    int unit;
  };
  [[nodiscard]] std::vector<bool> units_of_pass() const;
  void reduce(int unit, bool last);
  void reduce_rest(bool last);
  void learn_order(const Mesh&, Stream& compute);

  Options options_;
  Communicator& data_;
  std::vector<at::Tensor> parameters_;
  std::vector<Place> units_;                                    // of all parts
  std::vector<std::pair<int, int>> placement_;                  // [parameter, of all parts]: its unit, and place there
  std::map<const void*, int> unit_of_;                          // by parameter
  std::vector<std::vector<std::pair<int, at::Tensor>>> early_;  // [unit]: gradients whose buffer another unit still has
  std::unique_ptr<BackwardOrder> order_;
  std::vector<bool> expected_;  // [unit]: of the next pass; empty: all
  std::vector<bool> reduced_;   // [unit]: since the last step
  int passes_ = 0;
  bool in_pass_ = false;      // between the first gradient of a pass and its end
  bool knows_order_ = false;  // the order is that of a pass, not the first guess
};

}  // namespace partita::internal
