// Converts text files to token files; implements `partita tokenize`.
//
//   const TokenizeReport report = tokenize_corpus({.inputs = expand_inputs({"corpus.jsonl"}),
//                                                  .output_prefix = "data/corpus", .append_eod = true}, *tokenizer);
//   // data/corpus_text_document.bin and .idx
//
// Writes PREFIX_KEY_document.{bin,idx} for each JSON key (plain text: "text"), named as by Megatron-LM's
// preprocess_data.py (PREFIX_KEY_sentence with one sequence per sentence, if documents are split into sentences). The
// output is the same for any number of workers. The output files appear only on success. An empty document becomes a
// document without sequences, so document d is always the d-th of the input.
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
  bool append_eod = false;          // append the tokenizer's end-of-document token to each document
  bool skip_bad_documents = false;  // count them and continue, instead of an error
  std::optional<SentenceOptions> sentences;
  EncodeOptions encode;  // for each document or sentence
  int workers = 1;
};

struct TokenizeProgress {
  int64_t bytes = 0;                   // of the input files as stored, compressed or not
  std::optional<int64_t> total_bytes;  // empty: unknown, for standard input
  int64_t text_bytes = 0;              // decompressed, including what surrounds the texts
  int64_t documents = 0;
  double seconds = 0;

  [[nodiscard]] double megabytes_per_second() const {  // text
    return seconds > 0 ? 1e-6 * static_cast<double>(text_bytes) / seconds : 0;
  }
  // 0 if unknown.
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
  int64_t too_long = 0;               // longer than options.text allows; dropped regardless of skip_bad_documents
  std::vector<std::string> problems;  // "file:line: byte N: what"; only the first kMostProblems
  std::vector<std::filesystem::path> prefixes;

  static constexpr size_t kMostProblems = 10;
};

// Creates the folder of output_prefix. Calls progress on this thread after each chunk of about a megabyte. Error: a bad
// document (file, line, byte), no document with text, append_eod with a tokenizer that has no such token, a full disk.
TokenizeReport tokenize_corpus(const TokenizeOptions& options, const Tokenizer& tokenizer,
                               const std::function<void(const TokenizeProgress&)>& progress = {});

// Reads the documents one by one on this thread, for uses that need their text, such as training a tokenizer. Uses all
// JSON keys. Documents that are too long are dropped with a warning. Error: a bad document.
void for_each_document(const std::vector<std::filesystem::path>& inputs, const TextInputOptions& options,
                       const std::function<void(std::string_view)>& use,
                       const std::function<void(const TokenizeProgress&)>& progress = {});

}  // namespace partita
