// Writes tokenizer.json for `partita tokenizer train`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "partita/base/file.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/formats/tokenizer_json.h"

namespace partita::internal {
namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string format_tokenizer_json(const BpeModel& model) {
  const auto is_special = [&model](TokenId id) {
    return std::find(model.special.begin(), model.special.end(), id) != model.special.end();
  };
  const auto name_of = [&](TokenId id) {
    const std::string& bytes = model.tokens[static_cast<size_t>(id)];
    return is_special(id) ? bytes : to_printable(bytes);
  };
  std::string out = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  const char* separator = "\n";
  for (TokenId id : model.special) {
    out += fmt::format(R"({}    {{"id": {}, "content": {}, "single_word": false, "lstrip": false, "rstrip": false, )"
                       R"("normalized": false, "special": true}})",
                       separator, id, quoted(name_of(id)));
    separator = ",\n";
  }
  out += R"(
  ],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": null,
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {)";
  separator = "\n";
  for (TokenId id = 0; id < model.vocab_size(); ++id) {
    out += fmt::format("{}      {}: {}", separator, quoted(name_of(id)), id);
    separator = ",\n";
  }
  out += "\n    },\n    \"merges\": [";
  separator = "\n";
  for (const BpeMerge& merge : model.merges) {
    // Printable names contain no space, so the older form works, which every version of `tokenizers` reads.
    out += fmt::format("{}      {}", separator, quoted(name_of(merge.left) + " " + name_of(merge.right)));
    separator = ",\n";
  }
  out += "\n    ]\n  }\n}\n";
  return out;
}

void save_tokenizer_json(const BpeModel& model, const std::filesystem::path& path) {
  write_file(path, format_tokenizer_json(model));
}

}  // namespace partita::internal
