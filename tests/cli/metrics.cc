#include "tests/cli/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "partita/base/file.h"

namespace partita::internal::test {

std::vector<std::map<std::string, double>> metrics(const std::filesystem::path& run) {
  std::vector<std::map<std::string, double>> lines;
  std::istringstream text(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) {
    auto& values = lines.emplace_back();
    const auto parsed = nlohmann::json::parse(line);
    for (const auto& [key, value] : parsed.items())
      if (!value.is_null()) values.emplace(key, value.get<double>());
    for (const char* clock : {"seconds", "tokens_per_second"}) {
      EXPECT_GT(values.at(clock), 0);
      values.erase(clock);
    }
  }
  return lines;
}

void expect_same_run(const std::filesystem::path& found, const std::filesystem::path& expected, double tolerance) {
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
