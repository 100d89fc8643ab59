//! Plans and executes a graph with the loaded cuDNN.
