//! The rules, with the codes and names that messages and the guide use.

/// A rule for a mistake.
#[derive(Debug)]
#[non_exhaustive]
pub struct ValidationRule {
    /// The code, such as `V07`. It never changes its meaning.
    pub code: &'static str,
    /// A short name, such as `wrong-output-shape`.
    pub name: &'static str,
    /// The mistake, in one sentence without a full stop.
    pub mistake: &'static str,
    /// The first release of cuDNN to which the rule does not apply, as `cudnnGetVersion` returns it.
    pub before: Option<u32>,
}

impl ValidationRule {
    /// Returns whether the rule applies to a release of cuDNN.
    pub fn includes_release(&self, version: u32) -> bool {
        self.before.is_none_or(|before| version < before)
    }

    /// Returns the releases as text: `all`, or for example `before 9.29`.
    pub fn releases(&self) -> String {
        match self.before {
            None => "all".to_owned(),
            Some(before) => format!("before {}.{}", before / 10_000, before / 100 % 100),
        }
    }
}

/// The release after the newest one that the project knows, because later releases may allow more.
const UNKNOWN: Option<u32> = Some(92_900);
const ALL: Option<u32> = None;

macro_rules! rules {
    ($($constant:ident: $code:literal $name:literal $mistake:literal before $before:ident,)*) => {
        $(
            pub(super) static $constant: ValidationRule =
                ValidationRule { code: $code, name: $name, mistake: $mistake, before: $before };
        )*

        /// All rules, in the order of their codes.
        pub static RULES: &[&ValidationRule] = &[$(&$constant,)*];
    };
}
rules! {
    DUPLICATE_ID: "V01" "duplicate-id" "two different tensors of a graph share an id" before ALL,
    DISCONNECTED: "V02" "disconnected-operation" "an operation shares no tensor with the rest of the graph" before ALL,
    UNPRODUCED: "V03" "unproduced-tensor" "an operation reads a virtual tensor that no operation writes" before ALL,
    NO_OUTPUT: "V04" "no-output" "all outputs of a graph are virtual" before ALL,
    TWO_PRODUCERS: "V05" "two-producers" "two operations write the same tensor" before ALL,
    CYCLE: "V06" "cycle" "an operation depends on its own output" before ALL,
    WRONG_SHAPE: "V07" "wrong-output-shape" "the shape of an output does not follow from the inputs" before ALL,
    BROADCAST: "V08" "impossible-broadcast" "the operands of a pointwise operation have incompatible shapes" before ALL,
    OVERLAP: "V09" "overlapping-output" "the strides of an output give two elements the same address" before ALL,
    ZERO_DIMENSION: "V10" "zero-dimension" "a dimension of a tensor is 0" before ALL,
    MISSING_DESCRIPTOR: "V11" "missing-descriptor" "a required descriptor is missing" before ALL,
    MISSING_ATTRIBUTE: "V12" "missing-attribute" "a required attribute is missing" before ALL,
    WRONG_KIND: "V13" "wrong-descriptor-kind" "an attribute is set to another kind of descriptor" before ALL,
    EXTRA_OPERAND: "V14" "extra-operand" "a pointwise function of one operand was given operand B" before ALL,
    MISSING_OPERAND: "V15" "missing-operand" "a pointwise function of two operands lacks operand B" before ALL,
    VALUE_AND_VIRTUAL: "V16" "by-value-and-virtual" "a tensor is both by value and virtual" before ALL,
    UNKNOWN_TYPE: "V17" "unknown-data-type" "the data type of a tensor is unknown" before UNKNOWN,
    VECTOR: "V18" "vector-without-dimension" "a vector count is set without a vectorized dimension" before ALL,
    CLIP: "V19" "clip-bounds" "the lower clip of a ReLU is above the upper clip" before ALL,
    STRIDED_MATMUL: "V20" "strided-matmul" "all strides of the tensors of a matmul are above 1" before UNKNOWN,
    MIXED_MATMUL: "V21" "mixed-matmul" "a matmul multiplies half by bfloat16" before UNKNOWN,
    NOT_FINALIZED: "V22" "not-finalized" "an operation was given an unfinalized descriptor" before ALL,
    WRONG_ATTRIBUTE: "V23" "wrong-attribute" "an attribute belongs to another kind of descriptor" before ALL,
    SET_AFTER_FINALIZE: "V24" "set-after-finalize" "an attribute is set after the descriptor was finalized" before ALL,
    NEGATIVE_PADDING: "V25" "negative-padding" "the padding of a convolution is negative" before ALL,
    NEGATIVE_ENGINE: "V26" "negative-engine" "the index of an engine is negative" before ALL,
    RANKS: "V27" "different-ranks" "the tensors of a matmul differ in rank" before ALL,
    UNKNOWN_KIND: "V28" "unknown-kind" "the kind of a new descriptor is unknown" before ALL,
    DESTROYED: "V29" "use-after-destroy" "a call uses a descriptor that was destroyed" before ALL,
    MISALIGNED: "V30" "misaligned-pointer" "a data pointer is less aligned than the tensor requires" before ALL,
    MISSING_ENTRY: "V31" "missing-entry" "a variant pack lacks a tensor of the graph" before ALL,
    NULL_POINTER: "V32" "null-pointer" "a data pointer is null" before ALL,
    DUPLICATE_ENTRY: "V33" "duplicate-entry" "a variant pack contains an id twice" before ALL,
    UNKNOWN_ENTRY: "V34" "unknown-entry" "the variant pack of a failed execution contains an unknown id" before ALL,
    EMPTY_PACK: "V35" "empty-pack" "a variant pack is empty" before ALL,
    FLOAT_ATTENTION: "V36" "float-attention" "an attention reads 32-bit floats" before UNKNOWN,
}
