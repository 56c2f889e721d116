// A file of torch.save that Megatron-LM wrote: common.pt of a torch_dist checkpoint, or model_optim_rng.pt of one rank.
//
//   const MegatronFile file(mapped.bytes(), mapped.path());
//   const nlohmann::json arguments = file.arguments().value();          // {"num_layers": 24, ...}
//   for (const auto& [name, value] : file.tensors("model")) ...
//
// Its pickle is read without executing it. It holds whatever Python objects a training script kept: arguments
// (argparse.Namespace), enumerators, the states of random number generators. Tensors, dictionaries, lists, texts,
// numbers and the arguments are read; anything else is a placeholder of which only the class's name is known, and an
// error only where it is in the place of something that is needed.
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "partita/interop/mapped_tensor.h"

namespace partita::internal {

class MegatronFile {
 public:
  // `bytes` must outlive this and its tensors; `path` is for messages. Errors: no file of torch.save, a damaged pickle,
  // no dictionary in it. A list of one dictionary is read as that dictionary.
  MegatronFile(std::span<const std::byte> bytes, std::filesystem::path path);
  MegatronFile(MegatronFile&&) noexcept;
  MegatronFile& operator=(MegatronFile&&) = delete;
  ~MegatronFile();

  [[nodiscard]] const std::filesystem::path& path() const;
  // The entry "args" as an object: null, booleans, numbers, texts, and lists of these. Anything else is the text
  // "<CLASS>", which no field accepts. Empty: there is no such entry. Error: more than 50,000 values.
  [[nodiscard]] std::optional<nlohmann::json> arguments() const;
  // The number at the top of the file, such as checkpoint_version; empty: there is none.
  [[nodiscard]] std::optional<double> number(std::string_view entry) const;
  [[nodiscard]] bool has(std::string_view entry) const;

  struct Value {
    std::optional<MappedTensor> tensor;
    std::string what;  // without a tensor: what is there instead
  };
  // The values of nested dictionaries under an entry, with their keys joined by dots; without nulls. Error: the entry
  // is missing, nested more than eight deep, or holds a name of more than 1000 bytes.
  [[nodiscard]] std::map<std::string, Value, std::less<>> tensors(std::string_view entry) const;

 private:
  struct Contents;

  std::unique_ptr<Contents> contents_;
};

}  // namespace partita::internal
