// Dispatch from a tensor's dtype to the C++ type of its elements.
//
//   with_type_of(x, [&]<class T>(T) { kernel(x.const_data_ptr<T>()); });
#if defined(PARTITA_OPS_CPU_DTYPE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PARTITA_OPS_CPU_DTYPE_INL_H_
#undef PARTITA_OPS_CPU_DTYPE_INL_H_
#else
#define PARTITA_OPS_CPU_DTYPE_INL_H_
#endif

#include <ATen/core/Tensor.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace partita::internal::HWY_NAMESPACE {

// Calls f(T{}); the tensor is fp32, bf16 or fp16 (see check_activation).
template <class F>
HWY_INLINE void with_type_of(const at::Tensor& tensor, F&& f) {
  switch (tensor.scalar_type()) {
    case at::kBFloat16:
      return f(at::BFloat16{});
    case at::kHalf:
      return f(at::Half{});
    default:
      return f(float{});
  }
}

}  // namespace partita::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // PARTITA_OPS_CPU_DTYPE_INL_H_
