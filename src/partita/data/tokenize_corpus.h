// Text files to token files: what `partita tokenize` does.
//
//   const TokenizeReport report = tokenize_corpus({.inputs = expand_inputs({"corpus.jsonl"}),
//                                                  .output_prefix = "data/corpus", .append_eod = true}, *tokenizer);
//   // data/corpus_text_document.bin and .idx
//
// For each JSON key (plain text: "text") PREFIX_KEY_document.{bin,idx}, named as Megatron-LM's preprocess_data.py names
// them (PREFIX_KEY_sentence if documents are cut into sentences, a sequence each). The same bytes for any number of
// workers. Nothing appears under the output names unless all went well. An empty document is a document without
// sequences, so that document d is the d-th of the input.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partita/text/sentences.h"
#include "partita/text/text_input.h"
#include "partita/tokenizer/tokenizer.h"

namespace partita {

struct TokenizeOptions {
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path output_prefix;
  TextInputOptions text;
  bool append_eod = false;          // the tokenizer's end-of-document token after each document
  bool skip_bad_documents = false;  // count them and go on, in the place of an error
  std::optional<SentenceOptions> sentences;
  EncodeOptions encode;  // of each document, or of each sentence
  int workers = 1;
};

struct TokenizeProgress {
  int64_t bytes = 0;                   // of the input as it lies there, compressed or not
  std::optional<int64_t> total_bytes;  // nothing: not known, of standard input
  int64_t text_bytes = 0;              // decompressed, with what is around the texts
  int64_t documents = 0;
  double seconds = 0;

  [[nodiscard]] double megabytes_per_second() const {  // of text
    return seconds > 0 ? 1e-6 * static_cast<double>(text_bytes) / seconds : 0;
  }
  // 0 where it is not known.
  [[nodiscard]] double seconds_left() const {
    return bytes > 0 && total_bytes ? seconds * static_cast<double>(*total_bytes - bytes) / static_cast<double>(bytes)
                                    : 0;
  }
};

struct TokenizeReport {
  TokenizeProgress progress;
  int64_t tokens = 0;
  int64_t empty_documents = 0;
  int64_t bad_documents = 0;
  int64_t too_long = 0;               // longer than options.text allows, left out whatever skip_bad_documents says
  std::vector<std::string> problems;  // "file:line: byte N: what", the first kMostProblems of them
  std::vector<std::filesystem::path> prefixes;

  static constexpr size_t kMostProblems = 10;
};

// The folder of output_prefix is made. progress is called on this thread after each chunk of about a megabyte. Error: a
// bad document (file, line, byte), no document with text, append_eod with a tokenizer that has no such token, a full
// disk.
TokenizeReport tokenize_corpus(const TokenizeOptions& options, const Tokenizer& tokenizer,
                               const std::function<void(const TokenizeProgress&)>& progress = {});

// Reads the documents one after the other on this thread, for what wants their text: training a tokenizer. Of JSON
// lines all keys are used. Documents that are too long are left out, with a warning. Error: a bad document.
void for_each_document(const std::vector<std::filesystem::path>& inputs, const TextInputOptions& options,
                       const std::function<void(std::string_view)>& use,
                       const std::function<void(const TokenizeProgress&)>& progress = {});

}  // namespace partita
