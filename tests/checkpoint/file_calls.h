// Intercepts the C library calls that name files, for this whole test program (durability_test.cc).
#pragma once

namespace partita::internal::test {

// false: names cannot be exchanged, as on some network file systems.
extern bool can_exchange;

}  // namespace partita::internal::test
