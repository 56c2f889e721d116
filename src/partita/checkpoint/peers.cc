#include "partita/checkpoint/peers.h"

#include <exception>

#include "partita/base/error.h"

namespace partita {

std::vector<std::string> agree(Peers& peers, const std::function<std::string()>& work) {
  // The first character tells a result from an error.
  std::string mine;
  try {
    mine = "=" + work();
  } catch (const std::exception& error) {
    mine = std::string("!") + error.what();
  }
  std::vector<std::string> all = peers.gather(mine);
  PARTITA_CHECK(std::ssize(all) == peers.size(), "{} answers from {} ranks", all.size(), peers.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].front() != '!') continue;
    const std::string message = all[rank].substr(1);
    if (peers.size() == 1) throw Error(message);
    fail("rank {}: {}", rank, message);
  }
  for (std::string& text : all) text.erase(0, 1);
  return all;
}

}  // namespace partita
