// What of Partita is made of torch::nn modules, and so needs torch/torch.h; everything else is in partita/partita.h.
#pragma once

// IWYU pragma: begin_exports
#include "partita/module/tensor_modules.h"
// IWYU pragma: end_exports
