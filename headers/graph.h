/* libcudnn_graph: the module `graph`. */
#include <cudnn_version.h>
#include <cudnn_graph.h>
#include <cudnn_backend.h>
