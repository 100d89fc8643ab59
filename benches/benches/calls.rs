//! Nanoseconds a call, in each way.
#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use cudnn_benches::{
    CALLS, CallPath, Cudarc, Linked, Loader, Pointer, Shim, convolutions, set_tensors, tensor, versions,
};

type Group<'a> = BenchmarkGroup<'a, WallTime>;

fn version<W: CallPath>(group: &mut Group<'_>) {
    let way = W::ready();
    group.bench_function(W::NAME, |bencher| bencher.iter(|| versions(&way)));
}

fn set_tensor<W: CallPath>(group: &mut Group<'_>) {
    let (way, tensor) = (W::ready(), tensor());
    group.bench_function(W::NAME, |bencher| bencher.iter(|| set_tensors(&way, tensor)));
}

fn convolution<W: CallPath>(group: &mut Group<'_>) {
    let way = W::ready();
    group.bench_function(W::NAME, |bencher| bencher.iter(|| convolutions(&way)));
}

fn calls(criterion: &mut Criterion) {
    macro_rules! in_every_way {
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
    in_every_way!("cudnnGetVersion", version);
    in_every_way!("cudnnSetTensor4dDescriptor", set_tensor);
    in_every_way!("cudnnConvolutionForward", convolution);
}

criterion_group!(benches, calls);
criterion_main!(benches);
