#include "partita/module/lazy_construction.h"

#include "partita/module/operand_key.h"

namespace partita {

// The key makes torch report operations without operands, too.
LazyConstruction::LazyConstruction() : reported_(internal::kOperandKey) {}

}  // namespace partita
