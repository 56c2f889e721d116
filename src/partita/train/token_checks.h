// Whether token files are those of a model, asked before the first step.
//
//   check_token_file(*dataset, config, rank, ranks);
//
// What PREFIX.sums says (data/token_sums.h) costs nothing to compare. Without it, tokens are looked through: all of
// them up to kMostSearched bytes, of more a part that is spread over the file.
#pragma once
#include "partita/config/config.h"
#include "partita/data/indexed_dataset.h"

namespace partita::internal {

// Error: a token that the model does not know; with data.verify, a byte that does not have its checksum, of the part
// that this rank of several looks at. Rank 0 warns where the files were made with another tokenizer than
// data.tokenizer, and where there is nothing to verify.
void check_token_file(const IndexedDataset& tokens, const Config& config, int rank, int ranks);

// The largest token of the files, or of what was searched of them.
struct LargestToken {
  int64_t token = -1;
  bool of_all = true;
};
[[nodiscard]] LargestToken find_largest_token(const IndexedDataset& tokens, int64_t most_bytes);

}  // namespace partita::internal
