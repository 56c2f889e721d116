// memory.optimizer: where gradients, master weights and optimizer states are.
#pragma once
#include <string_view>

namespace partita {

// The fraction in host memory: 0 of "device", 1 of "host", 0.6 of "host:0.6". Error: another text.
[[nodiscard]] double optimizer_on_host(std::string_view place);

}  // namespace partita
