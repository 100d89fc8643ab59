//! Measures nanoseconds per call, for every call path.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use cudnn_benches::{
    CALLS, CallPath, Cudarc, Linked, Loader, Pointer, Shim, convolutions, set_tensors, tensor, versions,
};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn version<P: CallPath>(group: &mut Group<'_>) {
    let path = P::ready();
    group.bench_function(P::NAME, |bencher| bencher.iter(|| versions(&path)));
}

fn set_tensor<P: CallPath>(group: &mut Group<'_>) {
    let (path, tensor) = (P::ready(), tensor());
    group.bench_function(P::NAME, |bencher| bencher.iter(|| set_tensors(&path, tensor)));
}

fn convolution<P: CallPath>(group: &mut Group<'_>) {
    let path = P::ready();
    group.bench_function(P::NAME, |bencher| bencher.iter(|| convolutions(&path)));
}

fn calls(criterion: &mut Criterion) {
    macro_rules! on_every_path {
        ($function:literal, $measure:ident) => {
            let mut group = criterion.benchmark_group($function);
            group.throughput(Throughput::Elements(CALLS.into()));
            $measure::<Linked>(&mut group);
            $measure::<Pointer>(&mut group);
            $measure::<Loader>(&mut group);
            $measure::<Shim>(&mut group);
            $measure::<Cudarc>(&mut group);
            group.finish();
        };
    }
    on_every_path!("cudnnGetVersion", version);
    on_every_path!("cudnnSetTensor4dDescriptor", set_tensor);
    on_every_path!("cudnnConvolutionForward", convolution);
}

criterion_group!(benches, calls);
criterion_main!(benches);
