//! The syntax of C++17.

use cudnn_loader::{cudnnBackendAttributeName_t as Name, cudnnBackendDescriptorType_t as Kind};

use super::case::Case;
use super::constants::{self, Constant};
use super::elements::ElementType;
use super::escape::{byte_string, octal};
use super::syntax::Syntax;

pub(super) struct Cpp;

impl Syntax for Cpp {
    const TEMPLATE: &'static str = include_str!("templates/program.cpp");
    const COMMENT: &'static str = "//";
    const HOW_TO_RUN: &'static [&'static str] = &[
        "g++ -std=c++17 program.cpp -I CUDNN/include -I CUDA/include -L CUDNN/lib -l:libcudnn.so.9 -ldl -o program",
        "LD_LIBRARY_PATH=CUDNN/lib ./program",
    ];
    const STATEMENT: [&'static str; 2] = ["auto ", ";"];
    const FINALIZE: &'static str = "FINALIZE";
    const SET_HANDLE: &'static str = "SET_HANDLE";
    const UNSIGNED: &'static str = "u";
    const BOOLEANS: [&'static str; 2] = ["false", "true"];
    const LIST: [&'static str; 2] = ["{", "}"];
    const TUPLE: [&'static str; 2] = ["{", "}"];

    fn type_name(ty: ElementType) -> &'static str {
        match ty {
            ElementType::U8 => "unsigned char",
            ElementType::I32 => "int32_t",
            ElementType::I64 => "int64_t",
            ElementType::F32 => "float",
            ElementType::F64 => "double",
            ElementType::Descriptor => "cudnnBackendDescriptor_t",
        }
    }

    fn set_elements(attribute: &str, ty: &str, elements: &str) -> String {
        format!("SET({ty}, {attribute}, {elements})")
    }

    fn set_bytes(attribute: &str, bytes: &[u8]) -> String {
        format!("SET_BYTES({attribute}, {})", Self::bytes(bytes))
    }

    fn constant(Constant { ty, name, value }: &Constant) -> String {
        name.map_or_else(|| format!("static_cast<{ty}>({value})"), str::to_owned)
    }

    /// The smallest integers have no literals.
    fn integer(value: i64) -> String {
        if value == i64::MIN { "INT64_MIN".to_owned() } else { value.to_string() }
    }

    fn float(ty: ElementType, value: f64) -> String {
        if ty == ElementType::F32 { format!("{:?}f", value as f32) } else { format!("{value:?}") }
    }

    fn bytes(bytes: &[u8]) -> String {
        byte_string(bytes, octal)
    }

    fn contents(bytes: &[u8]) -> String {
        if bytes.is_empty() { "{}".to_owned() } else { format!("{{{}, {}u}}", Self::bytes(bytes), bytes.len()) }
    }

    /// Headers before 9.8 lack these names.
    fn constants(_: &Case) -> Vec<String> {
        let attributes = [
            Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
            Name::CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
            Name::CUDNN_ATTR_ENGINE_DEVICEPROP,
            Name::CUDNN_ATTR_DEVICEPROP_HANDLE,
            Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
        ];
        let kind = constants::kind(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        let all = std::iter::once(kind).chain(attributes.map(constants::attribute));
        let definition =
            |Constant { ty, name, value }| Some(format!("static const auto {} = static_cast<{ty}>({value});", name?));
        all.filter_map(definition).collect()
    }
}
