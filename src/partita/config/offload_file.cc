#include "partita/config/offload_file.h"

#include <toml++/toml.h>

#include <string>

#include "partita/base/error.h"
#include "partita/config/toml_text.h"

namespace partita::internal {
namespace {

struct Place {
  std::string_view file, section;

  [[nodiscard]] std::string text(const toml::key& key) const {
    return fmt::format("{}:{}: {}.{}", file, key.source().begin.line, section, key.str());
  }
};

std::string read_text(const toml::key& key, const toml::node& node, const Place& place) {
  const auto* text = node.as_string();
  if (text == nullptr) fail("{}: expected a string", place.text(key));
  return text->get();
}

OptimizerPlace read_place(const toml::key& key, const std::string& text, const Place& place) {
  try {
    return optimizer_place(text);
  } catch (const Error& error) {
    fail("{}: {}", place.text(key), error.what());
  }
}

}  // namespace

OffloadKeys read_offload_keys(std::string_view text, std::string_view file) {
  const toml::table root = parse_toml(text, file);
  const toml::table* memory = root["memory"].as_table();
  if (memory == nullptr) fail("{}: no table [memory]: expected one with optimizer = \"host:0.6\"", file);
  OffloadKeys keys;
  const Place place{.file = file, .section = "memory"};
  for (const auto& [key, node] : *memory) {
    if (key == "optimizer")
      keys.place = read_place(key, read_text(key, node, place), place);
    else if (key == "disk_folder")
      keys.disk_folder = read_text(key, node, place);
    else
      fail(
          "{}: expected optimizer and disk_folder alone: what else [memory] may have is for models of Partita; for a "
          "module of torch see recompute() (module/recompute.h)",
          place.text(key));
  }
  if (keys.place.disk > 0 && keys.disk_folder.empty())
    keys.disk_folder = root["run"]["directory"].value_or(std::string());
  if (keys.place.disk > 0 && keys.disk_folder.empty())
    fail("{}: memory.optimizer is on disk, and there is neither memory.disk_folder nor run.directory: name a folder",
         file);
  return keys;
}

}  // namespace partita::internal
