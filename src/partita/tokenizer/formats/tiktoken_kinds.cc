// What tiktoken's files leave out: split patterns and special tokens, as in tiktoken, Llama and Qwen.
#include <fmt/format.h>

#include "partita/tokenizer/formats/tiktoken.h"

namespace partita::internal {
namespace {

using Special = TiktokenKind::Special;

std::vector<Special> gpt2_special(size_t) { return {{"<|endoftext|>", 50256}}; }

std::vector<Special> p50k_edit_special(size_t) {
  return {{"<|endoftext|>", 50256}, {"<|fim_prefix|>", 50281}, {"<|fim_middle|>", 50282}, {"<|fim_suffix|>", 50283}};
}

std::vector<Special> cl100k_special(size_t) {
  return {{"<|endoftext|>", 100257},
          {"<|fim_prefix|>", 100258},
          {"<|fim_middle|>", 100259},
          {"<|fim_suffix|>", 100260},
          {"<|endofprompt|>", 100276}};
}

std::vector<Special> o200k_special(size_t) { return {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}; }

// Special tokens with the ids after the file's tokens, padded to `most` with reserved ones numbered from
// `first_reserved`.
std::vector<Special> following(size_t tokens, std::vector<std::string> names, size_t most, int first_reserved) {
  for (int i = first_reserved; names.size() < most; ++i)
    names.push_back(fmt::format("<|reserved_special_token_{}|>", i));
  std::vector<Special> special;
  for (std::string& name : names) special.push_back({std::move(name), static_cast<TokenId>(tokens + special.size())});
  return special;
}

std::vector<Special> llama3_special(size_t tokens) {
  return following(tokens,
                   {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                    "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>",
                    "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"},
                   256, 2);
}

std::vector<Special> llama4_special(size_t tokens) {
  std::vector<std::string> names = {"<|begin_of_text|>", "<|end_of_text|>",  "<|fim_prefix|>", "<|fim_middle|>",
                                    "<|fim_suffix|>",    "<|header_start|>", "<|header_end|>", "<|eom|>",
                                    "<|eot|>",           "<|step|>"};
  const auto add = [&names](std::initializer_list<const char*> more) {
    names.insert(names.end(), more.begin(), more.end());
  };
  const auto add_reserved = [&names](std::string_view what, int first, int end) {
    for (int i = first; i < end; ++i) names.push_back(fmt::format("<|{}_reserved_special_token_{}|>", what, i));
  };
  add_reserved("text_post_train", 0, 6);
  add({"<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"});
  add_reserved("text_post_train", 8, 69);
  add({"<|image_start|>", "<|image_end|>"});
  add_reserved("vision", 0, 2);
  add({"<|tile_x_separator|>", "<|tile_y_separator|>"});
  add_reserved("vision", 2, 6);
  add({"<|image|>"});
  add_reserved("vision", 6, 7);
  add({"<|patch|>"});
  add_reserved("vision", 7, 1048);
  add_reserved("reasoning", 0, 8);
  add({"<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"});
  return following(tokens, std::move(names), 2048, 0);
}

std::vector<Special> qwen_special(size_t tokens) {
  std::vector<std::string> names = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (int i = 0; i < 205; ++i) names.push_back(fmt::format("<|extra_{}|>", i));
  const size_t count = names.size();
  return following(tokens, std::move(names), count, 0);
}

}  // namespace

std::vector<TiktokenKind> tiktoken_kinds() {
  return {{"r50k_base", SplitPattern::gpt2, 50256, gpt2_special, ""},
          {"gpt2", SplitPattern::gpt2, 50256, gpt2_special, ""},
          {"p50k_base", SplitPattern::gpt2, 50280, gpt2_special, ""},
          {"p50k_edit", SplitPattern::gpt2, 50280, p50k_edit_special, ""},
          {"cl100k_base", SplitPattern::cl100k, 100256, cl100k_special, ""},
          {"o200k_base", SplitPattern::o200k, 199998, o200k_special, ""},
          {"llama3", SplitPattern::llama3, 128000, llama3_special, "<|begin_of_text|>"},
          {"llama4", SplitPattern::o200k, 200000, llama4_special, "<|begin_of_text|>"},
          {"qwen", SplitPattern::qwen2, 151643, qwen_special, ""}};
}

}  // namespace partita::internal
