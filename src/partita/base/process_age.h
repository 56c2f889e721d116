// How long this process runs already: libraries for a GPU take a second to load, and launchers wait.
//
//   log::debug("ready after {:.1f} s", process_age());
#pragma once

namespace partita {

// Seconds, to a hundredth; an exec does not begin it again. 0: the system does not say.
[[nodiscard]] double process_age();

}  // namespace partita
