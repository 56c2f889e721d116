// The weights "model/NAME" of a Partita checkpoint, whatever layout it was written in.
//
//   const StoredWeights weights("runs/a/checkpoints/step-00000100");
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string_view>

#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/stored_files.h"
#include "partita/checkpoint/weight_source.h"

namespace partita::internal {

class StoredWeights final : public WeightSource {
 public:
  // Errors: those of read_manifest.
  explicit StoredWeights(std::filesystem::path folder);

  void check(std::span<const ParameterSpec>) const override;
  // Verifies each chunk's checksum on its first read. Error: damaged; names file and tensor. Not thread-safe.
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }

 private:
  [[nodiscard]] const StoredTensor* find(std::string_view name) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string_view, const StoredTensor*> tensors_;  // weights, by parameter name
  std::unique_ptr<StoredFiles> files_;
};

}  // namespace partita::internal
