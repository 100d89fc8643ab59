"""Prints the path of the drop-in: LD_PRELOAD=$(python -m cudnn_shim) python train.py"""

import os
import sys

_file = ("bin", "cudnn64_9.dll") if sys.platform == "win32" else ("lib", "libcudnn.so.9")
print(os.path.join(os.path.dirname(os.path.abspath(__file__)), *_file))
