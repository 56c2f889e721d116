// Full verification of a checkpoint, for `partita checkpoint verify`.
#include "partita/base/error.h"
#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/checksum.h"
#include "partita/checkpoint/stored_files.h"

namespace partita {
using namespace internal;

std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder) {
  std::vector<std::string> problems;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      // A file that cannot be opened gives the same message for each of its tensors.
      if (problems.empty() || problems.back() != error.what()) problems.emplace_back(error.what());
    }
  };
  attempt([&] {
    const Manifest manifest = read_manifest(folder);
    StoredFiles files(folder, manifest);
    for (const StoredTensor& tensor : manifest.tensors)
      for (const StoredPiece& piece : tensor.pieces)
        attempt([&] {
          for (int64_t chunk = 0; chunk < std::ssize(piece.checksums); ++chunk) files.check(tensor.info, piece, chunk);
        });
  });
  return problems;
}

}  // namespace partita
