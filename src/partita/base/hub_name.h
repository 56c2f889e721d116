// Names of the Hugging Face hub, which people give where a folder or file is expected: nothing is fetched from there.
//
//   fail("{}: no such folder{}", path.string(), hub_hint(path));
#pragma once
#include <filesystem>
#include <string>

namespace partita::internal {

// ": names of the hub are not fetched, ..." with the command that fetches, where the path looks like such a name
// ("gpt2", "meta-llama/Llama-3.2-1B"); else empty.
[[nodiscard]] std::string hub_hint(const std::filesystem::path& path);

}  // namespace partita::internal
