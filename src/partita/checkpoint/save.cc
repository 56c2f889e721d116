#include "partita/checkpoint/checkpoint.h"
#include "partita/checkpoint/save_phases.h"

namespace partita {
using namespace internal;

std::filesystem::path save_checkpoint(const std::filesystem::path& root, int64_t step, const CheckpointContents& state,
                                      Peers& peers, const SaveOptions& options) {
  SavePhases save(root, step, state, peers, options);
  for (int turn = 0; turn < options.turns; ++turn) {
    if (turn == options.turn) save.write(state);
    if (turn + 1 < options.turns) (void)agree(peers, [] { return std::string(); });
  }
  save.gather(peers);
  save.publish();
  save.finish(peers);
  return save.folder();
}

}  // namespace partita
