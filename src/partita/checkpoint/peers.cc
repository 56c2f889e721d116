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
    if (std::ranges::any_of(all, [](const std::string& text) { return text.front() == '!'; })) throw Error(message);
    throw Damaged(message);
  }
  for (std::string& text : all) text.erase(0, 1);
  return all;
}

}  // namespace partita
