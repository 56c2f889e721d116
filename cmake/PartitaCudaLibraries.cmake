# What code for NVIDIA GPUs links, added to partita_torch: torch's CUDA libraries, NCCL and cuDNN as pip installs them next
# to torch. Included where PARTITA_CUDA is on, by the project itself and by find_package(Partita).
find_package(CUDAToolkit REQUIRED)

cmake_path(NORMAL_PATH PARTITA_TORCH OUTPUT_VARIABLE PACKAGES)
string(REGEX REPLACE "/$" "" PACKAGES "${PACKAGES}")
cmake_path(GET PACKAGES PARENT_PATH PACKAGES)
foreach(NEEDED ${PACKAGES}/nvidia/nccl/include/nccl.h ${PACKAGES}/nvidia/cudnn/include/cudnn.h
               ${PACKAGES}/include/cudnn_frontend.h ${PARTITA_TORCH}/lib/libtorch_cuda.so)
  if(NOT EXISTS ${NEEDED})
    message(FATAL_ERROR "PARTITA_CUDA=ON: ${NEEDED} is missing. Install torch with its CUDA packages and "
                        "nvidia-cudnn-frontend by pip into one folder, and pass -DPARTITA_TORCH=FOLDER/torch.")
  endif()
endforeach()

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
