#include "partita/checkpoint/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "partita/base/error.h"
#include "partita/checkpoint/elements.h"
#include "partita/checkpoint/manifest.h"
#include "partita/checkpoint/reshard.h"
#include "partita/checkpoint/stored_files.h"

namespace partita::internal {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kBlock = int64_t{1} << 20;  // elements read at a time
constexpr size_t kGroup = 2048;               // elements converted at a time

// Of an element that is compared as a number.
template <class T>
double number_at(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

// For dtypes that are not floating-point.
double integer_at(DType type, const std::byte* bytes) {
  switch (type) {
    case DType::int32:
      return number_at<int32_t>(bytes);
    case DType::int64:
      return number_at<int64_t>(bytes);
    case DType::uint8:
      return number_at<uint8_t>(bytes);
    default:
      fail("{} elements are not integers", name_of(type));
  }
}

// {"model.layers": 3, ...}; an empty object or list is a value.
void flatten(const json& value, const std::string& name, std::map<std::string, json>& out) {
  if (!value.is_structured() || value.empty()) {
    out[name] = value;
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) flatten(item, name.empty() ? key : name + "." + key, out);
  } else {
    for (size_t i = 0; i < value.size(); ++i) flatten(value[i], fmt::format("{}[{}]", name, i), out);
  }
}

bool close(const json& a, const json& b, double tolerance) {
  if (a == b) return true;
  if (!a.is_number_float() && !b.is_number_float()) return false;
  if (!a.is_number() || !b.is_number()) return false;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= tolerance * std::max(std::abs(x), std::abs(y));
}

void compare_scalars(const json& a, const json& b, double tolerance, CheckpointComparison& found) {
  std::map<std::string, json> left, right;
  flatten(a, "", left);
  flatten(b, "", right);
  for (const auto& [name, value] : left) {
    ++found.compared_scalars;
    const auto other = right.find(name);
    if (other == right.end())
      found.scalars.push_back({name, value.dump(), ""});
    else if (!close(value, other->second, tolerance))
      found.scalars.push_back({name, value.dump(), other->second.dump()});
  }
  for (const auto& [name, value] : right)
    if (!left.contains(name)) ++found.compared_scalars, found.scalars.push_back({name, "", value.dump()});
}

// A checkpoint that is being read.
struct Opened {
  explicit Opened(const fs::path& folder) : manifest(read_manifest(folder)), files(folder, manifest) {
    for (const StoredTensor& tensor : manifest.tensors) by_name[tensor.info.name] = &tensor;
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  Manifest manifest;
  StoredFiles files;
  std::map<std::string_view, const StoredTensor*> by_name;
};

ComparedTensor compare_tensor(Opened& a, const StoredTensor& in_a, Opened& b, const StoredTensor& in_b,
                              double tolerance) {
  ElementComparison elements(tolerance);
  std::vector<std::byte> left, right;
  for (const Box& box : cut_box(whole_box(in_a.info.shape), kBlock)) {
    left.resize(static_cast<size_t>(box.count() * size_of(in_a.info.dtype)));
    right.resize(static_cast<size_t>(box.count() * size_of(in_b.info.dtype)));
    a.files.read(in_a, box, left);
    b.files.read(in_b, box, right);
    elements.add(in_a.info.dtype, left, in_b.info.dtype, right);
  }
  return {.name = in_a.info.name,
          .a = in_a.info.dtype,
          .b = in_b.info.dtype,
          .elements = in_a.info.count(),
          .differing = elements.differing(),
          .absolute = elements.absolute(),
          .relative = elements.relative()};
}

}  // namespace

void ElementComparison::add(double a, double b, bool same_dtype) {
  double absolute = std::abs(a - b), magnitude = std::max(std::abs(a), std::abs(b));
  if (a == b || (std::isnan(a) && std::isnan(b))) absolute = 0;
  if (std::isnan(absolute)) absolute = std::numeric_limits<double>::infinity();
  double relative = absolute > 0 ? absolute / magnitude : 0;
  if (std::isnan(relative)) relative = std::numeric_limits<double>::infinity();
  absolute_ = std::max(absolute_, absolute);
  relative_ = std::max(relative_, relative);
  // Without a tolerance, elements of one dtype whose bits differ differ.
  const bool equal = tolerance_ > 0 ? relative <= tolerance_ : !same_dtype && absolute == 0;
  if (!equal) ++differing_;
}

void ElementComparison::add(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b) {
  const auto a_item = static_cast<size_t>(size_of(a_type)), b_item = static_cast<size_t>(size_of(b_type));
  PARTITA_CHECK(convertible(a_type, b_type) && a.size() / a_item == b.size() / b_item, "{} of {}, {} of {}",
                a.size() / a_item, name_of(a_type), b.size() / b_item, name_of(b_type));
  const bool same_dtype = a_type == b_type;
  if (same_dtype && std::ranges::equal(a, b)) return;
  const bool floating = is_floating(element_type(a_type));
  std::array<float, kGroup> left{}, right{};
  for (size_t first = 0, count = a.size() / a_item; first < count; first += kGroup) {
    const size_t group = std::min(kGroup, count - first);
    const std::byte *in_a = a.data() + first * a_item, *in_b = b.data() + first * b_item;
    if (floating) {
      to_fp32(element_type(a_type), in_a, 1, std::span(left).first(group));
      to_fp32(element_type(b_type), in_b, 1, std::span(right).first(group));
    }
    for (size_t i = 0; i < group; ++i) {
      if (same_dtype && std::memcmp(in_a + i * a_item, in_b + i * a_item, a_item) == 0) continue;
      if (floating)
        add(left[i], right[i], same_dtype);
      else
        add(integer_at(a_type, in_a + i * a_item), integer_at(b_type, in_b + i * b_item), same_dtype);
    }
  }
}

bool CheckpointComparison::equal() const {
  return structure.empty() && scalars.empty() &&
         std::ranges::all_of(tensors, [](const ComparedTensor& t) { return t.differing == 0 && t.a == t.b; });
}

CheckpointComparison compare_checkpoints(const fs::path& a, const fs::path& b, const CompareOptions& options) {
  Opened left(a), right(b);
  CheckpointComparison found;
  const auto wanted = [&](const StoredTensor& tensor) { return tensor.info.name.starts_with(options.only); };
  bool any = false;
  for (const StoredTensor& tensor : left.manifest.tensors) {
    if (!wanted(tensor)) continue;
    any = true;
    const auto other = right.by_name.find(tensor.info.name);
    if (other == right.by_name.end()) {
      found.structure.push_back(fmt::format("{}: only in A", tensor.info.name));
      continue;
    }
    const TensorInfo &in_a = tensor.info, &in_b = other->second->info;
    if (in_a.shape != in_b.shape)
      found.structure.push_back(
          fmt::format("{}: shape {} and {}", in_a.name, shape_text(in_a.shape), shape_text(in_b.shape)));
    else if (!convertible(in_a.dtype, in_b.dtype))
      found.structure.push_back(
          fmt::format("{}: dtype {} and {}", in_a.name, name_of(in_a.dtype), name_of(in_b.dtype)));
    else
      found.tensors.push_back(compare_tensor(left, tensor, right, *other->second, options.tolerance));
  }
  for (const StoredTensor& tensor : right.manifest.tensors) {
    if (!wanted(tensor)) continue;
    any = true;
    if (!left.by_name.contains(tensor.info.name))
      found.structure.push_back(fmt::format("{}: only in B", tensor.info.name));
  }
  if (!any && !options.only.empty())
    fail("no tensor in {} or {} has a name that begins with '{}': see partita checkpoint inspect", a.string(),
         b.string(), options.only);
  if (options.only.empty()) compare_scalars(left.manifest.scalars, right.manifest.scalars, options.tolerance, found);
  return found;
}

std::string comparison_report(const CheckpointComparison& found) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const std::string& line : found.structure) text += line + "\n";
  int64_t different = std::ssize(found.structure);
  for (const ComparedTensor& t : found.tensors) {
    const bool equal = t.a == t.b && t.differing == 0;
    if (!equal) ++different;
    // Differences within the tolerance are shown too.
    if (equal && t.absolute == 0) continue;
    fmt::format_to(out, "{}: ", t.name);
    if (t.a != t.b) fmt::format_to(out, "dtype {} and {}, ", name_of(t.a), name_of(t.b));
    fmt::format_to(out, "{} of {} elements differ, by at most {:.3g} (relative {:.3g})\n", t.differing, t.elements,
                   t.absolute, t.relative);
  }
  for (const Difference& d : found.scalars)
    fmt::format_to(out, "{}: {} and {}\n", d.name, d.before.empty() ? "nothing" : d.before,
                   d.now.empty() ? "nothing" : d.now);
  const int64_t all = std::ssize(found.structure) + std::ssize(found.tensors);
  if (found.equal())
    fmt::format_to(out, "equal: {} tensors, {} scalars\n", all, found.compared_scalars);
  else
    fmt::format_to(out, "different: {} of {} tensors, {} of {} scalars\n", different, all, found.scalars.size(),
                   found.compared_scalars);
  return text;
}

}  // namespace partita::internal
