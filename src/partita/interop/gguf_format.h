// The GGUF format, version 3 (ggml-org/ggml, docs/gguf.md): metadata and tensors in one file, as llama.cpp reads it.
//
//   const GgufMetadata metadata = {{"general.architecture", "gpt2"}, {"gpt2.block_count", uint32_t{12}}};
//   const GgufLayout layout = lay_out_gguf(metadata, {{"output_norm.weight", {768}, GgufType::f32}});
//   file.write(layout.header);                           // then each tensor at layout.offsets[i], zeros in between
//
// A file is "GGUF", version (u32), number of tensors and of metadata entries (u64), the metadata, the description of
// each tensor, and the tensors' data. Numbers are little-endian, a text is its length (u64) and its bytes. The data,
// and each tensor in it, begin at a multiple of 32. Dimensions are listed from the innermost, the row length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace partita::internal {

// Element types, with their numbers in the format. q8_0: blocks of 32 elements of a row, as signed bytes with a common
// factor in fp16 in front.
enum class GgufType : uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

inline constexpr int64_t kQ8BlockElements = 32;
inline constexpr int64_t kGgufAlignment = 32;

// Error (of the caller): q8_0 with a number of elements that is not a multiple of 32.
[[nodiscard]] int64_t bytes_of(GgufType type, int64_t elements);

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<uint8_t>, std::vector<int32_t>,
                               std::vector<float>, std::vector<std::string>>;
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

struct GgufEntry {
  std::string name;
  std::vector<int64_t> shape;  // row-major, as everywhere here: [rows, columns]
  GgufType type = GgufType::f32;
};

struct GgufLayout {
  std::string header;            // everything before the data, padded
  std::vector<int64_t> offsets;  // of each tensor, from the beginning of the file
  int64_t bytes = 0;             // of the file; the last tensor is padded, too
};

// Error (of the caller): a name that occurs twice, or is longer than the 63 bytes that ggml's reader takes.
[[nodiscard]] GgufLayout lay_out_gguf(const GgufMetadata& metadata, std::span<const GgufEntry> entries);

}  // namespace partita::internal
