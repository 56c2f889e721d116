// Modules whose parameters get memory one after the other, when ZeroOptimizer divides them: the whole model never exists
// on a rank, and its constructor is the user's.
//
//   // LanguageModel: a torch::nn::Module, or its holder
//   torch::manual_seed(7);
//   auto model = construct_lazily([] { return LanguageModel(/*layers=*/48); });
//   ZeroOptimizer optimizer(named(*model), mesh, {.stage = 3});    // makes a parameter, cuts it, drops the rest
//
// Values are, bit for bit, those of an ordinary construction with the same seeds: what writes into a parameter in place
// (everything in torch::nn::init but orthogonal_, sparse_, eye_ and dirac_; copy_ from another parameter) is recorded with the state
// of the random generator, and replayed when the parameter is needed. Generators go on as usual; to that end, random
// numbers are drawn twice.
//
// An operation that reads a parameter, during the construction or later, makes it real first, and so does one that
// cannot be recorded. This keeps its result, and costs its memory. to(dtype) is recorded within the construction;
// afterwards, to(device) and to(dtype) make the parameters real and convert them, one after the other.
//
// Code that reads or writes memory itself (data_ptr, accessor, torch::save) finds none in a parameter that is not real yet:
// torch fails with "its data is not allocated yet". Tensors of one dimension, of fewer than 1024 elements, of integers,
// or on a GPU are real from the beginning.
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "partita/module/lazy_operations.h"

namespace partita {

// Within its life, tensors that this thread makes are lazy. It ends before ZeroOptimizer and parallelize are called.
class LazyConstruction {
 public:
  LazyConstruction();
  LazyConstruction(const LazyConstruction&) = delete;
  LazyConstruction& operator=(const LazyConstruction&) = delete;

 private:
  c10::impl::IncludeDispatchKeyGuard reported_;
  internal::LazyFactories factories_;
};

// What `make` returns, such as a module.
template <class Make>
[[nodiscard]] auto construct_lazily(const Make& make) {
  const LazyConstruction lazy;
  return make();
}

}  // namespace partita
