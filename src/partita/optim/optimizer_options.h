// Optimizer kind and hyperparameters: plain values, no torch.
#pragma once
#include <cstdint>

#include "partita/base/enum_names.h"

namespace partita {

enum class OptimizerKind : uint8_t { adamw, sgd, lamb };
template <>
struct EnumNames<OptimizerKind> {
  static constexpr std::array kNames = {"adamw", "sgd", "lamb"};
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;  // adamw, lamb
  double momentum = 0.9;                             // sgd
  double weight_decay = 0.1;                         // for parameters with ParameterSpec::decay
};

}  // namespace partita
