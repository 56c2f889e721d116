// Which implementation of an operation runs: that of the device its tensors lie on. The functions of ops/*.h begin with
//
//   PARTITA_DISPATCH(x, linear_forward(y, x, w, bias));
//
// and go on with the CPU's code. A build without CUDA has no tensors elsewhere.
#pragma once
#ifdef PARTITA_CUDA
#define PARTITA_DISPATCH(tensor, call) \
  if ((tensor).is_cuda()) return cuda::call
#else
#define PARTITA_DISPATCH(tensor, call) static_cast<void>(0)
#endif
