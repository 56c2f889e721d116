// Reads the step metrics that a run wrote.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "partita/base/file.h"

namespace partita::internal::test {

// The lines of metrics.jsonl without what depends on the clock.
inline std::vector<nlohmann::json> metrics(const std::filesystem::path& run) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    lines.push_back(nlohmann::json::parse(line));
    EXPECT_GT(lines.back().at("seconds"), 0);
    EXPECT_GT(lines.back().at("tokens_per_second"), 0);
    for (const char* clock : {"seconds", "tokens_per_second"}) lines.back().erase(clock);
  }
  return lines;
}

inline void expect_same_run(const std::filesystem::path& found, const std::filesystem::path& expected,
                            double tolerance) {
  const auto a = metrics(found), b = metrics(expected);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].at("step"), b[i].at("step"));
    EXPECT_EQ(a[i].at("consumed_samples"), b[i].at("consumed_samples"));
    EXPECT_EQ(a[i].at("lr"), b[i].at("lr"));
    for (const char* key : {"loss", "grad_norm"}) {
      const double x = a[i].at(key), y = b[i].at(key);
      EXPECT_LE(std::abs(x - y), tolerance * std::abs(y)) << key << " at step " << i + 1;
    }
  }
}

}  // namespace partita::internal::test
