#include "partita/train/summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "partita/base/file.h"

namespace partita {
namespace {

// Owners in a column, their bytes and the share of the sum beside them.
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
  std::string text = "  Memory of a rank by owner\n";
  for (const MemoryOwner& owner : memory) text += line(owner.name, owner.bytes);
  return text + line("total", total);
}

}  // namespace

std::string grouped(int64_t value) {
  std::string text = fmt::format("{}", value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

std::string summary_text(const RunSummary& s) {
  std::string text = "***** Running training *****\n";
  const auto line = [&text](std::string_view name, const std::string& value) {
    text += fmt::format("  {} = {}\n", name, value);
  };
  line("Num examples", grouped(s.examples));
  const double samples = static_cast<double>(s.steps) * static_cast<double>(s.global_batch);
  line("Num epochs", s.examples > 0 ? fmt::format("{:.2f}", samples / static_cast<double>(s.examples)) : "unknown");
  line("Instantaneous batch size per device", grouped(s.micro_batch));
  line("Total train batch size (w. parallel, distributed & accumulation)",
       fmt::format("{} ({} tokens)", grouped(s.global_batch), grouped(s.global_batch * s.sequence_length)));
  line("Gradient accumulation steps", grouped(s.accumulation_steps));
  line("Total optimization steps", grouped(s.steps));
  if (s.resumed_step > 0) line("Resumed behind step", grouped(s.resumed_step));
  line("Number of parameters", grouped(s.parameters));
  line("Parallelism", fmt::format("{} rank{}, ZeRO stage {}, {}", s.ranks, s.ranks == 1 ? "" : "s", s.zero_stage,
                                  s.precision));
  if (!s.memory.empty()) text += memory_table(s.memory);
  return text;
}

}  // namespace partita
