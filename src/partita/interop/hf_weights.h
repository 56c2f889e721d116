// Weights of a Hugging Face folder, under our names and in our layout. Boxes are read through a memory map: no rank
// needs more memory than the box it requests.
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

// How to interpret the tensors of a folder.
struct HfNaming {
  std::vector<HfParameter> parameters;
  std::string optional_prefix;                         // may be missing from names in the folder
  std::function<bool(std::string_view)> is_ignorable;  // tensors that are not parameters
  // A tensor that may duplicate `original`, in which case it must be equal, or replace it; empty: none.
  std::string copy, original;
  std::string advice;  // shown if the tensors do not match
};
// The naming of a model. Errors: those of validate(model).
[[nodiscard]] HfNaming hf_naming(const ModelConfig& model);

class HfWeights final : public WeightSource {
 public:
  HfWeights(HfFolder, HfNaming);

  // Errors: those of WeightSource, with the folder's own names; an element type that is not floating-point; a tied
  // model's head that differs from its token table. A tied model may hold either of the two.
  void check(std::span<const ParameterSpec>) const override;
  void read(const ParameterSpec&, const Box&, std::span<float> out) const override;

  // The type of each tensor, as an export can write it: f32, f16 or bf16 (f32 for f64).
  [[nodiscard]] StoredTypes stored_types() const;
  // The float64 tensors, which are rounded to fp32 when read.
  [[nodiscard]] std::vector<std::string> rounded() const;
  [[nodiscard]] const HfFolder& folder() const { return folder_; }

 private:
  // Looks up a name with or without the prefix; if the original of a copy is missing, finds the copy.
  [[nodiscard]] const MappedTensor* find(std::string_view name) const;
  [[nodiscard]] const MappedTensor* find_itself(std::string_view name) const;
  [[nodiscard]] const HfParameter* parameter(std::string_view name) const;
  void check_copy() const;

  HfFolder folder_;
  HfNaming naming_;
  std::map<std::string_view, const HfParameter*> parameters_;  // pointers into naming_
};

}  // namespace partita::internal
