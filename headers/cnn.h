/* libcudnn_cnn: the module `cnn`. */
#include <cudnn_cnn.h>
