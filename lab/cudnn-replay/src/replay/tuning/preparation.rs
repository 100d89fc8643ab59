//! Prepares the inputs and the reference of a graph in a thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{Builder, JoinHandle};

use cudnn_graph::{Graph, Node};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnPointwiseMode_t as Pointwise,
};

use super::super::host_memory::{Share, host_bytes};
use super::super::prepared::Prepared;
use super::super::reference::Expected;
use super::super::request::{DataSet, Request};
use crate::tune::task::Task;

/// The maximum number of multiplications of a reference. A sample suffices: engines are compared with each other.
const MAX_PRODUCTS: u64 = 1 << 27;
/// Maximum host memory for graphs that are prepared ahead, as estimated by [`host_bytes`].
const MAX_AHEAD: usize = 6 << 30;
/// The approximate number of bytes for an element and its expected value.
const REFERENCE_BYTES: usize = 16;

/// The expected outputs by uid, or the reason for a missing reference.
pub(super) type Reference = Result<BTreeMap<i64, Expected>, String>;

/// A thread that prepares a graph. The inputs are available before the reference.
pub(super) struct Preparation {
    inputs: Receiver<Result<Arc<Prepared>, String>>,
    reference: JoinHandle<Reference>,
    share: Share,
}

impl Preparation {
    /// Starts the thread. Returns `None` on failure, and unless it `must` start, also if the memory is in use.
    pub(super) fn start(task: &Arc<Task>, used: &Arc<AtomicUsize>, must: bool) -> Option<Self> {
        let max = if must { usize::MAX } else { MAX_AHEAD };
        let share = Share::take(host_bytes(&task.graph, REFERENCE_BYTES), used, max)?;
        let (send, inputs) = channel();
        let task = Arc::clone(task);
        let prepare = move || {
            let prepared = Prepared::without_reference(&request(&task), data_set(&task.graph)).map(Arc::new);
            let sent = send.send(prepared.clone());
            drop(send);
            match (prepared, sent) {
                (Ok(prepared), Ok(())) => prepared.reference(&task.graph, MAX_PRODUCTS),
                (Err(reason), _) => Err(reason),
                (_, Err(_)) => Err("nobody needs it".to_owned()),
            }
        };
        Some(Preparation { inputs, reference: Builder::new().spawn(prepare).ok()?, share })
    }

    pub(super) fn inputs(&self) -> Result<Arc<Prepared>, String> {
        self.inputs.recv().unwrap_or_else(|_| Err("the inputs cannot be prepared".to_owned()))
    }

    pub(super) fn reference(self) -> Reference {
        let reference = self.reference.join();
        drop(self.share);
        reference.unwrap_or_else(|_| Err("the reference cannot be computed".to_owned()))
    }
}

fn request(task: &Task) -> Request {
    let Task { graph, execution, max_bytes, .. } = task;
    Request { execution: execution.clone(), max_bytes: *max_bytes, ..Request::new(graph.clone()) }
}

/// Returns suitable inputs for a graph. If sums and products of small integers are exact, all correct engines return
/// the same bits, which is fast to check. Other graphs get normally distributed numbers.
fn data_set(graph: &Graph) -> DataSet {
    let is_exact = |node: &Node| match node.kind {
        Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR
        | Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR => true,
        Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR => {
            let parameters = graph.children(node, Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
            let mode = parameters.first().and_then(|node| node.integer(Name::CUDNN_ATTR_POINTWISE_MODE));
            mode.is_some_and(|mode| EXACT.contains(&Pointwise(mode as _)))
        }
        _ => false,
    };
    if graph.operations().into_iter().all(is_exact) { DataSet::Integers } else { DataSet::Normal }
}

const EXACT: [Pointwise; 7] = [
    Pointwise::CUDNN_POINTWISE_ADD,
    Pointwise::CUDNN_POINTWISE_MUL,
    Pointwise::CUDNN_POINTWISE_SUB,
    Pointwise::CUDNN_POINTWISE_MAX,
    Pointwise::CUDNN_POINTWISE_MIN,
    Pointwise::CUDNN_POINTWISE_RELU_FWD,
    Pointwise::CUDNN_POINTWISE_IDENTITY,
];
