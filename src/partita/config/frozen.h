// Which parameters a run does not train.
//
//   const FrozenParameters frozen("embedding.*,layers.0.*", lora);
//   options.frozen = [&](const ParameterSpec& p) { return frozen(p); };
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "partita/models/lora.h"
#include "partita/nn/parameter.h"

namespace partita::internal {

class FrozenParameters {
 public:
  // Comma-separated shell-style patterns: * matches any characters, ? exactly one. With adapters, everything else is
  // frozen too.
  FrozenParameters(std::string_view patterns, const LoraConfig&);
  [[nodiscard]] bool operator()(const ParameterSpec&) const;
  // Error: a pattern matches no parameter (the message suggests one that exists), or nothing is left to train.
  void check(const std::vector<ParameterSpec>&) const;

 private:
  std::vector<std::string> patterns_;
  bool adapters_alone_;
};

}  // namespace partita::internal
