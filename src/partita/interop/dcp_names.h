// Which tensors of a DCP folder are the weights of a model: Hugging Face's names, or those of Meta's Llama that
// torchtitan uses, under any prefix of the state dict ("model.", "state.model."). Pure.
//
//   DcpModel found = find_dcp_model(model, folder.tensors(), folder.path());
//   ChunkedWeights weights(folder.path(), std::move(found.tensors), std::move(found.naming));
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "partita/interop/chunked_weights.h"
#include "partita/models/config.h"

namespace partita::internal {

struct DcpModel {
  ChunkedTensors tensors;  // those under the prefix, without it
  ChunkedNaming naming;
  std::vector<std::string>
      warnings;  // tensors outside of the prefix that are no state of an optimizer, data loader, ...
};

// Error: no tensor has the name of a weight of the first layer, under any prefix.
[[nodiscard]] DcpModel find_dcp_model(const ModelConfig& model, ChunkedTensors tensors,
                                      const std::filesystem::path& path);

}  // namespace partita::internal
