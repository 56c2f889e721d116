#include "partita/config/config_changes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 10> kSections = {"model.",      "lora.",    "data.",    "train.",
                                                        "precision.",  "memory.",  "kernels.", "optimizer.",
                                                        "loss_scale.", "schedule."};
constexpr std::array<std::string_view, 4> kLocationKeys = {"run.directory", "run.fork", "run.rewind",
                                                           "checkpoint.resume"};
// Keys in the sections above that do not affect the numbers.
constexpr std::array<std::string_view, 4> kExecutionKeys = {"train.threads", "train.device", "data.cache",
                                                            "kernels.tuning_file"};

}  // namespace

bool ChangedKey::changes_the_run() const {
  return std::ranges::any_of(kSections, [&](std::string_view s) { return key.starts_with(s); }) &&
         std::ranges::find(kExecutionKeys, key) == kExecutionKeys.end();
}

std::vector<ChangedKey> changed_keys(const Config& before, const Config& now) {
  const auto a = config_values(before), b = config_values(now);
  std::vector<ChangedKey> changes;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].second != b[i].second && std::ranges::find(kLocationKeys, a[i].first) == kLocationKeys.end())
      changes.push_back({a[i].first, a[i].second, b[i].second});
  return changes;
}

std::optional<std::string> changed_rate(const Config& before, const Config& now, int64_t step, int64_t samples) {
  constexpr double kSame = 1e-3;  // relative
  const double was = learning_rate(before, step, samples), is = learning_rate(now, step, samples);
  if (std::abs(is - was) <= kSame * std::max(was, is)) return std::nullopt;
  return fmt::format("learning rate at step {}: {:.3g} instead of {:.3g}, because the schedule changed", step, is, was);
}

void log_changes(const fs::path& folder, const RunState& saved, const std::map<std::string, std::string>& identity,
                 const Config& now) {
  std::vector<std::string> said;
  for (const Difference& d : differences(saved.identity, identity)) {
    log::warn("{} changed from {} to {}: the run will not reproduce the original", d.name, d.before, d.now);
    said.push_back(d.name);
  }
  const fs::path path = folder / "config.toml";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return;
  try {
    const Config before = parse_saved_config(read_file(path), path);
    for (const ChangedKey& change : changed_keys(before, now)) {
      if (std::ranges::find(said, change.key) != said.end()) continue;
      if (change.changes_the_run())
        log::warn("{}", change.text());
      else
        log::info("{}", change.text());
    }
    if (const auto rate = changed_rate(before, now, saved.step - saved.skipped_steps + 1,
                                       saved.consumed_samples + now.train.global_batch))
      log::warn("{}", *rate);
  } catch (const Error& error) {  // written by another version: not a reason to stop
    log::warn("what changed since the run's last start is not known: {}", error.what());
  }
}

}  // namespace partita::internal
