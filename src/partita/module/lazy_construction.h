// Modules whose parameters get memory one after the other, when ZeroOptimizer divides them: the whole model is never on
// one rank, and its constructor is the user's.
//
//   // LanguageModel: the holder of a torch::nn::Module
//   auto model = construct_lazily([] { return LanguageModel(/*layers=*/48); });
//   ZeroOptimizer optimizer(named(*model), mesh, {.stage = 3});    // makes a parameter, cuts it, drops the rest
//
// Values are, bit for bit, those of an ordinary construction with the same seed. What is written into a parameter in
// place (by torch::nn::init but for orthogonal_, sparse_, eye_ and dirac_; by copy_ from another parameter) is recorded
// with the state of the random generator, and replayed when the parameter is needed. Generators go on as usual: to that
// end random numbers are drawn twice, the first time into memory of one parameter that is dropped.
//
// An operation that reads a parameter, during the construction or later, makes it real first, and so does one that
// cannot be recorded. This gives the right result, and costs the parameter's memory. to(dtype) is recorded within the
// construction; afterwards to(device) and to(dtype) make the parameters real and convert them, one after the other.
//
// Code that reads or writes memory itself (data_ptr, accessor, torch::save) fails on a parameter that is not real: read
// it by an operation first. What has one dimension, fewer than 1024 elements, integers, another
// memory format, or is on a GPU, is real from the beginning.
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
