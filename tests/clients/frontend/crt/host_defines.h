/* What the host compiler needs of a CUDA toolkit's header of this name. */
#pragma once
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(n) __align__(n)
#define __align__(n) __attribute__((aligned(n)))
#define __inline_hint__
#define CUDA_CB
#define __no_return__ __attribute__((noreturn))
#define __forceinline__ inline
#define __specialization_static static
