#include "partita/optim/optimizer.h"

#include "partita/base/error.h"
#include "partita/optim/adamw.h"
#include "partita/optim/lamb.h"
#include "partita/optim/sgd.h"
#include "partita/shard/flat_buffer.h"

namespace partita::internal {
namespace {

void check_share(const char* name, double value) {
  if (!(value >= 0 && value < 1)) fail("optimizer: {} is {}, expected at least 0 and less than 1", name, value);
}

void check_adam(const OptimizerOptions& options) {
  check_share("beta1", options.beta1);
  check_share("beta2", options.beta2);
  if (!(options.epsilon > 0)) fail("optimizer: epsilon is {}, expected more than 0, such as 1e-8", options.epsilon);
}

}  // namespace

std::vector<at::Tensor> Optimizer::make_states(int64_t count, DType dtype, at::Device device) const {
  std::vector<at::Tensor> states;
  for (size_t s = 0; s < state_names().size(); ++s) states.push_back(flat_zeros(count, dtype, device));
  return states;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options) {
  if (!(options.weight_decay >= 0)) fail("optimizer: weight_decay is {}, expected 0 or more", options.weight_decay);
  switch (options.kind) {
    case OptimizerKind::adamw:
      check_adam(options);
      return make_adamw(options);
    case OptimizerKind::lamb:
      check_adam(options);
      return make_lamb(options);
    case OptimizerKind::sgd:
      check_share("momentum", options.momentum);
      return make_sgd(options);
  }
  fail("optimizer: unknown kind {}", static_cast<int>(options.kind));
}

}  // namespace partita::internal
