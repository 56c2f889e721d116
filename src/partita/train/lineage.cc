#include "partita/train/lineage.h"

#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "lineage.json";

}  // namespace

Lineage read_lineage(const fs::path& run) {
  const fs::path path = run / kName;
  std::error_code error;
  if (fs::status(path, error).type() == fs::file_type::not_found) return {};
  try {
    const nlohmann::json json = read_json(path);
    Lineage lineage;
    if (json.contains("parent")) {
      lineage.parent_checkpoint = json.at("parent").at("checkpoint").get<std::string>();
      lineage.parent_named = json.at("parent").at("named").get<std::string>();
      json.at("parent").at("step").get_to(lineage.parent_step);
    }
    for (const auto& r : json.at("rewinds"))
      lineage.rewinds.push_back({r.at("from"), r.at("to"), r.at("kept").get<std::string>()});
    if (json.contains("resumed_at")) lineage.resumed_at = json.at("resumed_at").get<int64_t>();
    return lineage;
  } catch (const std::exception& problem) {  // our Error, or json's for a missing key or wrong type
    fail("{} cannot be used: {}: restore it, or remove it if the run began at its own first step", path.string(),
         problem.what());
  }
}

void write_lineage(const fs::path& run, const Lineage& lineage) {
  nlohmann::json json = {{"rewinds", nlohmann::json::array()}};
  if (!lineage.parent_checkpoint.empty())
    json["parent"] = {{"checkpoint", lineage.parent_checkpoint.string()},
                      {"named", lineage.parent_named.string()},
                      {"step", lineage.parent_step}};
  for (const Rewind& r : lineage.rewinds)
    json["rewinds"].push_back({{"from", r.from}, {"to", r.to}, {"kept", r.kept.string()}});
  if (lineage.resumed_at) json["resumed_at"] = *lineage.resumed_at;
  write_file(run / kName, json.dump(2) + "\n");
}

}  // namespace partita::internal
