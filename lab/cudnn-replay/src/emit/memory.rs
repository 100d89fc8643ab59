//! Plans the memory of an execution: buffers for the tensors, and the numbers in them. Tensors overlap and are aligned
//! as in a captured execution, if there is one.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cudnn_graph::Node;
use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnDataType_t as DataType};
use cudnn_store::captures::Tensor as Captured;

use super::case::Case;
use crate::attention_inputs::{AttentionInputs, attention_inputs};
use crate::captured_memory::CapturedMemory;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProgramMemory<'a> {
    pub(super) buffers: Vec<EmittedBuffer>,
    pub(super) tensors: Vec<EmittedTensor<'a>>,
    /// The size of all numbers that attention reads.
    number_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EmittedBuffer {
    pub(super) bytes: u64,
    /// The distance from an aligned address.
    pub(super) misalignment: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct EmittedTensor<'a> {
    pub(super) uid: i64,
    /// The index of the buffer, and the distance from its start. `None` for host memory.
    pub(super) buffer: Option<(usize, u64)>,
    pub(super) bytes: u64,
    pub(super) element_bytes: u64,
    /// Bit patterns to fill the memory with.
    pub(super) numbers: Vec<u64>,
    /// The content. Empty for null pointers and for filled device memory.
    pub(super) value: Cow<'a, [u8]>,
    /// The captured content after the execution.
    pub(super) after: &'a [u8],
}

/// The maximum size in bytes of all numbers that attention reads, which short captures can describe.
const MAX_NUMBERS: u64 = 256 << 10;

impl<'a> ProgramMemory<'a> {
    pub(super) fn new(case: &'a Case) -> Result<Self, String> {
        let mut memory = ProgramMemory::default();
        let attention = attention_inputs(case.graph());
        let mut nodes = BTreeMap::new();
        for node in case.graph().tensors().filter(|node| node.integer(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL) != Some(1)) {
            let uid = node.integer(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID).ok_or("a tensor has no id")?;
            nodes.entry(uid).or_insert(node);
        }
        let execution = case.captured.execution.as_ref();
        let captured = CapturedMemory::new(execution);
        let mut places = BTreeMap::new();
        for tensor in execution.iter().flat_map(|execution| &execution.tensors) {
            // Tensors with meaningless addresses get separate buffers.
            if tensor.memory.is_none() || captured.place_of(tensor.uid).is_some() {
                let node = nodes.remove(&tensor.uid);
                memory.add_captured(case, &attention, tensor, node, &mut places)?;
            }
        }
        for ((ordinal, is_host), index) in places {
            if let Some(buffer) = memory.buffers.get_mut(index) {
                buffer.misalignment = captured.misalignment(ordinal, is_host);
            }
        }
        for (uid, node) in nodes {
            memory.add(&attention, uid, node)?;
        }
        Ok(memory)
    }

    fn add(&mut self, attention: &AttentionInputs, uid: i64, node: &Node) -> Result<(), String> {
        let mut tensor = EmittedTensor::new(attention, uid, node)?;
        if node.integer(Name::CUDNN_ATTR_TENSOR_IS_BY_VALUE) != Some(1) {
            tensor.buffer = Some((self.buffers.len(), 0));
            self.buffers.push(EmittedBuffer { bytes: tensor.bytes, misalignment: 0 });
            tensor.value = self.numbers_in_order(&tensor, attention);
        }
        self.tensors.push(tensor);
        Ok(())
    }

    fn add_captured(
        &mut self,
        case: &'a Case,
        attention: &AttentionInputs,
        captured: &Captured,
        node: Option<&Node>,
        places: &mut BTreeMap<(usize, bool), usize>,
    ) -> Result<(), String> {
        let uid = captured.uid;
        let (numbers, value, after): (_, _, &[u8]) = (Vec::new(), Cow::default(), &[]);
        let nothing = EmittedTensor { uid, buffer: None, bytes: 0, element_bytes: 1, numbers, value, after };
        let mut tensor = node.map_or(Ok(nothing), |node| EmittedTensor::new(attention, uid, node))?;
        match &captured.memory {
            None => tensor.value = Cow::default(),
            Some(memory) if memory.is_host && node.is_some_and(Node::is_by_value) => {
                if captured.value.is_some() {
                    tensor.value = captured.value_bytes().ok_or("a value in the capture is damaged")?.into();
                }
            }
            Some(memory) => {
                let values =
                    |values: &'a BTreeMap<i64, Vec<u8>>| values.get(&uid).map(Vec::as_slice).unwrap_or_default();
                tensor.after = values(&case.values.after);
                tensor.value = match values(&case.values.before) {
                    [] => self.numbers_in_order(&tensor, attention),
                    captured => captured.into(),
                };
                let index = *places.entry((memory.buffer, memory.is_host)).or_insert_with(|| {
                    self.buffers.push(EmittedBuffer::default());
                    self.buffers.len() - 1
                });
                let captured = tensor.value.len().max(tensor.after.len()) as u64;
                tensor.bytes = tensor.bytes.max(memory.span.unwrap_or(0)).max(captured);
                let end = memory.offset.checked_add(tensor.bytes).ok_or("a buffer in the capture is too large")?;
                if let Some(buffer) = self.buffers.get_mut(index) {
                    buffer.bytes = buffer.bytes.max(end);
                }
                tensor.buffer = Some((index, memory.offset));
            }
        }
        if tensor.buffer.is_none() {
            tensor.bytes = tensor.value.len() as u64;
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// Returns numbers that differ and that attention reads, unless they would make the program too large.
    fn numbers_in_order(&mut self, tensor: &EmittedTensor<'_>, attention: &AttentionInputs) -> Cow<'static, [u8]> {
        let Some(numbers) = attention.get(&tensor.uid).filter(|numbers| numbers.step > 0) else {
            return Cow::default();
        };
        let Some(number_bytes) = self.number_bytes.checked_add(tensor.bytes).filter(|bytes| *bytes <= MAX_NUMBERS)
        else {
            return Cow::default();
        };
        self.number_bytes = number_bytes;
        let size = tensor.element_bytes as usize;
        let number = |index| numbers.at(index).to_le_bytes().into_iter().take(size);
        (0..tensor.bytes / tensor.element_bytes).flat_map(number).collect()
    }
}

impl EmittedTensor<'_> {
    /// Returns a tensor in host memory with the value 1.
    fn new(attention: &AttentionInputs, uid: i64, node: &Node) -> Result<Self, String> {
        let data_type = node.integer(Name::CUDNN_ATTR_TENSOR_DATA_TYPE).unwrap_or(0);
        let data_type = DataType(u32::try_from(data_type).unwrap_or(u32::MAX) as _);
        let format = Format::new(data_type).ok_or_else(|| format!("tensor {uid} has the data type {data_type:?}"))?;
        let bits = extent(node).and_then(|elements| elements.checked_mul(format.bits));
        let bytes = bits.ok_or_else(|| format!("tensor {uid} is too large"))?.div_ceil(8);
        let numbers = attention.get(&uid).map_or_else(|| format.numbers.to_vec(), |numbers| vec![numbers.first]);
        let size = format.element_bytes;
        let value = format.one.to_le_bytes().iter().copied().take(size as usize).collect();
        Ok(EmittedTensor { uid, buffer: None, bytes, element_bytes: size, numbers, value, after: &[] })
    }
}

/// Returns an upper limit for the distance between the first and the last element.
fn extent(node: &Node) -> Option<u64> {
    let dims = node.integers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS);
    let strides = node.integers(Name::CUDNN_ATTR_TENSOR_STRIDES);
    let last = dims.iter().zip(strides).try_fold(0_u64, |sum, (dim, stride)| {
        let steps = u64::try_from(*dim).ok()?.saturating_sub(1);
        sum.checked_add(steps.checked_mul(stride.unsigned_abs())?)
    })?;
    let mut elements = last.checked_add(1)?;
    // Reordered tensors are padded to multiples of at most 128.
    if node.integer(Name::CUDNN_ATTR_TENSOR_REORDERING_MODE).unwrap_or(0) != 0 {
        let padded = dims.iter().try_fold(1_u64, |product, dim| {
            product.checked_mul(u64::try_from(*dim).ok()?.checked_next_multiple_of(128)?)
        });
        elements = elements.max(padded?);
    }
    let vector = node.integer(Name::CUDNN_ATTR_TENSOR_VECTOR_COUNT).unwrap_or(1);
    elements.checked_mul(u64::try_from(vector).ok()?.max(1))
}

struct Format {
    bits: u64,
    element_bytes: u64,
    numbers: &'static [u64],
    one: u64,
}

impl Format {
    fn new(data_type: DataType) -> Option<Format> {
        const FLOATS: &[u64] = &[0xc000_0000, 0xbf80_0000, 0, 0x3f80_0000, 0x4000_0000];
        const DOUBLES: &[u64] =
            &[0xc000_0000_0000_0000, 0xbff0_0000_0000_0000, 0, 0x3ff0_0000_0000_0000, 0x4000_0000_0000_0000];
        let (bits, element_bytes, numbers, one): (_, _, &[u64], _) = match data_type {
            DataType::CUDNN_DATA_FLOAT => (32, 4, FLOATS, 0x3f80_0000),
            DataType::CUDNN_DATA_COMPLEX_FP32 => (64, 4, FLOATS, 0x3f80_0000),
            DataType::CUDNN_DATA_DOUBLE => (64, 8, DOUBLES, 0x3ff0_0000_0000_0000),
            DataType::CUDNN_DATA_COMPLEX_FP64 => (128, 8, DOUBLES, 0x3ff0_0000_0000_0000),
            DataType::CUDNN_DATA_HALF => (16, 2, &[0xc000, 0xbc00, 0, 0x3c00, 0x4000], 0x3c00),
            DataType::CUDNN_DATA_BFLOAT16 => (16, 2, &[0xc000, 0xbf80, 0, 0x3f80, 0x4000], 0x3f80),
            DataType::CUDNN_DATA_FP8_E4M3 => (8, 1, &[0xc0, 0xb8, 0, 0x38, 0x40], 0x38),
            DataType::CUDNN_DATA_FP8_E5M2 => (8, 1, &[0xc0, 0xbc, 0, 0x3c, 0x40], 0x3c),
            // These scales have no sign and no zero.
            DataType::CUDNN_DATA_FP8_E8M0 => (8, 1, &[0x7f, 0x80], 0x7f),
            DataType::CUDNN_DATA_FP4_E2M1 => (4, 1, &[0xcc, 0xaa, 0, 0x22, 0x44], 0x22),
            DataType::CUDNN_DATA_INT4 => (4, 1, &[0xee, 0xff, 0, 0x11, 0x22], 0x11),
            DataType::CUDNN_DATA_UINT4 => (4, 1, &[0, 0x11, 0x22], 0x11),
            DataType::CUDNN_DATA_INT8 => (8, 1, &[0xfe, 0xff, 0, 1, 2], 1),
            DataType::CUDNN_DATA_UINT8 => (8, 1, &[0, 1, 2], 1),
            DataType::CUDNN_DATA_BOOLEAN | DataType::CUDNN_DATA_BYTE_BOOLEAN => (8, 1, &[0, 1], 1),
            // Offsets and indices other than 0 could point outside a tensor.
            DataType::CUDNN_DATA_INT32 | DataType::CUDNN_DATA_UINT32 => (32, 4, &[0], 1),
            DataType::CUDNN_DATA_INT64 => (64, 8, &[0], 1),
            _ => return None,
        };
        Some(Format { bits, element_bytes, numbers, one })
    }
}

#[cfg(test)]
mod tests {
    use cudnn_store::captures::Capture;

    use super::*;
    use crate::attention_inputs::tests::ATTENTION;

    const LINES: [&str; 4] = [
        r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#,
        r#"{"record":"graph","graph":"x","label":"","nodes":[{"kind":"TENSOR","TENSOR_DATA_TYPE:1":2,"TENSOR_DIMENSIONS:3":[4,8],"TENSOR_STRIDES:3":[16,1],"TENSOR_UNIQUE_ID:3":1},{"kind":"TENSOR","TENSOR_DATA_TYPE:1":0,"TENSOR_DIMENSIONS:3":[1],"TENSOR_STRIDES:3":[1],"TENSOR_UNIQUE_ID:3":2,"TENSOR_IS_BY_VALUE:2":1},{"kind":"TENSOR","TENSOR_DATA_TYPE:1":0,"TENSOR_DIMENSIONS:3":[2],"TENSOR_STRIDES:3":[1],"TENSOR_UNIQUE_ID:3":3},{"kind":"OPERATIONGRAPH"}]}"#,
        r#"{"record":"plan","plan":0,"graph":"x","status":"SUCCESS","build_us":1}"#,
        r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[{"uid":1,"memory":{"buffer":7,"offset":0,"alignment":16}},{"uid":9,"memory":{"buffer":7,"offset":16,"span":200,"alignment":32}},{"uid":2,"memory":{"buffer":8,"offset":0,"alignment":4,"is_host":true},"value":"0000803e"},{"uid":4}]}"#,
    ];

    #[test]
    fn tensors_overlap_as_in_the_captured_program() {
        let capture = Capture::parse((LINES.join("\n") + "\n").as_bytes()).unwrap();
        let case = Case::select(&capture, "").unwrap();
        let memory = ProgramMemory::new(&case).unwrap();
        let buffer = |bytes, misalignment| EmittedBuffer { bytes, misalignment };
        assert_eq!(memory.buffers, [buffer(216, 16), buffer(8, 0)]);
        let of = |tensor: &EmittedTensor<'_>| (tensor.uid, tensor.buffer, tensor.bytes, tensor.value.to_vec());
        let expected = [
            (1, Some((0, 0)), 112, Vec::new()),
            (9, Some((0, 16)), 200, Vec::new()),
            (2, None, 4, vec![0, 0, 0x80, 0x3e]),
            (4, None, 0, Vec::new()),
            (3, Some((1, 0)), 8, Vec::new()),
        ];
        assert_eq!(memory.tensors.iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn placeholders_in_a_cuda_graph_do_not_make_tensors_overlap() {
        let lines = LINES.join("\n").replace(r#""SUCCESS","tensors""#, r#""SUCCESS","in_cuda_graph":true,"tensors""#);
        let lines = lines.replace(r#""offset":16"#, r#""offset":0"#) + "\n";
        let capture = Capture::parse(lines.as_bytes()).unwrap();
        let case = Case::select(&capture, "").unwrap();
        let memory = ProgramMemory::new(&case).unwrap();
        let buffers: Vec<_> = memory.tensors.iter().map(|tensor| (tensor.uid, tensor.buffer)).collect();
        assert_eq!(buffers, [(2, None), (4, None), (1, Some((0, 0))), (3, Some((1, 0)))]);
    }

    #[test]
    fn sequences_of_attentions_are_neither_empty_nor_in_the_same_memory() {
        let start = LINES[0];
        let graph = format!(r#"{{"record":"graph","graph":"x","label":"","nodes":{ATTENTION}}}"#);
        let capture = Capture::parse(format!("{start}\n{graph}\n").as_bytes()).unwrap();
        let case = Case::select(&capture, "").unwrap();
        let memory = ProgramMemory::new(&case).unwrap();
        let tensor = |uid| memory.tensors.iter().find(|tensor| tensor.uid == uid).unwrap();
        assert_eq!((&tensor(2).numbers[..], tensor(2).value.len()), (&[96][..], 0));
        assert_eq!(*tensor(3).value, [0_u32, 24576, 49152].map(u32::to_le_bytes).concat());
        assert_eq!(*tensor(4).value, [0_u32, 96, 192].map(u32::to_le_bytes).concat());
    }

    #[test]
    fn a_short_capture_does_not_describe_endless_numbers() {
        let tensors = (0..20).map(|index| {
            let (offsets, uid, ragged) = (2 * index, 2 * index + 1, 2 * index + 2);
            format!(
                r#"{{"kind":"TENSOR","DATA_TYPE:1":4,"DIMENSIONS:3":[16384],"STRIDES:3":[1],"UNIQUE_ID:3":{uid}}},{{"kind":"TENSOR","DATA_TYPE:1":2,"DIMENSIONS:3":[16383,1],"STRIDES:3":[64,1],"UNIQUE_ID:3":{ragged},"RAGGED_OFFSET_DESC:15":{offsets}}},"#
            )
        });
        let nodes = format!(r#"[{}{{"kind":"OPERATIONGRAPH"}}]"#, tensors.collect::<String>());
        let graph = format!(r#"{{"record":"graph","graph":"x","label":"","nodes":{nodes}}}"#);
        let capture = Capture::parse(format!("{}\n{graph}\n", LINES[0]).as_bytes()).unwrap();
        let case = Case::select(&capture, "").unwrap();
        let memory = ProgramMemory::new(&case).unwrap();
        let numbers = memory.tensors.iter().map(|tensor| tensor.value.len() as u64).sum::<u64>();
        assert_eq!((memory.tensors.len(), numbers), (40, MAX_NUMBERS));
    }
}
