// What a run that is started again has in its configuration that it had not before.
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
  // It decides what is trained, and how; the others where it is written, shown and computed.
  [[nodiscard]] bool changes_the_run() const;
};

// In the order of the schema, without the keys that say where a run is and starts.
[[nodiscard]] std::vector<ChangedKey> changed_keys(const Config& before, const Config& now);

// Where the schedule now has another rate at `step` than it had; `samples` are those consumed behind it.
[[nodiscard]] std::optional<std::string> changed_rate(const Config& before, const Config& now, int64_t step,
                                                      int64_t samples);

// Says what differs from the run's last start, a line each: data and seeds from those of the checkpoint it continues
// at, keys from `folder`'s config.toml.
void say_changes(const std::filesystem::path& folder, const RunState& saved,
                 const std::map<std::string, std::string>& identity, const Config& now);

}  // namespace partita::internal
