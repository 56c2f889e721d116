// Checks, before the first step, that token files match the model.
//
//   check_token_file(*dataset, config, rank, ranks);
//
// Reading PREFIX.sums (data/token_sums.h) costs nothing. Without it the tokens are scanned: all of them up to
// kMostSearched bytes, evenly spread samples of larger files.
#pragma once
#include "partita/config/config.h"
#include "partita/data/indexed_dataset.h"

namespace partita::internal {

// Error: a token outside the model's vocabulary; with data.verify, a checksum mismatch in this rank's share of the
// files. Rank 0 warns if the files were made with a tokenizer other than data.tokenizer, and if there are no checksums
// to verify.
void check_token_file(const IndexedDataset& tokens, const Config& config, int rank, int ranks);

// The largest token of the files, or of the scanned part.
struct LargestToken {
  int64_t token = -1;
  bool of_all = true;
};
[[nodiscard]] LargestToken find_largest_token(const IndexedDataset& tokens, int64_t most_bytes);

}  // namespace partita::internal
