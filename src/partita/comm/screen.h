// The terminal that launch() writes to: what the ranks and mpirun say, above one status line (a progress bar).
//
//   Screen screen;
//   write(screen.show("[12:34:56] saved\n", "40% [####......]", 80));
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

class Screen {
 public:
  // The bytes that show this text above this status, cut to fit into `width` columns (between two of its
  // fields, which two spaces part); empty: no status. While a line is
  // begun and not ended the status waits.
  [[nodiscard]] std::string show(std::string_view text, std::string_view status, int width);

 private:
  std::string drawn_;  // the status that is on the terminal now
  bool line_begun_ = false;
};

}  // namespace partita::internal
