// A checkpoint of Megatron-LM in its older format, --ckpt-format torch: one file per tensor- and pipeline-parallel
// rank, mp_rank_TP[_PP]/model_optim_rng.pt, merged into whole tensors without reading them.
//
//   const MegatronRanks ranks("iter_0000100");
//   const ModelConfig model = megatron_model(ranks.arguments(), ...);
//   ChunkedTensors tensors = ranks.tensors(gated);
#pragma once
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "partita/base/file.h"
#include "partita/interop/chunked_tensor.h"
#include "partita/interop/megatron_file.h"

namespace partita::internal {

// Whether the folder has a subfolder mp_rank_...
[[nodiscard]] bool has_megatron_ranks(const std::filesystem::path& folder);

class MegatronRanks {
 public:
  // Errors: ranks that are missing, also according to the arguments; expert-parallel ranks; those of MegatronFile; a
  // checkpoint_version below 2, whose rows of queries, keys and values are in another order; ranks of different
  // iterations or versions.
  explicit MegatronRanks(std::filesystem::path folder);

  [[nodiscard]] const std::optional<nlohmann::json>& arguments() const { return arguments_; }
  // The file that the arguments are in.
  [[nodiscard]] const std::filesystem::path& file() const { return files_.begin()->second.path(); }

  // Under megatron-core's names, with layers numbered over all pipeline ranks. Weights that tensor-parallel ranks do
  // not divide are the first rank's. Valid while this exists. Error: ranks that hold other tensors, or of other shapes,
  // than their neighbors. `gated`: the MLP is SwiGLU (megatron_names.h).
  [[nodiscard]] ChunkedTensors tensors(bool gated) const;

 private:
  using Rank = std::pair<int, int>;  // pipeline, tensor
  using Values = std::map<std::string, MegatronFile::Value, std::less<>>;

  void find_files();
  void check_counters() const;
  void check_arguments() const;
  [[noreturn]] void refuse_rank(int pipeline, int tensor, std::string_view name) const;
  // `ranks`: the tensor-parallel ranks of a pipeline rank. Error: a tensor that not all of them hold.
  void check_names(const std::vector<Values>& ranks, int pipeline) const;

  std::filesystem::path folder_;
  std::vector<MappedFile> mapped_;
  std::map<Rank, MegatronFile> files_;
  int tensor_ranks_ = 0, pipeline_ranks_ = 0;
  std::optional<nlohmann::json> arguments_;
};

}  // namespace partita::internal
