#include "partita/checkpoint/peers.h"

#include <algorithm>
#include <exception>

#include "partita/base/error.h"
#include "partita/base/failure.h"
#include "partita/base/rank_text.h"
#include "partita/checkpoint/damage.h"

namespace partita {
using namespace internal;

std::vector<std::string> agree(Peers& peers, const std::function<std::string()>& work) {
  // The first character tells results, errors and damage apart.
  std::string mine;
  try {
    mine = "=" + work();
  } catch (const Damaged& error) {
    mine = std::string("?") + error.what();
  } catch (const std::exception& error) {
    mine = "!" + failure_text(error);
  }
  std::vector<std::string> all = peers.gather(mine);
  PARTITA_CHECK(std::ssize(all) == peers.size(), "{} answers from {} ranks", all.size(), peers.size());
  const auto failed = std::ranges::find_if(all, [](const std::string& text) { return text.front() != '='; });
  if (failed != all.end()) {
    std::string message = failed->substr(1);
    if (peers.size() > 1) message = of_rank(static_cast<int>(failed - all.begin()), message);
    if (std::ranges::any_of(all, [](const std::string& text) { return text.front() == '!'; }))
      throw AgreedError(message);
    throw Damaged(message);
  }
  for (std::string& text : all) text.erase(0, 1);
  return all;
}

void wait_for_all(Peers& peers, const std::function<bool(std::chrono::milliseconds)>& is_done) {
  // The first answers come soon: most waits are short.
  for (std::chrono::milliseconds most(10);; most = std::min(2 * most, std::chrono::milliseconds(1000))) {
    const std::vector<std::string> all = agree(peers, [&] { return std::string(is_done(most) ? "1" : "0"); });
    if (std::ranges::find(all, "0") == all.end()) return;
  }
}

}  // namespace partita
