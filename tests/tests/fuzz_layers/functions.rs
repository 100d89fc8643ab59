//! Calls any function of the table with arguments that fit its types.

use std::collections::HashMap;

use crate::program::{Argument, Element};
use crate::writer::Writer;

/// A function with the Rust types of its arguments.
pub(super) struct Function {
    pub(super) name: &'static str,
    library: &'static str,
    arguments: &'static [&'static str],
}

macro_rules! functions {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        pub(super) static FUNCTIONS: &[Function] = &[$($(Function {
            name: stringify!($name),
            library: stringify!($library),
            arguments: &[$(stringify!($type)),*],
        },)*)*];
    };
}
cudnn_sys::for_each_function!(functions);

/// The slots of descriptors outside the backend API, by type.
#[derive(Default)]
pub(super) struct Objects(HashMap<String, Vec<usize>>);

/// Calls functions outside the backend API that create, set and read descriptors.
pub(super) fn write(writer: &mut Writer) {
    let mut objects = Objects::default();
    let is_of = |function: &&Function, prefixes: &[&str]| {
        prefixes.iter().any(|prefix| function.name.starts_with(prefix)) && !function.name.contains("Backend")
    };
    let own: Vec<&Function> = FUNCTIONS.iter().filter(|function| function.library != "ext").collect();
    let creating: Vec<&Function> = own.iter().copied().filter(|function| is_of(function, &["cudnnCreate"])).collect();
    let setting: Vec<&Function> =
        own.iter().copied().filter(|function| is_of(function, &["cudnnSet", "cudnnGet", "cudnnDestroy"])).collect();
    for _ in 0..writer.random.usize(1..5) {
        let function = writer.pick(&creating);
        call(writer, function, &mut objects);
    }
    for _ in 0..writer.random.usize(1..25) {
        let candidates = if writer.once_in(8) { &own } else { &setting };
        // Prefer functions for the program's descriptors.
        let mut function = writer.pick(candidates);
        for _ in 0..20 {
            let fits = |ty: &&str| objects.0.contains_key(plain(ty));
            if function.arguments.iter().any(fits) {
                break;
            }
            function = writer.pick(candidates);
        }
        let is_dangerous = !is_of(&function, &["cudnnSet", "cudnnGet"]);
        if is_dangerous {
            writer.steps.push(crate::program::Step::Control("fork"));
        }
        call(writer, function, &mut objects);
        if is_dangerous {
            writer.steps.push(crate::program::Step::Control("join"));
        }
        if writer.once_in(6) {
            writer.last_error();
        }
    }
}

fn call(writer: &mut Writer, function: &'static Function, objects: &mut Objects) {
    let arguments = function.arguments.iter().map(|ty| argument(writer, ty, objects)).collect();
    writer.call(function.name, arguments);
}

fn plain(ty: &str) -> &str {
    ty.rsplit([':', ' ']).next().unwrap_or(ty)
}

fn argument(writer: &mut Writer, ty: &str, objects: &mut Objects) -> Argument {
    let name = plain(ty).to_owned();
    let is_const = ty.contains("*const");
    if !is_const && !ty.contains("*mut") {
        return by_value(writer, &name, objects);
    }
    if writer.once_in(15) {
        return if writer.once_in(3) { Argument::Low } else { Argument::Null };
    }
    let is_object = name.ends_with("Descriptor_t") || name.ends_with("Pack_t") || name.ends_with("Plan_t");
    if is_object && !is_const {
        let slot = writer.slot();
        objects.0.entry(name).or_default().push(slot);
        return Argument::Into(slot);
    }
    let count = writer.random.usize(1..9);
    Argument::Memory(match name.as_str() {
        _ if !is_const => vec![Element::Zeros(writer.pick(&[4, 8, 8, 16, 32, 64]))],
        "c_void" => vec![Element::Float(1.0), Element::Float(0.0)],
        "i64" => (0..count).map(|_| Element::Long(small(writer))).collect(),
        "c_char" => vec![Element::Zeros(399)],
        _ if name.starts_with("c_") || name == "i32" || name.ends_with("Axis_t") => {
            (0..count).map(|_| Element::Int(small(writer))).collect()
        }
        _ => vec![Element::Zeros(256)],
    })
}

fn by_value(writer: &mut Writer, name: &str, objects: &Objects) -> Argument {
    match name {
        "f32" | "f64" => Argument::Real(writer.pick(&[0.0, 1.0, 0.5, 1e-5])),
        "cudnnHandle_t" | "cudaStream_t" | "cudaGraph_t" => Argument::Null,
        "cudnnCallback_t" => Argument::Callback(writer.pick(&["callback", "null"])),
        "usize" => Argument::Number(writer.pick(&[0, 1, 4, 8, 64, 399])),
        _ => match objects.0.get(name) {
            Some(slots) => Argument::Slot(writer.pick(slots)),
            None if name.ends_with("Descriptor_t") || name.ends_with("Pack_t") || name.ends_with("Plan_t") => {
                Argument::Null
            }
            None => Argument::Number(small(writer)),
        },
    }
}

fn small(writer: &mut Writer) -> i64 {
    writer.pick(&[0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 8, 8, 32, -1, 1 << 30])
}
