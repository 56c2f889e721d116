#include "partita/base/hub_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace partita::internal {
namespace {

// A word of letters, digits, '-', '_' and '.' that neither begins nor ends with a dot.
bool is_word(std::string_view word) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !word.empty() && word.front() != '.' && word.back() != '.' && word.front() != '-' &&
         word.find_first_not_of(kLetters) == std::string_view::npos;
}

bool looks_like_a_file(std::string_view word) {
  constexpr std::string_view kEndings[] = {".json", ".jsonl", ".txt",  ".model",       ".tiktoken", ".bin",
                                           ".idx",  ".toml",  ".gguf", ".safetensors", ".pt",       ".pth"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return word.ends_with(ending); });
}

}  // namespace

std::string hub_hint(const std::filesystem::path& path) {
  const std::string text = path.string();
  const size_t slash = text.find('/');
  const std::string_view name = slash == std::string::npos ? text : std::string_view(text).substr(slash + 1);
  if (!is_word(name) || looks_like_a_file(name)) return "";
  if (slash != std::string::npos && !is_word(std::string_view(text).substr(0, slash))) return "";
  return fmt::format(
      ". Names of the Hugging Face hub are not fetched: if it is one, 'hf download {} --local-dir models/{}' "
      "('huggingface-cli download' in older versions) fetches it, then give models/{}",
      text, name, name);
}

}  // namespace partita::internal
