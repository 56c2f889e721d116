// The values of a storage as the operations that write them, kept in place of memory and replayed when they are needed.
// Pure: operations on memory that is passed in.
//
//   RecordedValues values;                                       // nothing is written
//   values = append(values, {.operation = uniform, .written = view, .operands = {0., 1., generator}}, bytes);
//   replay(values, storage);                                     // the bits that the operation would have written
//
// Values never change: append returns others, and an operand may be the values that another storage has at that time.
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace partita::internal {

// Offset, sizes and strides of a tensor within its storage.
struct StorageView {
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;  // in elements

  [[nodiscard]] static StorageView of(const at::Tensor&);
  [[nodiscard]] at::Tensor in(const c10::Storage&) const;  // in host memory
  [[nodiscard]] bool covers(int64_t bytes) const;          // all of a storage, in the order of its elements
};

struct RecordedWrite;
using RecordedValues = std::shared_ptr<const RecordedWrite>;  // null: nothing is written

struct RecordedWrite {
  struct Unmade {  // an operand without memory
    size_t operand;
    RecordedValues values;
    int64_t bytes;  // of its storage
    StorageView view;
  };
  c10::OperatorHandle operation;
  StorageView written;                     // the first operand
  std::vector<c10::IValue> operands = {};  // the others: owned by this record, None where one is unmade
  std::vector<Unmade> unmade = {};
  bool overwrites = false;     // reads nothing of what it writes
  RecordedValues before = {};  // set by append
  int64_t cost = 1;            // operations that a replay runs: set by append
};

// The values after one more operation.
[[nodiscard]] RecordedValues append(const RecordedValues&, RecordedWrite, int64_t bytes);
[[nodiscard]] int64_t cost(const RecordedValues&);
// Writes the values into a storage in host memory. Generators among the operands are left as they were.
void replay(const RecordedValues&, const c10::Storage&);

// Memory for values that are soon dropped: from the system and back to it, since holes of the size of a matrix, which
// small allocations fill, would add up to the size of the model.
[[nodiscard]] c10::Storage temporary_storage(int64_t bytes);

}  // namespace partita::internal
