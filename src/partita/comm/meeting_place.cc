#include "partita/comm/meeting_place.h"

#include <algorithm>

#include "partita/comm/socket.h"

namespace partita::internal {

bool names_loopback(const std::string& host) { return host == "localhost" || is_loopback(host); }

std::vector<std::string> listening_addresses(const Launch& launch, const std::vector<std::string>& named,
                                             const std::vector<std::string>& own) {
  const std::vector<std::string> all = {""};
  if (launch.hosts == Launch::Hosts::one) return kLoopback;
  // With ranks on other hosts, "localhost" is only correct for rank 0.
  if (names_loopback(launch.master_address)) return launch.hosts == Launch::Hosts::several ? all : kLoopback;
  std::vector<std::string> mine;
  for (const std::string& address : named)
    if (!is_loopback(address) && std::ranges::count(own, address) > 0) mine.push_back(address);
  return mine.empty() ? all : mine;
}

}  // namespace partita::internal
