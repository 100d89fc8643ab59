/* libcudnn_adv: the module `adv`. */
#include <cudnn_adv.h>
