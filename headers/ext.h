/* libcudnn_ext: the module `ext`. Older releases do not include one or both headers. */
#if __has_include(<cudnn_subquadratic_ops.h>)
#include <cudnn_subquadratic_ops.h>
#endif
#if __has_include(<cudnn_gnn_ops.h>)
#include <cudnn_gnn_ops.h>
#endif
