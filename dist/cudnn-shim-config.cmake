# find_package(cudnn-shim) defines the imported target cudnn-shim::cudnn. It does not include cuDNN's headers.
get_filename_component(_cudnn_shim_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET cudnn-shim::cudnn)
  add_library(cudnn-shim::cudnn SHARED IMPORTED)
  set_target_properties(cudnn-shim::cudnn PROPERTIES
    IMPORTED_LOCATION "${_cudnn_shim_prefix}/lib/libcudnn.so.9"
    IMPORTED_SONAME libcudnn.so.9
    INTERFACE_INCLUDE_DIRECTORIES "${_cudnn_shim_prefix}/include")
endif()

unset(_cudnn_shim_prefix)
