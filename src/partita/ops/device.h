// Dispatches an operation to the device of its tensors. The functions of ops/*.h begin with
//
//   PARTITA_DISPATCH(x, linear_forward(y, x, w, bias));
//
// followed by the CPU implementation. Builds without CUDA have CPU tensors only.
#pragma once
#ifdef PARTITA_CUDA
#define PARTITA_DISPATCH(tensor, call) \
  if ((tensor).is_cuda()) return cuda::call
#else
#define PARTITA_DISPATCH(tensor, call) static_cast<void>(0)
#endif
