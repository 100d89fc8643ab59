//! Counts the instructions of a thousand calls under valgrind, for every call path.
#![allow(missing_docs, reason = "gungraun's macros make public items")]

use cudnn_benches::{
    CallPath, Cudarc, Linked, Loader, Pointer, Shim, Tensor, convolutions, set_tensors, tensor, versions,
};
use gungraun::{library_benchmark, library_benchmark_group, main};

#[library_benchmark]
#[bench::linked(Linked::ready())]
#[bench::pointer(Pointer::ready())]
#[bench::loader(Loader::ready())]
#[bench::shim(Shim::ready())]
#[bench::cudarc(Cudarc::ready())]
fn version<P: CallPath>(path: P) {
    versions(&path);
}

#[library_benchmark]
#[bench::linked(Linked::ready(), tensor())]
#[bench::pointer(Pointer::ready(), tensor())]
#[bench::loader(Loader::ready(), tensor())]
#[bench::shim(Shim::ready(), tensor())]
#[bench::cudarc(Cudarc::ready(), tensor())]
fn set_tensor<P: CallPath>(path: P, tensor: Tensor) {
    set_tensors(&path, tensor);
}

#[library_benchmark]
#[bench::linked(Linked::ready())]
#[bench::pointer(Pointer::ready())]
#[bench::loader(Loader::ready())]
#[bench::shim(Shim::ready())]
#[bench::cudarc(Cudarc::ready())]
fn convolution<P: CallPath>(path: P) {
    convolutions(&path);
}

library_benchmark_group!(name = calls; benchmarks = version, set_tensor, convolution);

main!(library_benchmark_groups = calls);
