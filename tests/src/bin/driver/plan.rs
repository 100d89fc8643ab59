//! Plans one convolution for a device that is described in JSON: that makes cuDNN's graph library open its heuristics
//! and engines without a GPU.

use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::proposal_count;
use cudnn_backend::graph::{Convolution, graph};
use cudnn_backend::tensor::Tensor;
use cudnn_loader::{Error, cudnnBackendHeurMode_t, cudnnDataType_t};

/// Prints how many configurations of engines the heuristics propose.
pub(crate) fn plan(json: &str) {
    match count_proposals(json) {
        Ok(count) => println!("plan = {count} configurations"),
        Err(error) => println!("plan = {:?}", error.status),
    }
}

fn count_proposals(json: &str) -> Result<usize, Error> {
    let tensor = |uid, dims| Tensor::channels_last(uid, cudnnDataType_t::CUDNN_DATA_HALF, dims);
    let (x, w, y) = (tensor(1, &[8, 32, 16, 16]), tensor(2, &[32, 32, 3, 3]), tensor(3, &[8, 32, 16, 16]));
    let graph = graph(None, &[&Convolution::padded(1, 2).forward([&x, &w, &y], 1.0, 0.0)?])?;
    let device = device::from_json(json)?;
    let mode = cudnnBackendHeurMode_t::CUDNN_HEUR_MODE_A;
    proposal_count(&graph, mode, Target::Device(&device))
}
