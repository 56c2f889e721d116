#include "partita/engine/offload.h"

#include "partita/base/error.h"

namespace partita::internal {
namespace {

constexpr double kRounding = 1e-9;  // 0.3 + 0.7 is all

void require_fraction(std::string_view who, const char* name, double value) {
  if (!(value >= 0 && value <= 1)) fail("{}: offload.{} is {}, expected a fraction from 0 to 1", who, name, value);
}

void require_sum(std::string_view who, const char* first, double one, const char* second, double other) {
  require_fraction(who, first, one);
  require_fraction(who, second, other);
  if (one + other > 1 + kRounding)
    fail("{}: offload.{} {} and offload.{} {} are {} together, expected at most 1", who, first, one, second, other,
         one + other);
}

}  // namespace

void check_shares(const Offload& offload, std::string_view who) {
  require_sum(who, "optimizer", offload.optimizer, "disk", offload.disk);
  require_sum(who, "weights", offload.weights, "weights_disk", offload.weights_disk);
  for (const auto& [name, share] : {std::pair("disk", offload.disk), {"weights_disk", offload.weights_disk}})
    if (share > 0 && offload.disk_folder.empty())
      fail("{}: offload.{} {} without a folder: set offload.disk_folder to one on a fast local disk", who, name, share);
}

}  // namespace partita::internal
