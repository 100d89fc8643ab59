//! Prepares the values of a data set, and compares outputs with the reference.

use std::collections::BTreeMap;

use cudnn_graph::{Graph, Node};
use cudnn_loader::{
    cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind, cudnnDataType_t as DataType,
    cudnnPointwiseMode_t as Mode,
};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::accuracy::Worst;
use super::captured::TensorValues;
use super::memory::{Memory, TensorPlace};
use super::reference::Expected;
use super::request::{DataSet, OutputError, Request, Run};
use super::tensor::Tensor;
use super::{accuracy, data, element, reference};
use crate::attention_inputs::attention_inputs;

pub(super) struct Prepared {
    pub(super) data: DataSet,
    pub(super) memory: Memory,
    /// The uids of the tensors that need values before the execution.
    given: Vec<i64>,
    pub(super) written: Vec<i64>,
    /// The expected outputs, or the reason why there is no reference.
    pub(super) expected: Result<BTreeMap<i64, Expected>, String>,
    /// The captured values, if they are the data set.
    captured: Option<TensorValues>,
}

impl Prepared {
    pub(super) fn new(request: &Request, data: DataSet) -> Result<Self, String> {
        let mut prepared = Prepared::without_reference(request, data)?;
        prepared.expected = prepared.reference(&request.graph, reference::MAX_PRODUCTS);
        Ok(prepared)
    }

    pub(super) fn without_reference(request: &Request, data: DataSet) -> Result<Self, String> {
        let graph = &request.graph;
        let nodes = || graph.nodes().iter();
        let mut tensors = BTreeMap::new();
        for node in graph.tensors() {
            let tensor = Tensor::new(node)?;
            if !tensor.is_virtual {
                tensors.insert(tensor.uid, tensor);
            }
        }
        let is_readable = tensors.values().all(|tensor| tensor.is_plain && element::is_readable(tensor.ty));
        let mut memory = Memory::new(tensors.into_values().collect(), request.execution.as_ref(), request.max_bytes)?;
        let is_known = reference::is_known(graph);
        // Operations can contain operations.
        let mut written: Vec<i64> = nodes().flat_map(|node| graph.outputs(node)).collect();
        let read: Vec<i64> = nodes().flat_map(|node| graph.inputs(node)).collect();
        let captured = match (data, &request.values) {
            (DataSet::Captured, Some(values)) => {
                let tensors: Vec<Tensor> = memory.places.iter().map(|place| as_stored(&place.tensor)).collect();
                let records = tensors.iter().flat_map(|tensor| {
                    let records = values.records.iter().filter(|record| record.uid == tensor.uid);
                    records.map(|record| (record, tensor.span()))
                });
                Some(TensorValues::read(&values.dir, records)?)
            }
            (DataSet::Captured, None) => return Err("they are missing in the capture".to_owned()),
            _ => None,
        };
        let id = graph.id();
        let attention = attention_inputs(graph);
        let scratch = if is_attention_gradient(graph) { read.as_slice() } else { &[] };
        let is_scratch = |uid| written.contains(&uid) && scratch.contains(&uid);
        // Tensors that are only written need no values.
        let is_read = |uid| !written.contains(&uid) || read.contains(&uid) || graph.reads_outputs();
        for place in memory.places.clone() {
            let Tensor { uid, ty, is_by_value, is_plain, .. } = place.tensor;
            let is_written = written.contains(&uid);
            let is_read = is_read(uid);
            let seed = data::seed(&id, uid);
            if let Some(bytes) = host_value(request, uid).filter(|_| is_by_value) {
                memory.write(&place, &bytes);
            } else if is_by_value {
                memory.fill(&place, |_| if element::is_integer(ty) { 1.0 } else { 0.125 });
            } else if let Some(captured) = &captured {
                // Some elements of special layouts are never written.
                if is_read || !is_plain {
                    let bytes = captured.before.get(&uid).ok_or_else(|| format!("the capture lacks tensor {uid}"))?;
                    memory.write(&place, bytes);
                }
            } else if let Some(numbers) = attention.get(&uid) {
                memory.fill(&place, |index| numbers.at(index) as f64);
            } else if is_scratch(uid) || element::is_integer(ty) && !(is_known && is_readable) {
                // Sums start from zero. Page numbers must be valid.
                memory.fill(&place, |_| 0.0);
            } else if is_read {
                memory.fill(&place, |index| data::value(data, seed, index));
            }
            if is_written || !is_known {
                memory.allow_writes(&place);
            }
        }
        if is_readable && captured.is_none() {
            for (uid, array) in reference::derived::inputs(graph, || memory.values(is_read)) {
                let of_tensor = memory.places.iter().find(|place| place.tensor.uid == uid && !place.tensor.is_by_value);
                if let Some(place) = of_tensor.cloned() {
                    memory.fill(&place, |index| array.get(index as usize));
                }
            }
        }
        let given = memory.places.iter().map(|place| place.tensor.uid).filter(|uid| is_read(*uid)).collect();
        written.retain(|uid| !scratch.contains(uid));
        let expected = Err("it was not computed".to_owned());
        Ok(Prepared { data, memory, given, written, expected, captured })
    }

    /// Computes the outputs of the graph with at most this number of multiplications.
    pub(super) fn reference(&self, graph: &Graph, products: u64) -> Result<BTreeMap<i64, Expected>, String> {
        let memory = &self.memory;
        if !memory.places.iter().all(|place| place.tensor.is_plain && element::is_readable(place.tensor.ty)) {
            return Err(reference::SPECIAL_LAYOUT.to_owned());
        }
        let given = || memory.values(|uid| self.given.contains(&uid));
        reference::compute_within(products, graph, given, &|uid, index| memory.element(uid, index))
    }

    pub(super) fn outputs<'a>(&'a self, after: &'a [Vec<u8>]) -> impl Iterator<Item = (&'a TensorPlace, &'a [u8])> {
        let places = self.memory.places.iter().filter(|place| self.written.contains(&place.tensor.uid));
        places.filter_map(|place| {
            let range = place.offset..place.offset + place.tensor.span();
            Some((place, after.get(place.buffer)?.get(range)?))
        })
    }

    pub(super) fn has_equal_outputs(&self, a: &[Vec<u8>], b: &[Vec<u8>]) -> bool {
        self.outputs(a).map(|(_, bytes)| bytes).eq(self.outputs(b).map(|(_, bytes)| bytes))
    }

    pub(super) fn writes(&self, buffer: usize) -> bool {
        self.memory.places.iter().any(|place| place.buffer == buffer && self.written.contains(&place.tensor.uid))
    }

    /// Compares all buffers after an execution, and adds the results to `run`.
    pub(super) fn compare(&self, after: &[Vec<u8>], run: &mut Run) {
        let damage = || {
            let buffers = after.par_iter().enumerate();
            buffers.filter_map(|(at, bytes)| self.memory.damage(at, bytes)).collect::<Vec<_>>()
        };
        let (bits, ((errors, unknown), damage)) =
            rayon::join(|| self.digest(after), || rayon::join(|| self.errors(after), damage));
        run.bits = bits;
        let output =
            |(uid, worst): &(i64, Worst)| OutputError { uid: *uid, error: worst.error, compared: worst.compared };
        run.outputs = errors.iter().map(output).collect();
        if !unknown.is_empty() {
            run.no_reference = Some(unknown.join("; "));
        }
        let worst = errors.into_iter().reduce(|a, b| if b.1.error > a.1.error { b } else { a });
        (run.error, run.worst_output) = (worst.map(|(_, worst)| worst.error), worst.map(|(uid, _)| uid));
        run.worst_element = worst.filter(|(_, worst)| worst.error > 0.0).map(|(uid, worst)| describe(uid, &worst));
        run.is_sampled = run.error.is_some() && self.is_sampled();
        run.same_as_captured = self.same_as_captured(after);
        // The workspace follows the buffers.
        run.damage.splice(0..0, damage);
    }

    fn digest(&self, after: &[Vec<u8>]) -> String {
        let mut digest = Sha256::new();
        for (_, bytes) in self.outputs(after) {
            digest.update(bytes);
        }
        digest.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the largest error of each output, and the names of outputs that cannot be compared.
    fn errors(&self, after: &[Vec<u8>]) -> (Vec<(i64, Worst)>, Vec<String>) {
        match &self.expected {
            Ok(expected) => self.errors_from(expected, after),
            Err(_) => Default::default(),
        }
    }

    /// Like [`errors`](Self::errors), but with these expected values.
    pub(super) fn errors_from(
        &self,
        expected: &BTreeMap<i64, Expected>,
        after: &[Vec<u8>],
    ) -> (Vec<(i64, Worst)>, Vec<String>) {
        let (mut errors, mut unknown) = (Vec::new(), Vec::new());
        for (place, bytes) in self.outputs(after) {
            let Tensor { uid, ty, .. } = place.tensor;
            let Some(expected) = expected.get(&uid) else { continue };
            match accuracy::worst(ty, &expected.select(&place.tensor, bytes), &expected.array) {
                Ok(worst) => errors.push((uid, Worst { index: expected.index(worst.index), ..worst })),
                Err(compared) => unknown.push(compared_text(uid, compared)),
            }
        }
        (errors, unknown)
    }

    fn is_sampled(&self) -> bool {
        let is_sampled =
            |uid| self.expected.as_ref().is_ok_and(|expected| expected.get(uid).is_some_and(Expected::is_sampled));
        self.written.iter().any(is_sampled)
    }

    /// Returns whether the outputs have the captured bits, or `None` if no output is captured.
    fn same_as_captured(&self, after: &[Vec<u8>]) -> Option<bool> {
        let captured = self.captured.as_ref()?;
        let same = self.outputs(after).filter_map(|(place, bytes)| {
            let captured = captured.after.get(&place.tensor.uid)?;
            let is_packed = place.tensor.ty == DataType::CUDNN_DATA_BOOLEAN;
            Some(if is_packed { bytes.starts_with(captured) } else { place.tensor.has_equal_elements(bytes, captured) })
        });
        same.reduce(|a, b| a && b)
    }
}

fn compared_text(uid: i64, compared: f64) -> String {
    format!("only {:.1} % of tensor {uid} have a number as their reference", compared * 100.0)
}

pub(super) fn describe(uid: i64, worst: &Worst) -> String {
    let Worst { index, value, expected, is_out_of_range, .. } = worst;
    let range = if *is_out_of_range { ", which exceeds the range of the type" } else { "" };
    format!("element {index} of tensor {uid} is {value}, and the reference is {expected}{range}")
}

/// Returns a tensor with the size that the capture stores. Packed booleans are one bit there, and one byte here.
fn as_stored(tensor: &Tensor) -> Tensor {
    let mut stored = tensor.clone();
    if tensor.ty == DataType::CUDNN_DATA_BOOLEAN {
        (stored.dims, stored.strides) = (vec![tensor.span().div_ceil(8)], vec![1]);
    }
    stored
}

/// Returns whether this is the gradient of an attention: five matmuls and an exponential. Engines use the tensors
/// between the operations as accumulators with an internal layout, and cudnn-frontend sets them to zero before each
/// execution. In other graphs, such tensors are outputs.
fn is_attention_gradient(graph: &Graph) -> bool {
    let count = |is: &dyn Fn(&Node) -> bool| graph.nodes().iter().filter(|node| is(node)).count();
    let is_exponential = |node: &Node| {
        let mode = node.integer(Name::CUDNN_ATTR_POINTWISE_MODE);
        mode.is_some_and(|mode| Mode(mode as _) == Mode::CUDNN_POINTWISE_EXP)
    };
    count(&|node| node.kind == Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) == 5 && count(&is_exponential) > 0
}

fn host_value(request: &Request, uid: i64) -> Option<Vec<u8>> {
    request.execution.as_ref()?.tensors.iter().find(|tensor| tensor.uid == uid)?.value_bytes()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::CapturedValues;
    use super::*;
    use crate::attention_inputs::tests::ATTENTION;
    use cudnn_store::captures::DataRecord;

    pub(in super::super) const MATMUL: &str = r#"[
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":1,"TENSOR_DATA_TYPE:1":2,"TENSOR_DIMENSIONS:3":[1,3,5],"TENSOR_STRIDES:3":[24,8,1]},
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":2,"TENSOR_DATA_TYPE:1":9,"TENSOR_DIMENSIONS:3":[1,5,2],"TENSOR_STRIDES:3":[10,1,5]},
        {"kind":"TENSOR","TENSOR_UNIQUE_ID:3":3,"TENSOR_DATA_TYPE:1":2,"TENSOR_DIMENSIONS:3":[1,3,2],"TENSOR_STRIDES:3":[12,4,1]},
        {"kind":"MATMUL"},
        {"kind":"OPERATION_MATMUL","OPERATION_MATMUL_ADESC:15":0,"OPERATION_MATMUL_BDESC:15":1,"OPERATION_MATMUL_CDESC:15":2},
        {"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":4}]"#;

    pub(in super::super) fn request() -> Request {
        Request::new(serde_json::from_str(MATMUL).unwrap())
    }

    fn error(prepared: &Prepared, after: &[Vec<u8>]) -> Option<f64> {
        prepared.errors(after).0.iter().map(|(_, worst)| worst.error).reduce(f64::max)
    }

    #[test]
    fn only_a_correct_and_complete_output_has_a_small_error() {
        for data in [DataSet::Integers, DataSet::Normal, DataSet::Adversarial] {
            let prepared = Prepared::new(&request(), data).unwrap();
            let untouched: Vec<Vec<u8>> = prepared.memory.buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
            assert_eq!(error(&prepared, &untouched), Some(f64::MAX));
            // Write the results of a correct engine.
            let expected = prepared.expected.as_ref().unwrap()[&3].array.clone();
            let place = prepared.memory.places.iter().find(|place| place.tensor.uid == 3).unwrap().clone();
            let mut computed = prepared.memory.clone();
            computed.fill(&place, |index| expected.get(index as usize));
            let mut after: Vec<Vec<u8>> = computed.buffers.into_iter().map(|buffer| buffer.bytes).collect();
            let measured = error(&prepared, &after).unwrap();
            assert!(if data == DataSet::Integers { measured == 0.0 } else { measured <= 0.5 }, "{data:?}: {measured}");
            assert!((0..after.len()).all(|at| prepared.memory.damage(at, &after[at]).is_none()));
            let bits = prepared.digest(&after);
            after[place.buffer][place.offset + 1] ^= 0x40;
            assert!(error(&prepared, &after) > Some(100.0) && prepared.digest(&after) != bits, "{data:?}");
        }
    }

    #[test]
    fn accumulators_of_gradients_are_zero_and_are_not_compared() {
        let tensor = |uid| {
            format!(
                r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DATA_TYPE:1":0,"DIMENSIONS:3":[1,2,2],"STRIDES:3":[4,2,1]}}"#
            )
        };
        let tensors: Vec<String> = (1..6).map(tensor).collect();
        let matmul = |a, b, c| {
            let names = ["ADESC", "BDESC", "CDESC"].map(|name| format!("OPERATION_MATMUL_{name}:15"));
            format!(r#"{{"kind":"OPERATION_MATMUL","{}":{a},"{}":{b},"{}":{c}}}"#, names[0], names[1], names[2])
        };
        let graph = |operations: &[String], places: &str| {
            let root = format!(r#"{{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":{places}}}"#);
            let nodes = format!("[{},{},{root}]", tensors.join(","), operations.join(","));
            Request { graph: serde_json::from_str(&nodes).unwrap(), ..request() }
        };
        let exponential = format!(
            r#"{{"kind":"POINTWISE","MODE:14":{}}},{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":5,"XDESC:15":2,"YDESC:15":3}}"#,
            Mode::CUDNN_POINTWISE_EXP.0
        );
        let prepare = |operations: &[String], places: &str| Prepared::new(&graph(operations, places), DataSet::Normal);
        let mut operations = vec![exponential, matmul(0, 1, 2), matmul(3, 1, 4), matmul(0, 2, 4), matmul(3, 2, 4)];
        operations.push(matmul(3, 3, 4));
        let prepared = prepare(&operations, "[6,7,8,9,10,11]").unwrap();
        assert_eq!(prepared.written, [5; 4]);
        let place = prepared.memory.places.iter().find(|place| place.tensor.uid == 3).unwrap();
        let start = &prepared.memory.buffers[place.buffer].bytes[place.offset..];
        assert_eq!(start[..16], [0; 16]);
        let chain = [matmul(0, 1, 2), matmul(2, 1, 3), matmul(3, 1, 4)];
        assert_eq!(prepare(&chain, "[5,6,7]").unwrap().written, [3, 4, 5]);
    }

    #[test]
    fn sequences_of_attentions_are_neither_empty_nor_in_the_same_memory() {
        let graph = serde_json::from_str(ATTENTION).unwrap();
        let prepared = Prepared::new(&Request { graph, ..request() }, DataSet::Integers).unwrap();
        let numbers = |uid, count| (0..count).filter_map(|at| prepared.memory.element(uid, at)).collect::<Vec<_>>();
        assert_eq!(numbers(2, 2), [96.0; 2]);
        assert_eq!((numbers(3, 3), numbers(4, 3)), (vec![0.0, 24576.0, 49152.0], vec![0.0, 96.0, 192.0]));
    }

    /// The square root of a negative number has no reference.
    #[test]
    fn outputs_without_a_reference_are_named() {
        let tensor = |uid: usize| format!(r#"{{"kind":"TENSOR","UNIQUE_ID:3":{uid},"DIMENSIONS:3":8,"STRIDES:3":1}}"#);
        let operation = |mode: Mode, x: usize, y: usize, parameters: usize| {
            format!(
                r#"{{"kind":"POINTWISE","MODE:14":{}}},{{"kind":"OPERATION_POINTWISE","PW_DESCRIPTOR:15":{parameters},"XDESC:15":{x},"BDESC:15":{x},"YDESC:15":{y}}}"#,
                mode.0
            )
        };
        let nodes = [
            (1..5).map(tensor).collect::<Vec<_>>().join(","),
            operation(Mode::CUDNN_POINTWISE_MUL, 0, 1, 4),
            operation(Mode::CUDNN_POINTWISE_NEG, 1, 2, 6),
            operation(Mode::CUDNN_POINTWISE_SQRT, 2, 3, 8),
            r#"{"kind":"OPERATIONGRAPH","OPERATIONGRAPH_OPS:15":[5,7,9]}"#.to_owned(),
        ];
        let graph = serde_json::from_str(&format!("[{}]", nodes.join(","))).unwrap();
        let prepared = Prepared::new(&Request { graph, ..request() }, DataSet::Normal).unwrap();
        let after: Vec<Vec<u8>> = prepared.memory.buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
        let (errors, unknown) = prepared.errors(&after);
        assert_eq!(errors.iter().map(|(uid, _)| *uid).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(unknown, ["only 0.0 % of tensor 4 have a number as their reference"]);
    }

    #[test]
    fn captured_inputs_are_used_and_captured_outputs_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let prepared = Prepared::new(&request(), DataSet::Normal).unwrap();
        let expected = prepared.expected.as_ref().unwrap()[&3].array.clone();
        let mut computed = prepared.memory.clone();
        let output = computed.places.iter().find(|place| place.tensor.uid == 3).unwrap().clone();
        computed.fill(&output, |index| expected.get(index as usize));
        let mut records = Vec::new();
        for place in &prepared.memory.places {
            for (is_after, memory) in [(false, &prepared.memory), (true, &computed)] {
                let bytes = &memory.buffers[place.buffer].bytes[place.offset..place.offset + place.tensor.span()];
                let (uid, file) = (place.tensor.uid, format!("{}-{is_after}", place.tensor.uid));
                std::fs::write(dir.path().join(&file), bytes).unwrap();
                records.push(DataRecord { plan: 0, execution: 1, uid, is_after, file, bytes: bytes.len() as u64 });
            }
        }
        let values = CapturedValues { dir: dir.path().to_owned(), records };
        let request = Request { values: Some(values.clone()), ..request() };
        let captured = Prepared::new(&request, DataSet::Captured).unwrap();
        assert_eq!(captured.memory.buffers[0].bytes, prepared.memory.buffers[0].bytes);
        let mut after: Vec<Vec<u8>> = computed.buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
        assert_eq!((captured.same_as_captured(&after), prepared.same_as_captured(&after)), (Some(true), None));
        assert!(error(&captured, &after).unwrap() <= 0.5);
        // The second byte belongs to the first element, and the sixth byte to a gap.
        after[output.buffer][output.offset + 5] ^= 1;
        assert_eq!(captured.same_as_captured(&after), Some(true));
        after[output.buffer][output.offset + 1] ^= 1;
        assert_eq!(captured.same_as_captured(&after), Some(false));
        let refused = |values| Prepared::new(&Request { values, ..request.clone() }, DataSet::Captured).err().unwrap();
        std::fs::write(dir.path().join("2-false"), [0]).unwrap();
        assert!(refused(Some(values.clone())).contains("it has 1 bytes, and the tensor has 20"));
        let mut lacking = values;
        lacking.records.retain(|record| record.uid != 2);
        assert_eq!(refused(Some(lacking)), "the capture lacks tensor 2");
        assert_eq!(refused(None), "they are missing in the capture");
    }

    #[test]
    fn packed_booleans_are_stored_as_bits() {
        let dir = tempfile::tempdir().unwrap();
        let packed = format!(r#""TENSOR_DATA_TYPE:1":{}"#, DataType::CUDNN_DATA_BOOLEAN.0);
        let json = MATMUL.replace(r#""TENSOR_DATA_TYPE:1":9"#, &packed);
        let (start, end) = json.rsplit_once(r#""TENSOR_DATA_TYPE:1":2"#).unwrap();
        let graph = serde_json::from_str(&format!("{start}{packed}{end}")).unwrap();
        let files = [(1, false, vec![0; 42]), (2, false, vec![0xa5, 0x3c]), (3, true, vec![1, 2])];
        let mut records = Vec::new();
        for (uid, is_after, bytes) in files {
            let file = uid.to_string();
            std::fs::write(dir.path().join(&file), &bytes).unwrap();
            records.push(DataRecord { plan: 0, execution: 1, uid, is_after, file, bytes: bytes.len() as u64 });
        }
        let values = Some(CapturedValues { dir: dir.path().to_owned(), records });
        let prepared = Prepared::new(&Request { graph, values, ..request() }, DataSet::Captured).unwrap();
        let place = |uid| prepared.memory.places.iter().find(|place| place.tensor.uid == uid).unwrap();
        let (mask, output) = (place(2), place(3));
        assert_eq!(prepared.memory.buffers[mask.buffer].bytes[mask.offset..mask.offset + 2], [0xa5, 0x3c]);
        let mut after: Vec<Vec<u8>> = prepared.memory.buffers.iter().map(|buffer| buffer.bytes.clone()).collect();
        after[output.buffer][output.offset..output.offset + 2].copy_from_slice(&[1, 2]);
        assert_eq!(prepared.same_as_captured(&after), Some(true));
        after[output.buffer][output.offset + 1] ^= 1;
        assert_eq!(prepared.same_as_captured(&after), Some(false));
    }

    #[test]
    fn graphs_that_cannot_be_executed_are_refused() {
        for (from, to, reason) in [
            (r#""TENSOR_DATA_TYPE:1":9"#, r#""TENSOR_DATA_TYPE:1":16"#, "element type"),
            ("[1,3,5]", "[4294967296,3,4294967296]", "too large"),
            ("[24,8,1]", "[24,4294967296,1]", "at most 2147483648"),
        ] {
            let graph = serde_json::from_str(&MATMUL.replace(from, to)).unwrap();
            let refused = Prepared::new(&Request { graph, ..request() }, DataSet::Normal);
            assert!(refused.err().unwrap().contains(reason), "{to}");
        }
    }
}
