// The C library's calls that give files their names, of all of this test program (durability_test.cc).
#pragma once

namespace partita::internal::test {

// false: names cannot be exchanged, as on some network file systems.
extern bool can_exchange;

}  // namespace partita::internal::test
