// Checks CUDA runtime calls; only for files of the CUDA build.
//
//   PARTITA_CUDA_CHECK(cudaEventRecord(event, stream));
#pragma once
#include <cuda_runtime_api.h>

#include "partita/base/error.h"
#include "partita/base/failure.h"

#define PARTITA_CUDA_CHECK(call)                                                          \
  do {                                                                                    \
    const cudaError_t partita_cuda_error = (call);                                        \
    if (partita_cuda_error != cudaSuccess) [[unlikely]]                                   \
      ::partita::internal::fail_cuda_call(#call, cudaGetErrorString(partita_cuda_error)); \
  } while (false)
