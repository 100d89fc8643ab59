"""Prints the path of the drop-in: LD_PRELOAD=$(python -m cudnn_shim) python train.py"""

import os
import sys

_file = ("bin", "cudnn64_9.dll") if sys.platform == "win32" else ("lib", "libcudnn.so.9")
_path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *_file)
if not os.path.exists(_path):
    sys.exit("cudnn_shim: %s is missing: install the wheel again" % _path)
print(_path)
