#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/save_phases.h"

namespace partita {
using namespace internal;

std::filesystem::path save_checkpoint(const std::filesystem::path& root, int64_t step, const CheckpointContents& state,
                                      Peers& peers, const SaveOptions& options) {
  SavePhases save(root, step, state, peers, options);
  save.run(state, peers);
  return save.folder();
}

}  // namespace partita
