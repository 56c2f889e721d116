// Folders written by transformers and PEFT (tests/golden/make_hf.py), opened for tests that read and write such
// folders.
//
//   for (const std::string& name : golden_models()) OpenModel m = open_folder(golden_folder(name));
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "partita/base/file.h"
#include "partita/interop/hf_config.h"
#include "partita/interop/hf_names.h"
#include "partita/interop/hf_weights.h"
#include "partita/interop/peft.h"
#include "partita/interop/peft_config.h"
#include "tests/support/boxes.h"

namespace partita::internal::test {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(PARTITA_SOURCE_DIR) / "tests/golden/hf" / name;
}

inline std::vector<std::string> golden_models() {
  return {"gpt2_tied", "gpt2_untied", "llama_gqa_tied", "llama_gqa_tied_bf16", "llama_mha", "llama_rope_scaled"};
}

struct OpenModel {
  ModelConfig model;
  std::vector<ParameterSpec> parameters;
  std::shared_ptr<const HfWeights> weights;
};

inline OpenModel open_folder(const std::filesystem::path& folder) {
  OpenModel m;
  m.model = parse_hf_config(read_file(folder / "config.json"), folder / "config.json").model;
  m.parameters = parameter_specs(hf_parameters(m.model));
  m.weights = std::make_shared<const HfWeights>(HfFolder(folder), hf_naming(m.model));
  return m;
}

inline std::vector<float> read_all(const WeightSource& source, const ParameterSpec& p) {
  std::vector<float> values(static_cast<size_t>(p.count()));
  source.read(p, whole_box(p.shape), values);
  return values;
}

// What a source reads of a box is what it has there when it reads the whole parameter.
inline void expect_box_of_whole(const WeightSource& source, const ParameterSpec& p, const Box& box) {
  const std::vector<float> all = read_all(source, p);
  std::vector<float> found(static_cast<size_t>(box.count()));
  source.read(p, box, found);
  for (int64_t r = 0; r < box.rows; ++r)
    for (int64_t c = 0; c < box.columns; ++c)
      ASSERT_EQ(found[static_cast<size_t>(r * box.columns + c)],
                all[static_cast<size_t>((box.row + r) * whole_box(p.shape).columns + box.column + c)])
          << p.name << " row " << box.row + r << " column " << box.column + c;
}

}  // namespace partita::internal::test
