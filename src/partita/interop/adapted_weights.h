// Weights of a model with low-rank adapters: base and adapters as one source, or the adapters merged into the matrices.
//
//   const AdaptedWeights both(base, adapters);                       // base and adapters, each under its own names
//   const MergedWeights merged(base, adapters, model, lora);         // the base's names: W + alpha / rank * B A
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/weight_source.h"
#include "partita/interop/peft_names.h"

namespace partita::internal {

// Reads adapter parameters (ParameterSpec::adapter) from `adapters`, all others from `base`.
class AdaptedWeights final : public WeightSource {
 public:
  AdaptedWeights(std::shared_ptr<const WeightSource> base, std::shared_ptr<const WeightSource> adapters)
      : base_(std::move(base)), adapters_(std::move(adapters)) {}

  void check(std::span<const ParameterSpec>) const override;
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

 private:
  std::shared_ptr<const WeightSource> base_, adapters_;
};

// A matrix plus its adapters' products, computed in fp32: first the sum over the rank, then times alpha / rank, as PEFT
// merges. Only the columns of A and rows of B that the requested box touches are held in memory.
class MergedWeights final : public WeightSource {
 public:
  // Errors: those of lora_adapters.
  MergedWeights(std::shared_ptr<const WeightSource> base, std::shared_ptr<const WeightSource> adapters,
                const ModelConfig&, const LoraConfig&);

  // Checks the base's parameters; the adapters are checked as well.
  void check(std::span<const ParameterSpec>) const override;
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

 private:
  [[nodiscard]] ParameterSpec a_of(const LoraAdapter&) const;
  [[nodiscard]] ParameterSpec b_of(const LoraAdapter&) const;
  void add(const LoraAdapter&, const Box&, std::span<float> out) const;

  std::shared_ptr<const WeightSource> base_, adapters_;
  int64_t rank_;
  float scale_;
  std::map<std::string, std::vector<LoraAdapter>, std::less<>> by_matrix_;
};

}  // namespace partita::internal
