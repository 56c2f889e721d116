// Code that runs before the libraries are initialized: torch's initialization alone takes about 400 MB of address
// space, and throws before main if a limit (ulimit -v) is lower.
#include "partita/base/last_resort.h"

namespace partita::cli {
using namespace internal;

namespace {

void install(int, char**, char**) { install_last_resort(nullptr); }

// The loader calls functions in this section before the constructors of any shared library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const early_start)(int, char**, char**) = install;

}  // namespace

}  // namespace partita::cli
