// Finds which rank holds up a collective. Nothing is sent in normal operation; a rank that has waited for the whole
// timeout asks the others what they wait for. A waiting rank answers; one that computes, hangs or is gone does not.
//
//   StallInquiry inquiry;
//   inquiry.listen(transport, mine);               // now and then in every wait: collects answers, and answers others
//   inquiry.ask(transport, group.ranks, mine);     // after the timeout; then listen for a few seconds
//   fail("{}", stall_message(mine, ..., inquiry.answers()));
#pragma once
#include <chrono>
#include <map>
#include <span>
#include <string>

#include "partita/comm/transport.h"

namespace partita::internal {

class StallInquiry {
 public:
  // Asks these job ranks, telling them what this rank waits for.
  void ask(Transport&, std::span<const int> ranks, const std::string& mine);
  // Processes received letters and answers questions.
  void listen(Transport&, const std::string& mine);
  // By job rank: what it last said it waits for.
  [[nodiscard]] const std::map<int, std::string>& answers() const { return answers_; }

 private:
  std::map<int, std::string> answers_;
};

// Pure. "all-gather no. 17 of the data-parallel ranks (4096 bytes) did not finish within 600 s
// (parallel.timeout_seconds): rank 2 did not arrive; rank 3 waits in barrier no. 4 of all ranks". `ranks`: the group's
// job ranks, including `self`; `mine`: what self waits for.
[[nodiscard]] std::string stall_message(const std::string& mine, int64_t bytes, std::chrono::milliseconds timeout,
                                        std::span<const int> ranks, int self,
                                        const std::map<int, std::string>& answers);

}  // namespace partita::internal
