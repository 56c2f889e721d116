// Compares two checkpoints of any layouts, for `partita checkpoint diff`. Reads both in blocks, whose number does not
// grow with the checkpoints.
//
//   const CheckpointComparison found = compare_checkpoints("runs/a/checkpoints/step-00000100", "runs/b/...", {});
//   fmt::print("{}", comparison_report(found));
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "partita/base/dtype.h"
#include "partita/checkpoint/run_state.h"

namespace partita::internal {

struct CompareOptions {
  // Two elements, and two scalars that are not integers, count as equal if they differ by at most this fraction of the
  // larger magnitude. 0: elements of one dtype must have the same bits (so that 0 and -0 differ, and two NaNs may be
  // equal), elements of two dtypes the same value.
  double tolerance = 0;
  std::string only;  // compare only the tensors whose names begin with this, and no scalars; empty: everything
};

// Sums up the differences between elements.
class ElementComparison {
 public:
  explicit ElementComparison(double tolerance) : tolerance_(tolerance) {}

  // Both hold the same number of elements, without alignment. Dtypes other than fp32, bf16 and fp16 must be equal.
  void add(DType a_type, std::span<const std::byte> a, DType b_type, std::span<const std::byte> b);

  [[nodiscard]] int64_t differing() const { return differing_; }  // elements
  // The largest differences, also within the tolerance: of values, infinite between a NaN or an infinity and another
  // value; and in relation to the larger magnitude of the two values.
  [[nodiscard]] double absolute() const { return absolute_; }
  [[nodiscard]] double relative() const { return relative_; }

 private:
  // Elements of one dtype have other bits.
  void add(double a, double b, bool same_dtype);

  double tolerance_;
  int64_t differing_ = 0;
  double absolute_ = 0, relative_ = 0;
};

struct ComparedTensor {
  std::string name;
  DType a = DType::fp32, b = DType::fp32;
  int64_t elements = 0, differing = 0;
  double absolute = 0, relative = 0;  // ElementComparison
};

struct CheckpointComparison {
  std::vector<std::string> structure;  // tensors of which one checkpoint has none, or that differ in shape: a line each
  std::vector<ComparedTensor> tensors;  // those of both, in the order of A
  std::vector<Difference> scalars;      // those that differ; "" for what is not there
  int64_t compared_scalars = 0;

  [[nodiscard]] bool equal() const;
};

// Errors: those of read_manifest; damaged elements; no tensor begins with options.only.
[[nodiscard]] CheckpointComparison compare_checkpoints(const std::filesystem::path& a, const std::filesystem::path& b,
                                                       const CompareOptions&);

// What differs, a line each, and a last line "equal: ..." or "different: ...". Pure.
[[nodiscard]] std::string comparison_report(const CheckpointComparison&);

}  // namespace partita::internal
