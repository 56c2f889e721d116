// Differences between the configuration of a resumed run and that of its previous start.
//
//   for (const ChangedKey& c : changed_keys(parse_saved_config(text, path), config))
//     log::warn("{}", c.text());                         // "optimizer.learning_rate: 0.001 -> 0.005"
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/run_state.h"
#include "partita/config/config.h"

namespace partita::internal {

struct ChangedKey {
  std::string key, before, after;  // values as TOML

  [[nodiscard]] std::string text() const { return key + ": " + before + " -> " + after; }
  // True if the key affects what is trained and how; false if it only affects output, display or execution.
  [[nodiscard]] bool changes_the_run() const;
};

// In schema order, without the keys that name the run's folder and starting point.
[[nodiscard]] std::vector<ChangedKey> changed_keys(const Config& before, const Config& now);

// A message if the schedule's learning rate at `step` has changed; `samples` includes that step's own.
[[nodiscard]] std::optional<std::string> changed_rate(const Config& before, const Config& now, int64_t step,
                                                      int64_t samples);

// Logs the differences to the run's previous start, one per line: data and seeds against the checkpoint being resumed,
// other keys against `folder`'s config.toml.
void log_changes(const std::filesystem::path& folder, const RunState& saved,
                 const std::map<std::string, std::string>& identity, const Config& now);

}  // namespace partita::internal
