/* libcudnn_ops: the module `ops`. */
#include <cudnn_ops.h>
