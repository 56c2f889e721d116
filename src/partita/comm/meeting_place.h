// Addresses at which rank 0 of a socket job listens, and at which other ranks look for it. Pure.
//
//   listening_addresses({.hosts = Launch::Hosts::one}, {}, {})  ->  {"127.0.0.1", "::1"}
#pragma once
#include <string>
#include <vector>

#include "partita/comm/environment.h"

namespace partita::internal {

inline const std::vector<std::string> kLoopback = {"127.0.0.1", "::1"};

// As few as the job needs: loopback if all ranks are on this host; else the addresses of MASTER_ADDR that belong to
// this host; else all ({""}). `named`: what MASTER_ADDR resolves to; `own`: this host's addresses.
[[nodiscard]] std::vector<std::string> listening_addresses(const Launch& launch, const std::vector<std::string>& named,
                                                           const std::vector<std::string>& own);

// A host given as loopback: "localhost", "127.0.0.1", "::1". A host's own name may also resolve to loopback, but only
// on that host.
[[nodiscard]] bool names_loopback(const std::string& host);

}  // namespace partita::internal
