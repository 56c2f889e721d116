# Code for NVIDIA GPUs (-DPARTITA_CUDA=ON): needs nvcc, and a PARTITA_TORCH that was installed by pip with its CUDA
# packages, whose nvidia/ folder stands beside it.
option(PARTITA_CUDA "code for NVIDIA GPUs" OFF)
if(NOT PARTITA_CUDA)
  return()
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc 13
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)

cmake_path(GET PARTITA_TORCH PARENT_PATH PACKAGES)
foreach(NEEDED ${PACKAGES}/nvidia/nccl/include/nccl.h ${PACKAGES}/nvidia/cudnn/include/cudnn.h
               ${PACKAGES}/include/cudnn_frontend.h ${PARTITA_TORCH}/lib/libtorch_cuda.so)
  if(NOT EXISTS ${NEEDED})
    message(FATAL_ERROR "PARTITA_CUDA=ON: ${NEEDED} is missing. Install torch with its CUDA packages and "
                        "nvidia-cudnn-frontend by pip into one folder, and pass -DPARTITA_TORCH=FOLDER/torch.")
  endif()
endforeach()

target_compile_definitions(partita_options INTERFACE PARTITA_CUDA)
target_compile_options(partita_options INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-DFMT_USE_CONSTEXPR=1;-O3>)
target_include_directories(partita_torch SYSTEM INTERFACE
  ${CUDAToolkit_INCLUDE_DIRS} ${PACKAGES}/nvidia/nccl/include ${PACKAGES}/nvidia/cudnn/include ${PACKAGES}/include)
target_link_libraries(partita_torch INTERFACE
  -Wl,--no-as-needed ${PARTITA_TORCH}/lib/libtorch_cuda.so ${PARTITA_TORCH}/lib/libc10_cuda.so -Wl,--as-needed
  ${PACKAGES}/nvidia/cu13/lib/libcudart.so.13 ${PACKAGES}/nvidia/cu13/lib/libcublasLt.so.13
  ${PACKAGES}/nvidia/cudnn/lib/libcudnn.so.9 ${PACKAGES}/nvidia/nccl/lib/libnccl.so.2
  ${PACKAGES}/nvidia/cu13/lib/libnvrtc.so.13 ${PACKAGES}/nvidia/cu13/lib/libcupti.so.13 CUDA::cuda_driver)
target_link_options(partita_torch INTERFACE -Wl,--allow-shlib-undefined)
foreach(PACKAGE cu13 cudnn nccl)
  list(APPEND CMAKE_BUILD_RPATH ${PACKAGES}/nvidia/${PACKAGE}/lib)
endforeach()
