"""Contains the drop-in for NVIDIA's libcudnn.so.9 or cudnn64_9.dll. `python -m cudnn_shim` prints its path."""
