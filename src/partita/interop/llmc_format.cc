#include "partita/interop/llmc_format.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/foreign_format.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kMagic = 20240326, kMagicLlama = 20240803;
constexpr int32_t kVersionFp32 = 3, kVersionBf16 = 5;
constexpr int64_t kVocabMultiple = 128;
constexpr double kEpsilon = 1e-5;  // a constant of llm.c

using Numbers = std::array<int32_t, kLlmcHeaderBytes / 4>;
enum Field : size_t { magic, version, positions, vocab, layers, heads, width, padded_vocab };

// What a layer has, in the order of the file: our name, rows and columns in multiples of the width (columns 0: a
// vector).
struct OfLayer {
  std::string_view name;
  int64_t rows, columns;
};
constexpr std::array kOfLayer = {OfLayer{"attention.norm.weight", 1, 0},   OfLayer{"attention.norm.bias", 1, 0},
                                 OfLayer{"attention.qkv.weight", 3, 1},    OfLayer{"attention.qkv.bias", 3, 0},
                                 OfLayer{"attention.output.weight", 1, 1}, OfLayer{"attention.output.bias", 1, 0},
                                 OfLayer{"mlp.norm.weight", 1, 0},         OfLayer{"mlp.norm.bias", 1, 0},
                                 OfLayer{"mlp.up.weight", 4, 1},           OfLayer{"mlp.up.bias", 4, 0},
                                 OfLayer{"mlp.down.weight", 1, 4},         OfLayer{"mlp.down.bias", 1, 0}};

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// What a file without the magic number is.
[[noreturn]] void refuse_magic(std::span<const std::byte> file, const Numbers& numbers, const fs::path& path) {
  constexpr std::string_view kExpected = "an llm.c checkpoint of GPT-2 (.bin), or the folder of a model";
  const std::string_view head = as_text(file.first(std::min(file.size(), kForeignFormatBytes)));
  refuse_lfs_pointer(head, path.string(), kExpected);
  if (numbers[magic] == kMagicLlama)
    fail("{} is an llm.c checkpoint of Llama, which is not read: {} expected", path.string(), kExpected);
  if (head.starts_with("GGUF"))
    fail("{} is a GGUF file, which is written but not read: {} expected", path.string(), kExpected);
  if (const auto found = foreign_format(head)) fail("{}", describe(*found, path.string(), kExpected));
  fail("{} holds no model: {} expected, and a file of llm.c begins with the number {}, not {}", path.string(),
       kExpected, kMagic, numbers[magic]);
}

}  // namespace

std::vector<LlmcTensor> llmc_tensors(const LlmcHeader& h) {
  const int64_t c = h.model.hidden_size;
  std::vector<LlmcTensor> tensors;
  int64_t offset = 0;
  const auto add = [&](std::string name, std::vector<int64_t> shape, int64_t padding = 0) {
    tensors.push_back({{.name = std::move(name), .shape = std::move(shape)}, offset, padding});
    offset += tensors.back().parameter.count() + padding;
  };
  add("embedding.token.weight", {h.model.vocab_size, c}, (h.padded_vocab - h.model.vocab_size) * c);
  add("embedding.position.weight", {h.model.max_length, c});
  for (const OfLayer& kind : kOfLayer) {
    std::vector<int64_t> shape = {kind.rows * c};
    if (kind.columns > 0) shape.push_back(kind.columns * c);
    for (int64_t l = 0; l < h.model.layers; ++l) add(fmt::format("layers.{}.{}", l, kind.name), shape);
  }
  add("final_norm.weight", {c});
  add("final_norm.bias", {c});
  return tensors;
}

int64_t llmc_bytes(const LlmcHeader& header) {
  const LlmcTensor last = llmc_tensors(header).back();
  return kLlmcHeaderBytes + (last.offset + last.parameter.count() + last.padding) * size_of(header.dtype);
}

LlmcHeader parse_llmc(std::span<const std::byte> file, const fs::path& path) {
  Numbers n{};
  std::memcpy(n.data(), file.data(), std::min(file.size(), sizeof n));
  if (file.size() < sizeof n[0] || n[magic] != kMagic) refuse_magic(file, n, path);
  if (file.size() < sizeof n)
    fail("{} is truncated: {} bytes, and its header has {}", path.string(), file.size(), sizeof n);
  if (n[version] != kVersionFp32 && n[version] != kVersionBf16)
    fail("{} is an llm.c checkpoint of version {}: {} (fp32) or {} (bf16) expected, as train_gpt2.py writes it",
         path.string(), n[version], kVersionFp32, kVersionBf16);
  for (const Field field : {positions, vocab, layers, heads, width, padded_vocab})
    if (n[field] < 1 || n[padded_vocab] < n[vocab])
      fail(
          "{}: {} positions, {} tokens padded to {}, {} layers, {} heads, width {}: numbers of at least 1, and at "
          "least as many padded tokens as tokens, expected",
          path.string(), n[positions], n[vocab], n[padded_vocab], n[layers], n[heads], n[width]);
  LlmcHeader header;
  ModelConfig& m = header.model;
  m.kind = ModelKind::gpt2;
  m.max_length = n[positions];
  m.vocab_size = n[vocab];
  m.layers = n[layers];
  m.heads = n[heads];
  m.hidden_size = n[width];
  m.ffn_hidden_size = 4 * m.hidden_size;
  m.tied_head = TiedHead::yes;
  m.norm_epsilon = kEpsilon;
  header.dtype = n[version] == kVersionFp32 ? DType::fp32 : DType::bf16;
  header.padded_vocab = n[padded_vocab];
  try {
    validate(m);
  } catch (const Error& error) {
    fail("{}: {}", path.string(), error.what());
  }
  if (const int64_t expected = llmc_bytes(header); expected != std::ssize(file))
    fail("{} has {} bytes, and its header says {}: {}", path.string(), file.size(), expected,
         std::ssize(file) < expected ? "it is truncated, copy it again" : "it is not what llm.c wrote");
  return header;
}

LlmcHeader llmc_header(const ModelConfig& m, DType dtype) {
  const auto refuse = [](std::string_view what) {
    fail("llm.c's format has no {}: export a Hugging Face folder or a GGUF file instead", what);
  };
  if (m.kind != ModelKind::gpt2) refuse("Llama models (GPT-2 expected)");
  if (!m.has_tied_head()) refuse("head of its own (model.tied_head = true expected)");
  if (m.ffn_size() != 4 * m.hidden_size)
    refuse(fmt::format("MLP of width {} ({} expected, 4 x hidden_size)", m.ffn_size(), 4 * m.hidden_size));
  if (m.norm_epsilon != kEpsilon) refuse(fmt::format("norm_epsilon of {} ({} expected)", m.norm_epsilon, kEpsilon));
  if (dtype != DType::fp32 && dtype != DType::bf16)
    fail("llm.c's format has no {}: export with --dtype fp32 or bf16", name_of(dtype));
  LlmcHeader header{.model = m, .dtype = dtype};
  header.padded_vocab = (m.vocab_size + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple;
  for (const int64_t size : {m.max_length, header.padded_vocab, m.layers, m.hidden_size})
    if (size > std::numeric_limits<int32_t>::max()) refuse(fmt::format("size of {} (32 bits)", size));
  return header;
}

std::string llmc_header_text(const LlmcHeader& h) {
  Numbers n{};
  n[magic] = kMagic;
  n[version] = h.dtype == DType::fp32 ? kVersionFp32 : kVersionBf16;
  n[positions] = static_cast<int32_t>(h.model.max_length);
  n[vocab] = static_cast<int32_t>(h.model.vocab_size);
  n[layers] = static_cast<int32_t>(h.model.layers);
  n[heads] = static_cast<int32_t>(h.model.heads);
  n[width] = static_cast<int32_t>(h.model.hidden_size);
  n[padded_vocab] = static_cast<int32_t>(h.padded_vocab);
  return {reinterpret_cast<const char*>(n.data()), sizeof n};
}

}  // namespace partita::internal
