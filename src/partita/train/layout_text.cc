#include "partita/train/layout_text.h"

#include <fmt/format.h>

namespace partita::internal {

std::string layout_text(const Config& c, int64_t ranks) {
  const ParallelConfig& p = c.parallel;
  std::string text = fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
  std::string tensor = "tensor";
  if (p.tensor > 1)
    if (const std::string parts = replicated_text(tensor_division(c)); !parts.empty())
      tensor += fmt::format(" (replicated: {})", parts);
  const char* separator = " = ";
  for (const auto& [size, name] : {std::pair(p.tensor, tensor),
                                   {p.context, "context"},
                                   {data_ranks(c, ranks), "data"},
                                   {p.pipeline, "pipeline"}}) {
    if (size == 1) continue;
    text += fmt::format("{}{} {}", separator, size, name);
    separator = " x ";
  }
  if (p.pipeline > 1) text += fmt::format(", schedule {}", name_of(p.schedule));
  if (const int64_t stages = pipeline_chunks(c); stages > 1) text += fmt::format(" with {} stages per rank", stages);
  text += fmt::format(", ZeRO stage {}, {}", p.zero_stage, name_of(c.precision.compute));
  if (c.precision.fp8 != Fp8Recipe::off) text += fmt::format(" with fp8 matmuls ({} scales)", name_of(c.precision.fp8));
  return text;
}

}  // namespace partita::internal
