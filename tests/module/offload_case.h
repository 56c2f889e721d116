// What tests of offload of ZeroOptimizer share: where states are, and copies that are late.
#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <memory>

#include "partita/engine/offload.h"
#include "tests/support/late_copies.h"
#include "tests/support/ranks.h"

namespace partita::internal::test {

struct Share {
  double host, disk;
};
inline constexpr std::array<Share, 6> kShares = {{{1, 0}, {0, 1}, {0.5, 0}, {0, 0.4}, {0.6, 0.3}, {0.3, 0.7}}};

inline constexpr int kCopies = 4;  // immediate, as late as may be, or at random

inline Offload offload_of(const Share& share, const std::filesystem::path& folder, int copies) {
  Offload offload{.optimizer = share.host, .disk = share.disk, .disk_folder = folder};
  const std::array<unsigned, kCopies> at_once = {0, 0, 20, 60};
  if (copies > 0)
    offload.copies = [copies, of_100 = at_once[static_cast<size_t>(copies)]]() -> std::unique_ptr<Copies> {
      return std::make_unique<LateCopies>(static_cast<unsigned>(10 * copies + test_world().rank()), of_100);
    };
  return offload;
}

}  // namespace partita::internal::test
