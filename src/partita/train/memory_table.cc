#include "partita/train/memory_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "partita/base/file.h"
#include "partita/train/stages.h"

namespace partita::internal {
namespace {

int64_t states_of(const EngineMemory& m) { return m.master + m.optimizer; }

// The owner with the most in use.
std::string_view largest_owner(const EngineMemory& m) {
  const std::pair<int64_t, std::string_view> owners[] = {{m.weights, "weights"},
                                                         {m.gradients, "gradients"},
                                                         {states_of(m), "states"},
                                                         {m.activations, "activations"},
                                                         {m.temporaries, "temporaries"}};
  return std::ranges::max(owners, {}, [](const auto& owner) { return owner.first; }).second;
}

// The first and last moment, the peak, the one with the most activations, and some between them.
std::set<size_t> shown_moments(const MemoryTimeline& timeline) {
  const auto& all = timeline.moments;
  const size_t last = all.size() - 1;
  const auto most = static_cast<size_t>(
      std::ranges::max_element(all, {}, [](const MemoryMoment& m) { return m.in_use.activations; }) - all.begin());
  return {0, most / 2, most, most + (last - most) / 3, most + 2 * (last - most) / 3, last - 1, last, timeline.peak()};
}

}  // namespace

std::string memory_table(std::span<const MemoryForecast> stages) {
  std::string text = "memory per rank";
  if (stages.size() > 1) {
    text = fmt::format("{:<18}", text);
    for (size_t s = 0; s < stages.size(); ++s) text += fmt::format("{:>12}", fmt::format("stage {}", s));
  }
  text += "\n";
  const auto row = [&](const std::string& name, const auto& bytes_of) {
    if (std::ranges::none_of(stages, [&](const MemoryForecast& stage) { return bytes_of(stage) > 0; })) return;
    text += fmt::format("{:<18}", name);
    for (const MemoryForecast& stage : stages) text += fmt::format("{:>12}", human_bytes(bytes_of(stage)));
    text += "\n";
  };
  for (size_t owner = 0; owner < stages.front().device.size(); ++owner)
    row("  " + stages.front().device[owner].name, [&](const MemoryForecast& f) { return f.device[owner].bytes; });
  row("device", [](const MemoryForecast& f) { return f.device_bytes(); });
  row("host", [](const MemoryForecast& f) { return f.host; });
  row("disk", [](const MemoryForecast& f) { return f.disk; });
  return text;
}

std::vector<std::string> block_names(const Config& c, int rank) {
  std::vector<std::string> names;
  const auto add = [&](int first, int end) {
    for (int b = first; b < end; ++b)
      names.push_back(b == 0 ? "embedding" : b > c.model.layers ? "head" : fmt::format("layer {}", b - 1));
  };
  if (c.parallel.pipeline == 1) {
    add(0, static_cast<int>(c.model.layers) + 2);
    return names;
  }
  const StagePlacement placement({.schedule = c.parallel.schedule,
                                  .ranks = static_cast<int>(c.parallel.pipeline),
                                  .chunks = static_cast<int>(pipeline_chunks(c)),
                                  .micro_batches = 1});
  const std::vector<int> first = stage_blocks(c);
  for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
    const auto s = static_cast<size_t>(placement.stage(rank, chunk));
    add(first[s], first[s + 1]);
  }
  return names;
}

std::string moment_name(const MemoryMoment& m, std::span<const std::string> blocks) {
  if (m.kind == MemoryMoment::Kind::before) return "before the first pass";
  if (m.kind == MemoryMoment::Kind::update) return "update";
  return fmt::format("{} {}, {}", m.pass == Pass::forward ? "forward" : "backward", m.micro_batch,
                     blocks[static_cast<size_t>(m.block)]);
}

std::string timeline_table(const MemoryTimeline& timeline, std::span<const std::string> blocks) {
  std::string text = fmt::format("{:<26}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "in use during a step", "weights",
                                 "gradients", "states", "activations", "temporaries", "all");
  for (const size_t i : shown_moments(timeline)) {
    const EngineMemory& m = timeline.moments[i].in_use;
    text += fmt::format("  {:<24}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{}\n", moment_name(timeline.moments[i], blocks),
                        human_bytes(m.weights), human_bytes(m.gradients), human_bytes(states_of(m)),
                        human_bytes(m.activations), human_bytes(m.temporaries),
                        human_bytes(timeline.moments[i].bytes()), i == timeline.peak() ? "  most" : "");
  }
  const MemoryMoment& peak = timeline.moments[timeline.peak()];
  return text + fmt::format("allocated once, before the first step: {}; in use of it at most {} ({}), mostly {}\n",
                            human_bytes(timeline.allocated_bytes()), human_bytes(peak.bytes()),
                            moment_name(peak, blocks), largest_owner(peak.in_use));
}

}  // namespace partita::internal
