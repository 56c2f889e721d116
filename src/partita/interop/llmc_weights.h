// Weights of an llm.c checkpoint, under our names. Boxes are read through a memory map: no rank needs more memory than
// the box it requests. The padding of the vocabulary is never read.
//
//   const LlmcWeights weights("gpt2_124M_bf16.bin");
//   weights.check(engine.parameters());
//   weights.read(parameter, box, out);
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "partita/base/file.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/interop/llmc_format.h"

namespace partita::internal {

class LlmcWeights final : public WeightSource {
 public:
  // Errors: those of MappedFile and parse_llmc.
  explicit LlmcWeights(const std::filesystem::path& path);

  void check(std::span<const ParameterSpec>) const override;
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

  [[nodiscard]] const LlmcHeader& header() const { return header_; }

 private:
  [[nodiscard]] const LlmcTensor* find(const std::string& name) const;

  MappedFile file_;
  LlmcHeader header_;
  std::map<std::string, LlmcTensor> tensors_;  // by our name
};

}  // namespace partita::internal
