#include "partita/comm/stall.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace partita::internal {
namespace {
constexpr char kQuestion = '?', kAnswer = '!';
}

void StallInquiry::ask(Transport& transport, std::span<const int> ranks, const std::string& mine) {
  for (int rank : ranks)
    if (rank != transport.rank()) transport.post(rank, kQuestion + mine);
}

void StallInquiry::listen(Transport& transport, const std::string& mine) {
  while (auto letter = transport.poll()) {
    if (letter->text.empty()) continue;
    if (letter->text.front() == kQuestion) transport.post(letter->from, kAnswer + mine);
    answers_[letter->from] = letter->text.substr(1);
  }
}

std::string stall_message(const std::string& mine, int64_t bytes, std::chrono::milliseconds timeout,
                          std::span<const int> ranks, int self, const std::map<int, std::string>& answers) {
  std::vector<int> missing;
  std::map<std::string, std::vector<int>> elsewhere;
  for (int rank : ranks) {
    if (rank == self) continue;
    const auto answer = answers.find(rank);
    if (answer == answers.end())
      missing.push_back(rank);
    else if (answer->second != mine)
      elsewhere[answer->second].push_back(rank);
  }
  const auto name = [](const std::vector<int>& some) {
    return fmt::format("rank{} {}", some.size() == 1 ? "" : "s", fmt::join(some, ", "));
  };
  const double seconds = std::chrono::duration<double>(timeout).count();
  std::string text =
      fmt::format("{} ({} bytes) did not finish within {:g} s (parallel.timeout_seconds):", mine, bytes, seconds);
  std::string separator = " ";
  if (!missing.empty()) {
    text += separator + name(missing) + " did not arrive";
    separator = "; ";
  }
  for (const auto& [call, some] : elsewhere) {
    text += fmt::format("{}{} {} in {}", separator, name(some), some.size() == 1 ? "waits" : "wait", call);
    separator = "; ";
  }
  if (separator == " ") text += " all ranks wait in it, so a message was lost or is very slow";
  return text;
}

}  // namespace partita::internal
