#include "partita/monitor/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/file.h"

namespace partita::internal {
namespace {

// One row per owner: name, bytes, share of the total.
std::string memory_table(const std::vector<MemoryOwner>& memory) {
  size_t width = 5;  // "total"
  int64_t total = 0;
  for (const MemoryOwner& owner : memory) {
    width = std::max(width, owner.name.size());
    total += owner.bytes;
  }
  const auto line = [&](const std::string& name, int64_t bytes) {
    const double share = total > 0 ? 100.0 * static_cast<double>(bytes) / static_cast<double>(total) : 0.0;
    return fmt::format("    {:<{}}  {:>10}  {:5.1f}%\n", name, width, human_bytes(bytes), share);
  };
  std::string text = "  Memory per rank\n";
  for (const MemoryOwner& owner : memory) text += line(owner.name, owner.bytes);
  return text + line("total", total);
}

int64_t epochs(const RunSummary& s) {
  return s.examples > 0 ? (s.steps * s.global_batch + s.examples - 1) / s.examples : 0;
}

}  // namespace

std::string summary_text(const RunSummary& s) {
  std::string text = "***** Running training *****\n";
  const auto line = [&text](std::string_view name, const auto& value) {
    text += fmt::format("  {} = {}\n", name, value);
  };
  line("Num examples", s.examples);
  line("Num Epochs", epochs(s));
  line("Instantaneous batch size per device", s.micro_batch);
  line("Total train batch size (w. parallel, distributed & accumulation)", s.global_batch);
  line("Gradient Accumulation steps", s.accumulation_steps);
  line("Total optimization steps", s.steps);
  if (s.resumed_step > 0) line("Resuming after step", s.resumed_step);
  line("Number of parameters", s.parameters);
  if (s.trained_parameters > 0 && s.trained_parameters != s.parameters)
    line("Number of trained parameters", s.trained_parameters);
  line("Tokens per step", s.global_batch * s.sequence_length);
  line("Parallelism", s.layout);
  if (!s.memory.empty()) text += memory_table(s.memory);
  return text;
}

}  // namespace partita::internal
