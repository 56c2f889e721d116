// Calls of the CUDA runtime that must succeed; for files of the CUDA build only.
//
//   PARTITA_CUDA_CHECK(cudaEventRecord(event, stream));
#pragma once
#include <cuda_runtime_api.h>

#include "partita/base/error.h"

#define PARTITA_CUDA_CHECK(call)                                                                            \
  do {                                                                                                      \
    const cudaError_t partita_cuda_error = (call);                                                          \
    if (partita_cuda_error != cudaSuccess) [[unlikely]]                                                     \
      ::partita::fail("{}: {} ({}:{})", #call, cudaGetErrorString(partita_cuda_error), __FILE__, __LINE__); \
  } while (false)
