//! Writes the calls of a program, and tracks the descriptors that it has created.

use cudnn_sys::{
    cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type, cudnnBackendDescriptorType_t as Kind,
};

use crate::program::{Argument, Element, Step};

const SLOTS: usize = 256;

pub(super) struct Elements {
    pub(super) types: &'static [Type],
    pub(super) most: u32,
}

pub(super) static ATTRIBUTES: &[(Name, Elements)] = &include!("../../../lab/cudnn-graph/src/generated/attributes.rs");

pub(super) struct Writer {
    pub(super) random: fastrand::Rng,
    pub(super) steps: Vec<Step>,
    /// The kinds of the backend descriptors, by slot.
    pub(super) kinds: Vec<(usize, Kind)>,
    next_slot: usize,
    next_uid: i64,
}

impl Writer {
    pub(super) fn new(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Writer { random, steps: Vec::new(), kinds: Vec::new(), next_slot: 0, next_uid: 1 }
    }

    /// Returns `true` once in this many calls on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.random.usize(..times) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.usize(..from.len())]
    }

    pub(super) fn pick_argument(&mut self, from: &[Argument]) -> Argument {
        from[self.random.usize(..from.len())].clone()
    }

    pub(super) fn slot(&mut self) -> usize {
        self.next_slot += 1;
        (self.next_slot - 1) % SLOTS
    }

    pub(super) fn uid(&mut self) -> i64 {
        self.next_uid += 1;
        self.next_uid - 1
    }

    pub(super) fn call(&mut self, function: &'static str, arguments: Vec<Argument>) {
        self.steps.push(Step::Call(function, arguments));
    }

    pub(super) fn create(&mut self, kind: Kind) -> usize {
        let slot = self.slot();
        self.kinds.push((slot, kind));
        self.call("cudnnBackendCreateDescriptor", vec![Argument::Number(kind.0.into()), Argument::Into(slot)]);
        slot
    }

    pub(super) fn destroy(&mut self, slot: usize) {
        self.call("cudnnBackendDestroyDescriptor", vec![Argument::Slot(slot)]);
    }

    pub(super) fn finalize(&mut self, slot: usize) {
        self.call("cudnnBackendFinalize", vec![Argument::Slot(slot)]);
    }

    /// Sets an attribute to these elements, which may be followed by others.
    pub(super) fn set_some(&mut self, slot: usize, name: Name, ty: Type, count: i64, elements: Vec<Element>) {
        let numbers = [i64::from(name.0), i64::from(ty.0), count].map(Argument::Number);
        let arguments = [Argument::Slot(slot)].into_iter().chain(numbers).chain([Argument::Memory(elements)]);
        self.call("cudnnBackendSetAttribute", arguments.collect());
    }

    pub(super) fn set(&mut self, slot: usize, name: Name, ty: Type, elements: Vec<Element>) {
        self.set_some(slot, name, ty, elements.len() as i64, elements);
    }

    pub(super) fn set_descriptors(&mut self, slot: usize, name: Name, of: &[usize]) {
        let elements = of.iter().copied().map(Element::Slot).collect();
        self.set(slot, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, elements);
    }

    pub(super) fn set_longs(&mut self, slot: usize, name: Name, values: &[i64]) {
        let elements = values.iter().copied().map(Element::Long).collect();
        self.set(slot, name, Type::CUDNN_TYPE_INT64, elements);
    }

    pub(super) fn set_int(&mut self, slot: usize, name: Name, ty: Type, value: u32) {
        self.set(slot, name, ty, vec![Element::Int(value.into())]);
    }

    pub(super) fn get(&mut self, slot: usize, name: Name, ty: Type, room: i64, to: Argument) {
        let numbers = [i64::from(name.0), i64::from(ty.0), room].map(Argument::Number);
        let count = if self.once_in(20) { Argument::Null } else { Argument::Memory(vec![Element::Long(-1)]) };
        let arguments = [Argument::Slot(slot)].into_iter().chain(numbers).chain([count, to]);
        self.call("cudnnBackendGetAttribute", arguments.collect());
    }

    pub(super) fn last_error(&mut self) {
        let room = self.pick(&[399, 399, 399, 20, 1]);
        let memory = Argument::Memory(vec![Element::Zeros(room as usize)]);
        self.call("cudnnGetLastErrorString", vec![memory, Argument::Number(room)]);
    }

    /// Returns an element of an attribute, which is often valid. A fraction has two numbers.
    pub(super) fn values(&mut self, name: Name, ty: Type) -> Vec<Element> {
        vec![match ty {
            Type::CUDNN_TYPE_BACKEND_DESCRIPTOR => {
                let kind = kind_of_element(name);
                let fits = |of: Kind| kind.map_or_else(|| is_operation(of), |kind| kind == of);
                let slots: Vec<usize> = self.kinds.iter().filter(|(_, of)| fits(*of)).map(|(slot, _)| *slot).collect();
                if slots.is_empty() { Element::Long(0) } else { Element::Slot(self.pick(&slots)) }
            }
            Type::CUDNN_TYPE_INT64 => Element::Long(self.pick(&[0, 1, 1, 2, 3, 4, 8, 16, 64, -1, 1 << 40])),
            Type::CUDNN_TYPE_FLOAT => Element::Float(self.pick(&[0.0, 1.0, 0.5, -2.0])),
            Type::CUDNN_TYPE_DOUBLE => Element::Double(self.pick(&[0.0, 1.0, 0.5, -2.0])),
            Type::CUDNN_TYPE_HANDLE | Type::CUDNN_TYPE_VOID_PTR => Element::Long(self.pick(&[0, 0, 4096])),
            Type::CUDNN_TYPE_FRACTION => return vec![Element::Long(1), Element::Long(self.pick(&[0, 1, 2]))],
            Type::CUDNN_TYPE_BOOLEAN | Type::CUDNN_TYPE_CHAR => Element::Byte(self.pick(&[0, 1, 65])),
            _ => Element::Int(self.pick(&[0, 0, 1, 1, 2, 3, 4, 7, 9, 100, -1])),
        }]
    }

    pub(super) fn slot_like(&mut self, slot: usize) -> usize {
        let kind = self.kinds.iter().find(|(of, _)| *of == slot).map(|(_, kind)| *kind);
        let alike: Vec<usize> = self.kinds.iter().filter(|(_, of)| Some(*of) == kind).map(|(slot, _)| *slot).collect();
        if alike.is_empty() { slot } else { self.pick(&alike) }
    }

    pub(super) fn any_slot(&mut self) -> usize {
        if self.kinds.is_empty() { 0 } else { self.kinds[self.random.usize(..self.kinds.len())].0 }
    }
}

pub(super) fn is_operation(kind: Kind) -> bool {
    c_name(kind.name(), "CUDNN_BACKEND_").starts_with("OPERATION_")
}

/// Returns the kind of the descriptors that an attribute refers to, or `None` for operations. cuDNN mistakes such an
/// object for a different one.
pub(super) fn kind_of_element(name: Name) -> Option<Kind> {
    let kinds = [
        ("ENGINEHEUR_RESULTS", Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
        ("ENGINE_CONFIG", Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
        ("CFG_ENGINE", Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR),
        ("KNOB_CHOICES", Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
        ("KNOB_INFO", Kind::CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR),
        ("INTERMEDIATE_INFO", Kind::CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR),
        ("LAYOUT_INFO", Kind::CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR),
        ("OPERATION_GRAPH", Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
        ("SUBGRAPH", Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR),
        ("DEVICEPROP", Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR),
        ("KERNEL_CACHE", Kind::CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR),
        ("CONV_DESC", Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR),
        ("PW_DESCRIPTOR", Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR),
        ("OPERATION_MATMUL_DESC", Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR),
        ("OPERATION_REDUCTION_DESC", Kind::CUDNN_BACKEND_REDUCTION_DESCRIPTOR),
        ("RESAMPLE_FWD_DESC", Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR),
        ("RESAMPLE_BWD_DESC", Kind::CUDNN_BACKEND_RESAMPLE_DESCRIPTOR),
        ("OPERATION_RNG_DESC", Kind::CUDNN_BACKEND_RNG_DESCRIPTOR),
        ("SOFTMAX_DESC", Kind::CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR),
    ];
    let attribute = c_name(name.name(), "CUDNN_ATTR_");
    if attribute == "OPERATIONGRAPH_OPS" {
        return None;
    }
    let kind = kinds.into_iter().find(|(ending, _)| attribute.ends_with(ending)).map(|(_, kind)| kind);
    Some(kind.unwrap_or(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR))
}

pub(super) fn attributes_of(kind: Kind) -> Vec<&'static (Name, Elements)> {
    let kind_name = c_name(kind.name(), "CUDNN_BACKEND_").trim_end_matches("_DESCRIPTOR");
    // Names of attributes abbreviate some kinds.
    let prefix = match kind_name {
        "OPERATION_CONVOLUTION_BACKWARD_DATA" => "OPERATION_CONVOLUTION_BWD_DATA",
        "OPERATION_CONVOLUTION_BACKWARD_FILTER" => "OPERATION_CONVOLUTION_BWD_FILTER",
        "OPERATION_GEN_STATS" => "OPERATION_GENSTATS",
        "OPERATION_BN_FINALIZE_STATISTICS" => "OPERATION_BN_FINALIZE",
        "OPERATION_NORM_FORWARD" => "OPERATION_NORM_FWD",
        "OPERATION_NORM_BACKWARD" => "OPERATION_NORM_BWD",
        other => other,
    };
    let belongs_to_kind = |name: Name| {
        let attribute = c_name(name.name(), "CUDNN_ATTR_");
        attribute.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('_'))
    };
    ATTRIBUTES.iter().filter(|(name, _)| belongs_to_kind(*name)).collect()
}

fn c_name(name: Option<&'static std::ffi::CStr>, prefix: &str) -> &'static str {
    let name = name.and_then(|name| name.to_str().ok()).unwrap_or_default();
    name.strip_prefix(prefix).unwrap_or(name)
}
