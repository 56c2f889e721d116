// At which addresses rank 0 of a job over sockets listens, and at which the others look for it. Pure.
//
//   listening_addresses({.hosts = Launch::Hosts::one}, {}, {})  ->  {"127.0.0.1", "::1"}
#pragma once
#include <string>
#include <vector>

#include "partita/comm/environment.h"

namespace partita::internal {

inline const std::vector<std::string> kLoopback = {"127.0.0.1", "::1"};

// Only what the job needs: loopback where all ranks are on this host; the addresses of MASTER_ADDR that are this host's
// own; all ({""}) where these do not tell. `named`: what MASTER_ADDR resolves to; `own`: this host's addresses.
[[nodiscard]] std::vector<std::string> listening_addresses(const Launch& launch, const std::vector<std::string>& named,
                                                           const std::vector<std::string>& own);

// A host that is written as loopback: "localhost", "127.0.0.1", "::1". A host's own name may resolve to loopback too,
// on that host alone.
[[nodiscard]] bool names_loopback(const std::string& host);

}  // namespace partita::internal
