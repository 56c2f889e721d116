// What the readers of all formats of models do with the small files of a folder, which may hold anything.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace partita::internal {

inline constexpr const char* kModelConfig = "config.json";            // Hugging Face's
inline constexpr const char* kAdapterConfig = "adapter_config.json";  // PEFT's

[[nodiscard]] bool is_there(const std::filesystem::path& path);

// Opening a pipe or device of that name would block, or never end. Error: it is anything but a regular file.
void require_regular(const std::filesystem::path& path);

// The content of a file that has a few lines. Error: not a regular file, more than 1 MiB.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& path);

// The tokenizer in the first folder that has one; empty: none has.
[[nodiscard]] std::filesystem::path find_tokenizer_in(std::span<const std::filesystem::path> folders);

// A warning about tensors that are read as fp32. `names` must not be empty.
[[nodiscard]] std::string float64_warning(const std::filesystem::path& path, const std::vector<std::string>& names);

}  // namespace partita::internal
