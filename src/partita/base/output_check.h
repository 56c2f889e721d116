// Checks of what a command will write, before its work begins: folders are made, and what cannot be written is named at
// once and not after hours.
//
//   check_output_file("models/tokenizer.json", inputs);   // makes models/
//   check_output_prefix("data/corpus");                   // makes data/; data/ itself is no prefix
#pragma once
#include <filesystem>
#include <span>

namespace partita::internal {

// Makes the folder of `path`. Error: `path` is a folder, or one of `inputs` (by whatever name), or cannot be written. What
// is there stays as it is.
void check_output_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs = {});

// The same of a file that must not exist: what took hours to make is not replaced by a command that is repeated. Error also:
// it exists.
void check_new_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs = {});

// The same of files whose names begin with `prefix`. Error: `prefix` names a folder; its folder cannot be made.
void check_output_prefix(const std::filesystem::path& prefix);

// Error: the folder exists and is not empty, or the name is that of a file. Makes nothing.
void require_new_folder(const std::filesystem::path& folder);

// The same, and makes the folder. Error: it cannot be made.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace partita::internal
