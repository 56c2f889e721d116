// Checks outputs of a command before its work begins: creates folders, and reports what cannot be written right away
// rather than after hours.
//
//   check_output_file("models/tokenizer.json", inputs);   // creates models/
//   check_output_prefix("data/corpus");                   // creates data/; data/ itself is not a valid prefix
#pragma once
#include <filesystem>
#include <span>

namespace partita::internal {

// Creates the folder of `path`. Error: `path` is a folder, is one of `inputs` (under any name), or cannot be written.
// An existing file is left unchanged.
void check_output_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs = {});

// The same for a file that must not exist yet, so that repeating a command does not overwrite hours of work. Error
// also: it exists.
void check_new_file(const std::filesystem::path& path, std::span<const std::filesystem::path> inputs = {});

// The same for files whose names begin with `prefix`. Error: `prefix` names a folder; its folder cannot be created.
void check_output_prefix(const std::filesystem::path& prefix);

// Error: the folder exists and is not empty, or the name is that of a file. Creates nothing.
void require_new_folder(const std::filesystem::path& folder);

// The same, and creates the folder. Error: it cannot be created.
void check_output_folder(const std::filesystem::path& folder);

}  // namespace partita::internal
