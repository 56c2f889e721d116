#include "partita/engine/initial_weights.h"

#include "partita/base/error.h"
#include "partita/base/random.h"
#include "partita/ops/normal.h"

namespace partita::internal {

void initial_weights(at::Tensor out, const ParameterSpec& parameter, uint64_t seed, const Box& box) {
  PARTITA_CHECK(out.numel() == box.count(), "{} elements for {} of {}", out.numel(), box.count(), parameter.name);
  const auto mean = static_cast<float>(parameter.init.mean), std = static_cast<float>(parameter.init.std);
  if (std == 0) {
    out.fill_(mean);
    return;
  }
  const PhiloxKey key = philox_key(hash_of(seed, parameter.name));
  for (const BoxCopy& run : copies_between(whole_box(parameter.shape), box))
    fill_normal(out.narrow(0, run.to, run.count), {.key = key, .first = run.from, .mean = mean, .std = std});
}

}  // namespace partita::internal
