// Weights of a Hugging Face folder, under our names and in our layout, read box by box through the map: no rank needs
// more memory than the box that it asks for.
//
//   const HfWeights weights(HfFolder(path), hf_naming(model));
//   weights.check(engine.parameters());
//   weights.read(parameter, box, out);
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "partita/checkpoint/stored_types.h"
#include "partita/checkpoint/weight_source.h"
#include "partita/interop/hf_folder.h"
#include "partita/interop/hf_names.h"

namespace partita::internal {

// What the tensors of a folder are.
struct HfNaming {
  std::vector<HfParameter> parameters;
  std::string optional_prefix;                         // names in the folder may lack it
  std::function<bool(std::string_view)> is_ignorable;  // tensors that are no parameters
  // A tensor that may be there too and must then equal another, or be there in its place; empty: none.
  std::string copy, original;
  std::string advice;  // what to do where the tensors are others than these
};
// Those of a model. Errors: those of validate(model).
[[nodiscard]] HfNaming hf_naming(const ModelConfig& model);

class HfWeights final : public WeightSource {
 public:
  HfWeights(HfFolder, HfNaming);

  // All that WeightSource says, with the folder's own names; also an element type that is not floating, and a head of a
  // tied model that differs from its token table. A tied model may hold either of the two.
  void check(std::span<const ParameterSpec>) const override;
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

  // Of each tensor, as an export can write it: f32, f16 or bf16 (f32 for f64).
  [[nodiscard]] StoredTypes stored_types() const;
  // Tensors of float64, which are rounded to fp32 when they are read.
  [[nodiscard]] std::vector<std::string> rounded() const;
  [[nodiscard]] const HfFolder& folder() const { return folder_; }

 private:
  // By the name there, with or without its prefix; where the original of a copy is missing, the copy.
  [[nodiscard]] const HfTensor* find(std::string_view name) const;
  [[nodiscard]] const HfTensor* find_itself(std::string_view name) const;
  [[nodiscard]] const HfParameter* parameter(std::string_view name) const;
  void check_copy() const;

  HfFolder folder_;
  HfNaming naming_;
  std::map<std::string_view, const HfParameter*> parameters_;  // into naming_
};

}  // namespace partita::internal
