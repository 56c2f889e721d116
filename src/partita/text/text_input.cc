#include "partita/text/text_input.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "partita/base/error.h"
#include "partita/base/log.h"
#include "partita/text/byte_source.h"

namespace partita {
using namespace internal;
namespace fs = std::filesystem;
namespace {

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), GLOB_BRACE, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (status == 0 ? found.gl_pathc : 0));
  ::globfree(&found);
  return paths;
}

}  // namespace

std::vector<fs::path> expand_inputs(const std::vector<std::string>& patterns) {
  std::vector<fs::path> files;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& pattern : patterns) {
    if (is_standard_input(pattern)) {
      if (std::ranges::any_of(files, is_standard_input)) fail("-: given twice as input: standard input is read once");
      files.emplace_back(pattern);
      continue;
    }
    // If a file with this exact name exists, it is meant literally, even if the name looks like a pattern.
    const auto paths = fs::exists(pattern) ? std::vector{pattern} : matches_of(pattern);
    if (paths.empty()) fail("{}: no such input file", pattern);
    for (const std::string& path : paths) {
      if (fs::is_directory(path)) fail("{}: a folder, a file expected: give {}", path, (fs::path(path) / "*").string());
      struct stat info {};
      const bool known = ::stat(path.c_str(), &info) == 0 && !seen.emplace(info.st_dev, info.st_ino).second;
      if (known)
        log::warn("{} is given more than once: it is read once", path);
      else
        files.emplace_back(path);
    }
  }
  return files;
}

bool compression_named(const fs::path& file) {
  const auto ending = file.extension();
  return ending == ".gz" || ending == ".zst";
}

bool is_json_lines(const fs::path& file, TextFormat format) {
  if (format != TextFormat::automatic) return format == TextFormat::json_lines;
  if (is_standard_input(file)) return true;
  const auto ending = compression_named(file) ? file.stem().extension() : file.extension();
  return ending == ".jsonl" || ending == ".json" || ending == ".ndjson";
}

}  // namespace partita
