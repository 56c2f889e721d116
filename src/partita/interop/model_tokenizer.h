// The tokenizer of a trained model.
//
//   const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer_of(open_model(path));
#pragma once
#include <filesystem>
#include <memory>

#include "partita/interop/model_source.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

// Loads `chosen`, or the tokenizer stored with the model. Error: none exists; it has more tokens than the model.
[[nodiscard]] std::unique_ptr<Tokenizer> load_tokenizer_of(const ModelSource&,
                                                           const std::filesystem::path& chosen = {});

}  // namespace partita
