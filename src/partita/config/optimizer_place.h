// memory.optimizer: where gradients, master weights and optimizer states are. memory.parameters: where weights in the
// compute dtype are.
#pragma once
#include <string_view>

namespace partita {

// Fractions; the rest is on the device.
struct OptimizerPlace {
  double host = 0;  // in host memory
  double disk = 0;  // master weights and optimizer states in a file, gradients in host memory

  [[nodiscard]] double off_device() const { return host + disk; }  // updated by the CPU
};

// "device"; "host", "disk", or with fractions "host:0.6", "disk:0.5", "host:0.3,disk:0.7". Error: another text.
[[nodiscard]] OptimizerPlace optimizer_place(std::string_view text);
// The same texts, as fractions of the weights.
[[nodiscard]] OptimizerPlace parameters_place(std::string_view text);

}  // namespace partita
