// What tests of several layouts train: cases with a name, and adapters on every linear.
#pragma once
#include <string>

#include "tests/engine/zero_reference.h"

namespace partita::internal::test {

struct NamedCase {
  std::string name;
  EngineCase c;
};

inline LoraConfig gpt2_adapters() { return {.rank = 3, .alpha = 5, .dropout = 0.1, .targets = "c_attn,c_proj,c_fc"}; }

inline LoraConfig llama_adapters() {
  return {.rank = 3, .alpha = 5, .dropout = 0.1, .targets = "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"};
}

}  // namespace partita::internal::test
