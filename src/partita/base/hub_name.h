// Hints for Hugging Face hub names given where a local folder or file is expected: nothing is downloaded.
//
//   fail("{}: no such folder{}", path.string(), hub_hint(path));
#pragma once
#include <filesystem>
#include <string>

namespace partita::internal {

// If the path looks like a hub name ("gpt2", "meta-llama/Llama-3.2-1B"): ": names of the hub are not fetched, ..." with
// the download command; else empty.
[[nodiscard]] std::string hub_hint(const std::filesystem::path& path);

}  // namespace partita::internal
