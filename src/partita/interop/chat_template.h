// The chat template that accompanies a model, for formats that keep it in their own file.
//
//   const std::string jinja = chat_template(side_files(source));
#pragma once
#include <string>

#include "partita/interop/side_files.h"

namespace partita::internal {

// The Jinja text of chat_template.jinja, chat_template.json or tokenizer_config.json, the first that has one (of
// several named templates "default"); empty: none. Error: a file that is not valid JSON.
[[nodiscard]] std::string chat_template(const NamedFiles& files);

}  // namespace partita::internal
