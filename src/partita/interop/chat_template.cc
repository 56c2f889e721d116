#include "partita/interop/chat_template.h"

#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/base/json.h"

namespace partita::internal {
namespace {

using nlohmann::json;

// A text, or a list of {"name": ..., "template": ...}.
std::string template_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return "";
  for (const json& item : value)
    if (item.is_object() && item.value("name", json()) == "default" && item.value("template", json()).is_string())
      return item["template"].get<std::string>();
  return "";
}

}  // namespace

std::string chat_template(const NamedFiles& files) {
  if (const auto jinja = files.find("chat_template.jinja"); jinja != files.end()) return read_file(jinja->second);
  for (const char* name : {"chat_template.json", "tokenizer_config.json"}) {
    const auto found = files.find(name);
    if (found == files.end()) continue;
    const json root = read_json(found->second);
    if (!root.is_object()) continue;
    if (std::string text = template_of(root.value("chat_template", json())); !text.empty()) return text;
  }
  return "";
}

}  // namespace partita::internal
