#include "partita/train/token_checks.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "partita/base/error.h"
#include "partita/base/file.h"
#include "partita/base/log.h"
#include "partita/data/token_sums.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita::internal {
namespace {

constexpr int64_t kMostSearched = int64_t{1} << 30;

void warn_of_another_tokenizer(const TokenSums& sums, const IndexedDataset& tokens, const Config& config) {
  if (sums.vocabulary == 0 || config.data.tokenizer.empty()) return;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = load_tokenizer(config.data.tokenizer);
  } catch (const Error&) {
    return;  // with token files the tokenizer is only copied, so its format may be one that we cannot load
  }
  if (fingerprint(*tokenizer) == sums.fingerprint) return;
  log::warn("{} was written with another tokenizer ({} tokens) than {} ({} tokens): token ids would not match",
            tokens.prefix().string(), sums.vocabulary, config.data.tokenizer.string(), tokenizer->vocab_size());
}

}  // namespace

LargestToken find_largest_token(const IndexedDataset& tokens, int64_t most_bytes) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const MappedFile bin(bin_path(tokens.prefix()), MappedFile::Access::sequential);
  const int64_t pieces = (bin.size() + kPiece - 1) / kPiece;
  const int64_t wanted = std::clamp<int64_t>(most_bytes / kPiece, 1, std::max<int64_t>(pieces, 1));
  LargestToken largest{.of_all = wanted >= pieces};
  for (int64_t w = 0; w < std::min(wanted, pieces); ++w) {
    const int64_t begin = w * pieces / wanted * kPiece;
    const auto piece =
        bin.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(std::min(kPiece, bin.size() - begin)));
    largest.token = std::max(largest.token, largest_token(tokens.type(), piece));
  }
  return largest;
}

void check_token_file(const IndexedDataset& tokens, const Config& config, int rank, int ranks) {
  std::optional<TokenSums> sums = read_token_sums(tokens.prefix());
  if (sums && !same_index(*sums, tokens.index_bytes())) {
    if (config.data.verify)
      fail(
          "{} does not have its checksum of {}: make the token files again (if another program has written them "
          "since, remove {})",
          idx_path(tokens.prefix()).string(), sums_path(tokens.prefix()).string(), sums_path(tokens.prefix()).string());
    if (rank == 0)
      log::warn("{} is of other token files: it is not used; remove it if another program has written them since",
                sums_path(tokens.prefix()).string());
    sums.reset();
  }
  if (config.data.verify && !sums && rank == 0)
    log::warn("data.verify: {} does not exist, so that there are no checksums to compare",
              sums_path(tokens.prefix()).string());
  if (config.data.verify && sums) verify(*sums, tokens.prefix(), rank, ranks);
  if (rank != 0) return;  // the remaining checks are done once
  const int64_t known = config.model.vocab_size;
  const int64_t largest = sums ? sums->largest : find_largest_token(tokens, kMostSearched).token;
  if (known > 0 && largest >= known)
    fail(
        "{} holds the token {}, and the model knows 0 to {} (model.vocab_size): use the tokenizer of the model to make "
        "the token files",
        bin_path(tokens.prefix()).string(), largest, known - 1);
  if (sums) warn_of_another_tokenizer(*sums, tokens, config);
}

}  // namespace partita::internal
