// What mpirun itself says on standard error, taken out of what the ranks say: its long banners about how a job ended
// become one fact.
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

// Knows the texts of Open MPI 4 and 5. Everything else passes through unchanged, without delay: a progress bar too.
class MpirunOutput {
 public:
  // Set for ranks that launch() starts: World::abort then says in a line of farewell which rank ends the job and with
  // what code, since mpirun's own banner may be lost when the ranks end at once.
  static constexpr const char* kVariable = "PARTITA_LAUNCH";
  [[nodiscard]] static std::string farewell(int rank, int exit_code);

  // Why the job ended, when a rank was the cause.
  struct End {
    int rank = 0;
    int signal = 0;     // that ended it, or 0
    int exit_code = 0;  // otherwise
  };

  // The part of this piece, and of what was held back, that is to be shown.
  [[nodiscard]] std::string pass(std::string_view piece);
  [[nodiscard]] std::string rest();
  // The status line that a rank showed last (log.h), taken out as well; empty: none.
  [[nodiscard]] const std::string& status() const { return status_; }
  [[nodiscard]] const std::optional<End>& end() const { return end_; }

 private:
  void whole_line(std::string& shown);
  [[nodiscard]] bool may_be_mpirun() const;

  std::string line_;      // begun, held back while it may be mpirun's
  bool passing_ = false;  // the line that is begun is a rank's
  std::string banner_;    // lines since the opening rule, that rule included
  std::string status_;
  std::optional<End> end_;
};

}  // namespace partita::internal
