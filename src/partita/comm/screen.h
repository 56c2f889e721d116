// The terminal output of launch(): text of the ranks and mpirun above one status line (a progress bar).
//
//   Screen screen;
//   write(screen.show("[12:34:56] saved\n", "40% [####......]", 80));
#pragma once
#include <string>
#include <string_view>

namespace partita::internal {

class Screen {
 public:
  // Returns the bytes that show `text` above `status`, which is cut to `width` columns at a field boundary (two
  // spaces); empty: no status. The status is held back while a line of text is incomplete.
  [[nodiscard]] std::string show(std::string_view text, std::string_view status, int width);

 private:
  std::string drawn_;  // the status now on the terminal
  bool line_begun_ = false;
};

}  // namespace partita::internal
