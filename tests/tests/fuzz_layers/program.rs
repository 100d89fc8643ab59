//! Represents programs of cuDNN calls and their text, which `clients/calls.cpp` explains and runs.

use std::fmt::{Display, Formatter, Result};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Element {
    Byte(i64),
    Int(i64),
    Long(i64),
    Float(f32),
    Double(f64),
    Slot(usize),
    Zeros(usize),
    Device,
    /// The result that a call has written to [`Argument::Kept`].
    Kept,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Argument {
    Number(i64),
    Real(f64),
    Null,
    /// An unmapped address.
    Low,
    Slot(usize),
    /// Memory for the address of a slot.
    Into(usize),
    /// Memory that ends at the end of a page. Without elements, it is unmapped.
    Memory(Vec<Element>),
    Kept(Vec<Element>),
    /// A log callback, or its argument.
    Callback(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Call(&'static str, Vec<Argument>),
    /// Starts or stops a process or a thread.
    Control(&'static str),
}

impl Display for Element {
    fn fmt(&self, to: &mut Formatter) -> Result {
        match self {
            Element::Byte(value) => write!(to, "1:{value}"),
            Element::Int(value) => write!(to, "4:{value}"),
            Element::Long(value) => write!(to, "8:{value}"),
            Element::Float(value) => write!(to, "f:{value}"),
            Element::Double(value) => write!(to, "g:{value}"),
            Element::Slot(slot) => write!(to, "h{slot}"),
            Element::Zeros(count) => write!(to, "z:{count}"),
            Element::Device => write!(to, "device"),
            Element::Kept => write!(to, "kept"),
        }
    }
}

fn write_elements(elements: &[Element], to: &mut Formatter) -> Result {
    write!(to, "@")?;
    elements
        .iter()
        .enumerate()
        .try_for_each(|(index, element)| write!(to, "{}{element}", if index == 0 { "" } else { "," }))
}

impl Display for Argument {
    fn fmt(&self, to: &mut Formatter) -> Result {
        match self {
            Argument::Number(value) => write!(to, "{value}"),
            Argument::Real(value) => write!(to, "{value}"),
            Argument::Null => write!(to, "null"),
            Argument::Low => write!(to, "low"),
            Argument::Slot(slot) => write!(to, "h{slot}"),
            Argument::Into(slot) => write!(to, ">h{slot}"),
            Argument::Memory(elements) => write_elements(elements, to),
            Argument::Kept(elements) => {
                write!(to, "keep")?;
                write_elements(elements, to)
            }
            Argument::Callback(name) => write!(to, "{name}"),
        }
    }
}

impl Display for Step {
    fn fmt(&self, to: &mut Formatter) -> Result {
        match self {
            Step::Control(word) => write!(to, "{word}"),
            Step::Call(function, arguments) => {
                write!(to, "{function}")?;
                arguments.iter().try_for_each(|argument| write!(to, " {argument}"))
            }
        }
    }
}

/// Returns the text of a program. `how` is `here` or `forked`.
pub(super) fn text(name: &str, how: &str, steps: &[Step]) -> String {
    let steps: String = steps.iter().map(|step| format!("{step}\n")).collect();
    format!("program {name} {how}\n{steps}")
}
