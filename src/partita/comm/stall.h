// Who holds up a collective. Nothing is sent while all is well; when a rank has waited for the whole timeout, it asks
// the others what they wait for. A rank that waits, answers; a rank that computes, hangs or is gone, does not.
//
//   StallInquiry inquiry;
//   inquiry.listen(transport, mine);               // in every wait now and then: takes answers, and answers others
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
  // Asks these ranks of the job, telling them what this one waits for.
  void ask(Transport&, std::span<const int> ranks, const std::string& mine);
  // Takes the letters that have come, and answers the questions among them.
  void listen(Transport&, const std::string& mine);
  // Rank of the job, and what it said last it waits for.
  [[nodiscard]] const std::map<int, std::string>& answers() const { return answers_; }

 private:
  std::map<int, std::string> answers_;
};

// Pure. "dp.all_gather #17 (4096 bytes) did not finish within 600 s: rank 2 did not arrive; rank 3 waits in
// tp.barrier #4". `ranks`: the group's, of the job; `self` among them; `mine`: what self waits for.
[[nodiscard]] std::string stall_message(const std::string& mine, int64_t bytes, std::chrono::milliseconds timeout,
                                        std::span<const int> ranks, int self,
                                        const std::map<int, std::string>& answers);

}  // namespace partita::internal
