#include "partita/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "partita/base/error.h"
#include "partita/base/random.h"

namespace partita {
using namespace internal;

void validate(const Sampling& s) {
  if (!(s.temperature >= 0)) fail("temperature {}: expected 0 (greedy) or more", s.temperature);
  if (s.top_k < 0) fail("top-k {}: expected 0 (all) or more", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) fail("top-p {}: expected more than 0 and at most 1", s.top_p);
}

std::vector<Candidate> candidates(std::span<const float> logits, const Sampling& s) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const size_t kept = s.temperature == 0 ? 1
                      : s.top_k > 0      ? std::min(logits.size(), static_cast<size_t>(s.top_k))
                                         : logits.size();
  const auto likelier = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept), likelier);
  order.resize(kept);
  if (s.temperature == 0) return {{order[0], 1.0}};

  const double most = logits[static_cast<size_t>(order[0])];
  std::vector<Candidate> out;
  double sum = 0;
  for (int32_t token : order) {
    out.push_back({token, std::exp((logits[static_cast<size_t>(token)] - most) / s.temperature)});
    sum += out.back().probability;
  }
  if (s.top_p < 1) {
    double reached = 0;
    size_t count = 0;
    while (count < out.size() && reached < s.top_p * sum) reached += out[count++].probability;
    out.resize(std::max<size_t>(count, 1));
    sum = reached;
  }
  for (Candidate& c : out) c.probability /= sum;
  return out;
}

int32_t sample(std::span<const float> logits, const Sampling& s, double u) {
  if (logits.empty()) fail("no logits to choose a token from");
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isnan(logits[i]) || logits[i] == INFINITY)
      fail("the logit of token {} is {}: the model's weights are not usable", i, logits[i]);
  const std::vector<Candidate> list = candidates(logits, s);
  double below = 0;
  for (const Candidate& c : list) {
    below += c.probability;
    if (u < below) return c.token;
  }
  return list.back().token;  // rounding error: the cumulative sum stayed below `uniform`
}

double uniform(uint64_t seed, int64_t position) {
  const PhiloxBlock bits =
      philox({static_cast<uint32_t>(position), static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32), 0, 0},
             philox_key(hash_of(seed, "generate")));
  return bits[0] * 0x1p-32;
}

}  // namespace partita
