// Limits the instruction sets that this process uses, for tests and benchmarks:
//
//   PARTITA_MAX_ISA=avx2 partita train my.toml  # also: baseline (no AVX2), avx512 (without bf16), avx512_bf16 (no AMX)
//
// Applies to our kernels (Highway) and, unless their own variables are set, to oneDNN, ATen and MKL. MKL honors it on
// Intel CPUs only.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace partita::internal {

struct IsaLimit {
  std::string_view name;
  int64_t targets;  // Highway targets that remain enabled
  const char *onednn, *aten, *mkl;
};

// The limit of this name; nullopt if unknown.
[[nodiscard]] std::optional<IsaLimit> isa_limit(std::string_view name);

// Applies the variable and returns true. Called before any kernel is selected (cpu/targets.h); an invalid value limits
// nothing.
bool apply_isa_limit();

// Error: the variable has a value other than those above.
void check_isa_limit();

}  // namespace partita::internal
