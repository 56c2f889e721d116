// What is installed before the libraries below are initialized: torch's initialization alone takes some 400 MB of
// address space, and where a limit (ulimit -v) is less it throws before main.
#include "partita/base/last_resort.h"

namespace partita::cli {
using namespace internal;

namespace {

void install(int, char**, char**) { install_last_resort(nullptr); }

// The loader calls what it finds here before the constructors of any shared library.
[[gnu::section(".preinit_array"), gnu::used]] void (*const early_start)(int, char**, char**) = install;

}  // namespace

}  // namespace partita::cli
