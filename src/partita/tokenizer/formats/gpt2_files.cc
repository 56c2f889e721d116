#include "partita/tokenizer/formats/gpt2_files.h"

#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/json.h"
#include "partita/tokenizer/bpe/bpe_model_builder.h"
#include "partita/tokenizer/byte_level.h"
#include "partita/tokenizer/formats/json_node.h"
#include "partita/tokenizer/formats/tokenizer_files.h"

namespace partita::internal {
namespace {

constexpr const char* kEndOfText = "<|endoftext|>";

void add_vocab(BpeModelBuilder& builder, const std::filesystem::path& path) {
  const nlohmann::json vocab = parse_json(read_tokenizer_file(path), path.string());
  if (!vocab.is_object()) fail("{}: an object {{token: id}} expected, found {}", path.string(), vocab.type_name());
  for (const auto& [name, id] : vocab.items()) {
    if (!id.is_number_integer())
      fail("{}: \"{}\": an integer expected, found {}", path.string(), name, JsonNode::shown(id));
    builder.add_token(name, id.get<int64_t>());
  }
}

// Returns true if a merge produces "<|endoftext|>", which is then an ordinary word.
bool add_merges(BpeModelBuilder& builder, const std::filesystem::path& path) {
  const std::string text = read_tokenizer_file(path);
  bool makes_end_of_text = false;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t newline = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, newline - begin);
    begin = newline + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
    const size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      fail("{}: line {}: two tokens with a space between them expected, found \"{}\"", path.string(), number, line);
    }
    const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
    builder.add_merge(left, right, path.string());
    makes_end_of_text |= fmt::format("{}{}", left, right) == kEndOfText;
  }
  return makes_end_of_text;
}

}  // namespace

BpeModel load_gpt2_files(const std::filesystem::path& vocab, const std::filesystem::path& merges) {
  BpeModelBuilder builder(vocab.string());
  add_vocab(builder, vocab);
  const bool ordinary = add_merges(builder, merges);
  if (const auto id = builder.find(kEndOfText); id && !ordinary) builder.add_special(kEndOfText, *id);
  return builder.build();
}

void check_special_for_gpt2_files(const std::vector<std::string>& special) {
  for (const std::string& name : special) {
    if (name == kEndOfText) continue;
    fail(
        "vocab.json and merges.txt do not say that \"{}\" is special, so that it would be text for who reads them: {} "
        "alone expected; write tokenizer.json instead",
        name, kEndOfText);
  }
}

void save_gpt2_files(const BpeModel& model, const std::filesystem::path& vocab, const std::filesystem::path& merges) {
  std::vector<std::string> special;
  for (const TokenId id : model.special) special.push_back(model.tokens[static_cast<size_t>(id)]);
  check_special_for_gpt2_files(special);
  std::vector<std::string> names;
  for (const std::string& bytes : model.tokens) names.push_back(to_printable(bytes));
  for (TokenId id : model.special) names[static_cast<size_t>(id)] = model.tokens[static_cast<size_t>(id)];
  std::string out = "{";
  for (size_t id = 0; id < names.size(); ++id) {
    out += fmt::format("{}{}: {}", id == 0 ? "" : ", ", nlohmann::json(names[id]).dump(), id);
  }
  write_file(vocab, out + "}\n");
  out = "#version: 0.2\n";
  for (const BpeMerge& merge : model.merges) {
    out += fmt::format("{} {}\n", names[static_cast<size_t>(merge.left)], names[static_cast<size_t>(merge.right)]);
  }
  write_file(merges, out);
}

}  // namespace partita::internal
