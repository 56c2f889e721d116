#include "partita/ops/cpu/isa_limit.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "partita/base/error.h"
#include "partita/ops/cpu/targets.h"
// Must follow targets.h.
#include <hwy/targets.h>

namespace partita::internal {
namespace {

constexpr const char* kVariable = "PARTITA_MAX_ISA";

constexpr int64_t kBaseline = HWY_STATIC_TARGET;  // what the compiler may assume: no AVX2
constexpr std::array<IsaLimit, 4> kLimits = {
    IsaLimit{"baseline", kBaseline, "SSE41", "default", "SSE4_2"},
    IsaLimit{"avx2", kBaseline | HWY_AVX2, "AVX2", "avx2", "AVX2"},
    IsaLimit{"avx512", kBaseline | HWY_AVX2 | HWY_AVX3, "AVX512_CORE_VNNI", "avx512", "AVX512"},
    IsaLimit{"avx512_bf16", kBaseline | HWY_AVX2 | HWY_AVX3, "AVX512_CORE_BF16", "avx512", "AVX512"}};

}  // namespace

std::optional<IsaLimit> isa_limit(std::string_view name) {
  const auto* found = std::find_if(kLimits.begin(), kLimits.end(), [&](const IsaLimit& l) { return l.name == name; });
  return found == kLimits.end() ? std::nullopt : std::optional(*found);
}

bool apply_isa_limit() {
  const char* value = std::getenv(kVariable);
  const std::optional<IsaLimit> limit = value == nullptr ? std::nullopt : isa_limit(value);
  if (!limit) return true;
  // Unlike the others, ATen uses what its variable names even on a CPU that lacks it.
  const int64_t beyond_cpu = limit->targets & ~(hwy::SupportedTargets() | kBaseline);
  const bool cpu_reaches_limit = (beyond_cpu & (HWY_AVX2 | HWY_AVX3)) == 0;
  hwy::DisableTargets(~limit->targets);
  constexpr int kKeepOurs = 0;  // the library's own variable takes precedence
  setenv("DNNL_MAX_CPU_ISA", limit->onednn, kKeepOurs);
  if (cpu_reaches_limit) setenv("ATEN_CPU_CAPABILITY", limit->aten, kKeepOurs);
  setenv("MKL_ENABLE_INSTRUCTIONS", limit->mkl, kKeepOurs);
  return true;
}

void check_isa_limit() {
  const char* value = std::getenv(kVariable);
  if (value != nullptr && !isa_limit(value))
    fail("{} is '{}': expected baseline, avx2, avx512 or avx512_bf16, or leave it unset", kVariable, value);
}

}  // namespace partita::internal
