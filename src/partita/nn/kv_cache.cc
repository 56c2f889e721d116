#include "partita/nn/kv_cache.h"

#include <ATen/ops/zeros.h>

#include "partita/device/scalar_type.h"

namespace partita {
using namespace internal;

KvCache make_kv_cache(int64_t layers, Heads heads, Shape capacity, DType dtype, at::Device device) {
  KvCache cache;
  for (int64_t layer = 0; layer < layers; ++layer)
    for (auto* list : {&cache.keys, &cache.values})
      list->push_back(at::zeros({capacity.samples, heads.kv_heads, capacity.length, heads.head_width},
                                at::TensorOptions(scalar_type(dtype)).device(device)));
  return cache;
}

}  // namespace partita
