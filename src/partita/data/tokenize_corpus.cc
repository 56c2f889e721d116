#include "partita/data/tokenize_corpus.h"

#include <chrono>
#include <memory>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/base/output_check.h"
#include "partita/data/indexed_writer.h"
#include "partita/text/byte_source.h"
#include "partita/text/chunk_parser.h"
#include "partita/text/line_counter.h"
#include "partita/text/ordered_parallel.h"
#include "partita/text/text_chunks.h"

namespace partita {
using namespace internal;
namespace {

// The tokenized documents of a chunk for one key: all ids, the length of each sequence, the sequences per document.
struct TokenizedDocuments {
  std::vector<TokenId> ids;
  std::vector<size_t> lengths, sequences;
};

struct TokenizedChunk {
  std::string file;
  int64_t first_byte = 0, bytes = 0, input_bytes = 0;
  int64_t empty_documents = 0;
  ChunkSummary summary;
  std::vector<TokenizedDocuments> keys;
};

// State of one thread.
struct Worker {
  ChunkParser parser;
  std::unique_ptr<Encoder> encoder;
  std::optional<SentenceSplitter> splitter;
};

TokenizedChunk tokenize(Worker& worker, const TextChunk& chunk, const TokenizeOptions& options,
                        std::optional<TokenId> end_of_document) {
  TokenizedChunk result{chunk.name,
                        chunk.first_byte,
                        static_cast<int64_t>(chunk.text.size()) + chunk.skipped_bytes,
                        chunk.input_bytes,
                        0,
                        {},
                        {}};
  result.keys.resize(options.text.json_keys.size());
  constexpr size_t kBytesAToken = 4;  // for English; the vector grows if there are fewer
  for (TokenizedDocuments& documents : result.keys)
    documents.ids.reserve(chunk.text.size() / kBytesAToken / result.keys.size());
  result.summary = worker.parser.parse(chunk, !options.skip_bad_documents, [&](size_t key, std::string_view text) {
    TokenizedDocuments& documents = result.keys[key];
    const size_t sequences = documents.lengths.size();
    const auto encode = [&](std::string_view piece) {
      const size_t before = documents.ids.size();
      worker.encoder->encode(piece, documents.ids);
      if (documents.ids.size() > before) documents.lengths.push_back(documents.ids.size() - before);
    };
    if (worker.splitter) {
      for (const std::string_view sentence : worker.splitter->split(text)) encode(sentence);
    } else if (!text.empty()) {
      encode(text);
    }
    documents.sequences.push_back(documents.lengths.size() - sequences);
    if (documents.sequences.back() == 0) {
      ++result.empty_documents;
    } else if (end_of_document) {
      documents.ids.push_back(*end_of_document);
      ++documents.lengths.back();
    }
  });
  return result;
}

void check_keys(const TokenizeOptions& options) {
  if (options.text.json_keys.empty()) fail("no JSON key given, at least one expected");
  if (options.text.json_keys.size() == 1) return;
  for (const auto& file : options.inputs) {
    if (!is_json_lines(file, options.text.format)) {
      fail("{}: plain text has one text a document, {} JSON keys were given", file.string(),
           options.text.json_keys.size());
    }
  }
}

}  // namespace

TokenizeReport tokenize_corpus(const TokenizeOptions& options, const Tokenizer& tokenizer,
                               const std::function<void(const TokenizeProgress&)>& progress) {
  check_keys(options);
  if (options.workers < 1) fail("{} workers, at least 1 expected", options.workers);
  const auto end_of_document = options.append_eod ? tokenizer.end_of_document() : std::nullopt;
  if (options.append_eod && !end_of_document) {
    fail("the tokenizer has no end-of-document token (\"<|endoftext|>\", or one special token) to append");
  }
  TokenizeReport report;
  ChunkReader reader(options.inputs,
                     options.text);  // opened before the outputs: a missing input leaves no files behind
  check_output_prefix(options.output_prefix);
  std::vector<IndexedWriter> writers;
  for (const std::string& key : options.text.json_keys) {
    report.prefixes.push_back(options.output_prefix);
    report.prefixes.back() += fmt::format("_{}_{}", key, options.sentences ? "sentence" : "document");
    for (const auto& path :
         {bin_path(report.prefixes.back()), idx_path(report.prefixes.back()), sums_path(report.prefixes.back())})
      check_output_file(path, options.inputs);
    writers.emplace_back(report.prefixes.back(), token_type_for(tokenizer.vocab_size()));
    writers.back().set_tokenizer(tokenizer);
  }
  std::vector<Worker> workers;
  for (int i = 0; i < options.workers; ++i) {
    workers.push_back({ChunkParser(options.text), tokenizer.make_encoder(options.encode), std::nullopt});
    if (options.sentences) workers.back().splitter.emplace(*options.sentences);
  }

  const auto start = std::chrono::steady_clock::now();
  report.progress.total_bytes = reader.total_bytes();
  LineCounter lines;
  const auto write = [&](const TokenizedChunk& chunk) {
    for (const TextProblem& problem : chunk.summary.problems) {
      const std::string where = lines.place(chunk.file, chunk.first_byte, problem);
      if (!options.skip_bad_documents && !problem.too_long) throw Error(where);
      ++(problem.too_long ? report.too_long : report.bad_documents);
      if (report.problems.size() < TokenizeReport::kMostProblems) report.problems.push_back(where);
    }
    lines.leave(chunk.first_byte, chunk.summary.lines);
    for (size_t key = 0; key < writers.size(); ++key) {
      const TokenizedDocuments& documents = chunk.keys[key];
      std::span<const TokenId> ids = documents.ids;
      std::span<const size_t> lengths = documents.lengths;
      for (const size_t sequences : documents.sequences) {
        for (const size_t length : lengths.first(sequences)) {
          writers[key].add_sequence(ids.first(length));
          ids = ids.subspan(length);
        }
        lengths = lengths.subspan(sequences);
        writers[key].end_document();
      }
      report.tokens += static_cast<int64_t>(documents.ids.size());
    }
    report.progress.documents += static_cast<int64_t>(chunk.keys[0].sequences.size());  // the same for every key
    report.empty_documents += chunk.empty_documents;
    report.progress.bytes += chunk.input_bytes;
    report.progress.text_bytes += chunk.bytes;
    report.progress.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (progress) progress(report.progress);
  };
  ordered_parallel(
      options.workers, [&] { return reader.next(); },
      [&](int worker, const TextChunk& chunk) {
        return tokenize(workers[static_cast<size_t>(worker)], chunk, options, end_of_document);
      },
      write);

  for (const IndexedWriter& writer : writers) {
    if (writer.sequences() > 0) continue;
    const std::string inputs = options.inputs.empty()       ? "no input files"
                               : options.inputs.size() == 1 ? input_name(options.inputs[0])
                                                            : fmt::format("{} input files", options.inputs.size());
    fail("{}: no document with text ({}, {} empty documents, {} bad ones, {} too long{}): {} is not written", inputs,
         human_bytes(report.progress.text_bytes), report.empty_documents, report.bad_documents, report.too_long,
         report.too_long > 0
             ? fmt::format(", the first {} (--max-line and --max-document set the limits)", report.problems.front())
             : "",
         bin_path(writer.prefix()).string());
  }
  for (IndexedWriter& writer : writers) writer.finish();
  for (IndexedWriter& writer : writers) writer.publish();
  return report;
}

void for_each_document(const std::vector<std::filesystem::path>& inputs, const TextInputOptions& options,
                       const std::function<void(std::string_view)>& use,
                       const std::function<void(const TokenizeProgress&)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  ChunkReader reader(inputs, options);
  TokenizeProgress now{.total_bytes = reader.total_bytes()};
  ChunkParser parser(options);
  LineCounter lines;
  while (const auto chunk = reader.next()) {
    const ChunkSummary summary = parser.parse(*chunk, true, [&](size_t, std::string_view text) {
      ++now.documents;
      use(text);
    });
    for (const TextProblem& problem : summary.problems) {
      const std::string where = lines.place(chunk->name, chunk->first_byte, problem);
      if (!problem.too_long) throw Error(where);
      log::warn("skipped: {} (--max-line and --max-document set the limits)", where);
    }
    lines.leave(chunk->first_byte, summary.lines);
    now.bytes += chunk->input_bytes;
    now.text_bytes += static_cast<int64_t>(chunk->text.size()) + chunk->skipped_bytes;
    now.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (progress) progress(now);
  }
}

}  // namespace partita
