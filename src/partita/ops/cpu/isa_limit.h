// Runs this process as on a CPU with fewer instructions, for tests and measurements:
//
//   PARTITA_MAX_ISA=avx2 partita train my.toml  # also: baseline (no AVX2), avx512 (without bf16), avx512_bf16 (no AMX)
//
// It limits our kernels (Highway) and, unless their own variables are set, those of oneDNN, ATen and MKL. MKL obeys on
// Intel's CPUs only.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace partita::internal {

struct IsaLimit {
  std::string_view name;
  int64_t targets;  // of Highway, the ones that are left
  const char *onednn, *aten, *mkl;
};

// The limit of that name; nothing if there is none.
[[nodiscard]] std::optional<IsaLimit> isa_limit(std::string_view name);

// Applies the variable; true. Called before any kernel is chosen (cpu/targets.h); a wrong value limits nothing.
bool apply_isa_limit();

// Error: the variable has another value than the ones above.
void check_isa_limit();

}  // namespace partita::internal
