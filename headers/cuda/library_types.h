/* Replaces CUDA's library_types.h and declares the only enum that cuDNN's headers use. */
#ifndef CUDNN_SHIM_LIBRARY_TYPES_H
#define CUDNN_SHIM_LIBRARY_TYPES_H

typedef enum libraryPropertyType_t {
    MAJOR_VERSION = 0,
    MINOR_VERSION = 1,
    PATCH_LEVEL = 2
} libraryPropertyType;

#endif
