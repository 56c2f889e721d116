// Filters mpirun's own stderr messages out of the ranks' output: its long banners about how a job ended are reduced to
// a single fact.
//
//   MpirunOutput output;
//   while (read(...)) write(STDERR_FILENO, output.pass(chunk));
//   write(STDERR_FILENO, output.rest());
//   if (output.end()) fail("rank {} ...", output.end()->rank);
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace partita::internal {

// Recognizes the messages of Open MPI 4 and 5. Everything else passes through unchanged and undelayed, including
// progress bars.
class MpirunOutput {
 public:
  // Set for ranks started by launch(): World::abort then prints a farewell line with the failing rank and its exit
  // code, since mpirun's banner may be lost when several ranks end at the same time.
  static constexpr const char* kVariable = "PARTITA_LAUNCH";
  [[nodiscard]] static std::string farewell(int rank, int exit_code);

  // Why the job ended, if a rank was the cause.
  struct End {
    int rank = 0;
    int signal = 0;     // that killed it, or 0
    int exit_code = 0;  // otherwise
  };

  // The part of this piece and of the held-back text to show.
  [[nodiscard]] std::string pass(std::string_view piece);
  [[nodiscard]] std::string rest();
  // The last status line shown by a rank (log.h), also filtered out; empty: none.
  [[nodiscard]] const std::string& status() const { return status_; }
  [[nodiscard]] const std::optional<End>& end() const { return end_; }

 private:
  void whole_line(std::string& shown);
  [[nodiscard]] bool may_be_mpirun() const;

  std::string line_;      // partial line, held back while it may be mpirun's
  bool passing_ = false;  // the partial line belongs to a rank
  std::string banner_;    // lines since the opening rule, inclusive
  std::string status_;
  std::optional<End> end_;
};

}  // namespace partita::internal
