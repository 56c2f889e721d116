#include "partita/tokenizer/pipeline.h"

#include <algorithm>
#include <deque>

#include "partita/base/error.h"
#include "partita/unicode/unicode.h"

namespace partita::internal {
namespace {

class PipelineEncoder final : public Encoder {
 public:
  PipelineEncoder(const Pipeline& pipeline, const EncodeOptions& options)
      : pipeline_(&pipeline), options_(options), model_(pipeline.parts().model->make_encoder()) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    const PipelineParts& parts = pipeline_->parts();
    if (options_.add_special) ids.insert(ids.end(), parts.before.begin(), parts.before.end());
    std::string valid;
    if (parts.needs_valid_utf8 && find_invalid_utf8(text)) text = valid = replace_invalid_utf8(text);
    for_each_part(pipeline_->raw_added(), text, ids, [&](std::string_view part, bool at_start) {
      encode_normalized(parts.normalizer.apply(part, normalizer_buffers_), at_start, ids);
    });
    if (options_.add_special) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
  }

 private:
  // Calls encode_part(text, whether it begins the whole text) for text between added tokens.
  template <typename F>
  void for_each_part(const AddedTokens& added, std::string_view text, std::vector<TokenId>& ids, F encode_part) {
    if (!added.any(options_.allow_special)) {
      if (!text.empty()) encode_part(text, true);
      return;
    }
    std::vector<AddedTokens::Part> parts;
    added.split(text, options_.allow_special, parts);
    for (const auto& [begin, end, id] : parts) {
      if (id) {
        ids.push_back(*id);
      } else {
        encode_part(text.substr(begin, end - begin), begin == 0);
      }
    }
  }

  void encode_normalized(std::string_view text, bool at_start, std::vector<TokenId>& ids) {
    for_each_part(pipeline_->normalized_added(), text, ids, [&](std::string_view part, bool first) {
      const PipelineParts& parts = pipeline_->parts();
      if (parts.pre_tokenizer) {
        arena_.clear();
        for (std::string_view piece : parts.pre_tokenizer->split(part, at_start && first, arena_)) {
          model_->encode(piece, ids);
        }
      } else if (parts.add_prefix_space && !part.starts_with(' ')) {
        model_->encode(" " + std::string(part), ids);
      } else {
        model_->encode(part, ids);
      }
    });
  }

  const Pipeline* pipeline_;
  EncodeOptions options_;
  std::unique_ptr<Encoder> model_;
  Normalizer::Buffers normalizer_buffers_;
  std::deque<std::string> arena_;
};

AddedTokens added_tokens(const PipelineParts& parts, bool normalized_ones) {
  std::vector<AddedToken> tokens;
  std::vector<std::string> spellings;
  for (const AddedToken& token : parts.added) {
    if (token.normalized != normalized_ones) continue;
    tokens.push_back(token);
    spellings.push_back(token.normalized ? parts.normalizer.apply(token.content) : token.content);
  }
  return {std::move(tokens), spellings};
}

}  // namespace

Pipeline::Pipeline(PipelineParts parts)
    : parts_(std::move(parts)),
      raw_added_(added_tokens(parts_, false)),
      normalized_added_(added_tokens(parts_, true)),
      end_of_document_(find_end_of_document(parts_.added)) {
  auto size = static_cast<size_t>(parts_.model->vocab_size());
  for (const AddedToken& token : parts_.added) size = std::max(size, static_cast<size_t>(token.id) + 1);
  bytes_.resize(size);
  for (TokenId id = 0; id < parts_.model->vocab_size(); ++id) {
    bytes_[static_cast<size_t>(id)] = parts_.model->bytes_of(id);
  }
  // A token matched in normalized text is also decoded in normalized form: "▁<s>" after a Prepend.
  for (const AddedToken& token : parts_.added)
    bytes_[static_cast<size_t>(token.id)] = token.normalized ? parts_.normalizer.apply(token.content) : token.content;
  if (!parts_.decoder) return;
  if (!parts_.decoder->left_out_of_first.empty()) names_ = bytes_;
  for (std::string& bytes : bytes_) bytes = parts_.decoder->bytes_of(bytes);
}

std::unique_ptr<Encoder> Pipeline::make_encoder(const EncodeOptions& options) const {
  return std::make_unique<PipelineEncoder>(*this, options);
}

SpecialTokens Pipeline::special_tokens() const {
  SpecialTokens special;
  for (const AddedToken& token : parts_.added)
    if (token.special) special.spellings.push_back(token.content);
  return special;
}

std::string_view Pipeline::bytes_of(TokenId id) const {
  if (id < 0 || id >= vocab_size()) fail("token {} is outside the vocabulary 0..{}", id, vocab_size() - 1);
  return bytes_[static_cast<size_t>(id)];
}

std::string Pipeline::decode(std::span<const TokenId> ids) const {
  if (!parts_.decoder) return Tokenizer::decode(ids);
  if (names_.empty() || ids.empty()) return parts_.decoder->finish(Tokenizer::decode(ids));
  static_cast<void>(bytes_of(ids.front()));  // checks that the id is in the vocabulary
  const std::string first = parts_.decoder->first_bytes_of(names_[static_cast<size_t>(ids.front())]);
  return parts_.decoder->finish(first + Tokenizer::decode(ids.subspan(1)));
}

}  // namespace partita::internal
