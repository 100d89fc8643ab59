/* A CUDA toolkit's header of this name: the program needs nothing of it. */
#pragma once
