// The parts of kernels_check.
#pragma once
#include "tests/ops_cuda/check.h"

namespace partita::internal::ops_cuda {

void check_norms(Report&);
void check_activations(Report&);
void check_rows(Report&);        // rotary positions, dropout, embedding, cross-entropy
void check_optimizers(Report&);  // and flat buffers
void check_normals(Report&);     // the same bits as on the CPU
void time_kernels();

}  // namespace partita::internal::ops_cuda
