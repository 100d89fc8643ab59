//! Changes programs so that their calls are often wrong, and distributes them among processes and threads.

use cudnn_sys::{cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type};

use crate::program::{Argument, Element, Step};
use crate::writer::Writer;

pub(super) fn mutate(writer: &mut Writer) {
    if writer.once_in(4) {
        return;
    }
    for _ in 0..writer.random.usize(1..7) {
        let len = writer.steps.len();
        if len == 0 {
            return;
        }
        let index = writer.random.usize(..len);
        match writer.random.u8(..12) {
            0 => drop(writer.steps.remove(index)),
            1 => {
                let step = writer.steps[index].clone();
                let to = writer.random.usize(index..len);
                writer.steps.insert(to, step);
            }
            2 => writer.steps.swap(index, (index + 1) % len),
            3 => {
                let slot = Argument::Slot(writer.any_slot());
                writer.steps.insert(index, Step::Call("cudnnBackendDestroyDescriptor", vec![slot]));
            }
            4 => {
                let function = writer.pick(&["cudnnBackendFinalize", "cudnnBackendInitialize"]);
                let slot = Argument::Slot(writer.any_slot());
                writer.steps.insert(index, Step::Call(function, vec![slot]));
            }
            5 => {
                let step = any_access(writer);
                writer.steps.insert(index, step);
            }
            _ => {
                let mut step = writer.steps[index].clone();
                if let Step::Call(function, arguments) = &mut step {
                    change_argument(writer, function, arguments);
                }
                writer.steps[index] = step;
            }
        }
        if writer.steps.is_empty() {
            return;
        }
    }
}

fn any_access(writer: &mut Writer) -> Step {
    let slot = writer.any_slot();
    let (name, ty) = (writer.pick(Name::ENUMERATORS).0, writer.pick(Type::ENUMERATORS).0);
    let count = writer.pick(&[0, 1, 1, 2, 8, -1, 1 << 20, i64::MAX]);
    let elements = (0..writer.random.usize(..3)).flat_map(|_| writer.values(name, ty)).collect();
    let numbers = [i64::from(name.0), i64::from(ty.0), count].map(Argument::Number);
    let mut arguments: Vec<Argument> = [Argument::Slot(slot)].into_iter().chain(numbers).collect();
    let is_get = writer.once_in(2);
    if is_get {
        arguments.push(Argument::Memory(vec![Element::Long(-1)]));
    }
    arguments.push(Argument::Memory(elements));
    Step::Call(if is_get { "cudnnBackendGetAttribute" } else { "cudnnBackendSetAttribute" }, arguments)
}

fn change_argument(writer: &mut Writer, function: &str, arguments: &mut [Argument]) {
    if arguments.is_empty() {
        return;
    }
    let index = writer.random.usize(..arguments.len());
    let is_type = function.ends_with("Attribute") && index == 2;
    let is_name = function.ends_with("Attribute") && index == 1;
    let changed = match &mut arguments[index] {
        Argument::Number(_) if is_type => Argument::Number(writer.pick(Type::ENUMERATORS).0.0.into()),
        Argument::Number(_) if is_name => Argument::Number(writer.pick(Name::ENUMERATORS).0.0.into()),
        // With a descriptor of a different kind as an element, cuDNN reads memory behind it.
        Argument::Number(_) if function == "cudnnBackendCreateDescriptor" => {
            Argument::Number(writer.pick(&[-1, 1000, 1 << 20, 1 << 31]))
        }
        Argument::Number(value) => {
            let numbers =
                [value.wrapping_add(1), value.wrapping_sub(1), 0, 1, -1, 8, 1000, 1 << 20, 1 << 31, i64::MAX, i64::MIN];
            Argument::Number(writer.pick(&numbers))
        }
        Argument::Slot(_) if writer.once_in(6) => writer.pick_argument(&[Argument::Null, Argument::Low]),
        Argument::Slot(_) => Argument::Slot(writer.any_slot()),
        Argument::Memory(elements) if !writer.once_in(3) => {
            let mut elements = elements.clone();
            change_elements(writer, &mut elements);
            Argument::Memory(elements)
        }
        _ => writer.pick_argument(&[Argument::Null, Argument::Low, Argument::Memory(Vec::new())]),
    };
    arguments[index] = changed;
}

fn change_elements(writer: &mut Writer, elements: &mut Vec<Element>) {
    let index = writer.random.usize(..elements.len().max(1));
    match writer.random.u8(..4) {
        0 => drop(elements.pop()),
        1 => {
            let again = elements.last().cloned().unwrap_or(Element::Long(1));
            elements.push(again);
        }
        _ if index < elements.len() => {
            elements[index] = match &elements[index] {
                Element::Byte(value) => Element::Byte(value ^ 1),
                Element::Int(value) => Element::Int(writer.pick(&[value + 1, value - 1, 0, 1 << 30])),
                Element::Long(value) => Element::Long(writer.pick(&[value + 1, value - 1, 0, -1, 1 << 40])),
                Element::Float(_) => Element::Float(writer.pick(&[0.0, -1.0, f32::NAN, f32::INFINITY])),
                Element::Slot(_) if writer.once_in(3) => Element::Long(writer.pick(&[0, 8])),
                Element::Slot(slot) => Element::Slot(writer.slot_like(*slot)),
                other => other.clone(),
            }
        }
        _ => {}
    }
}

/// Reads the last error after each call of a function that the release may not have. Otherwise, in a forked child, the
/// loader's text hides the text of a later failure of cuDNN, unless a layer has read it.
pub(super) fn read_errors(writer: &mut Writer) {
    for step in std::mem::take(&mut writer.steps) {
        let is_backend = matches!(&step, Step::Control(_)) || step.to_string().starts_with("cudnnBackend");
        writer.steps.push(step);
        if !is_backend {
            writer.last_error();
        }
    }
}

/// Adds processes, threads, log callbacks, and the end of the process.
pub(super) fn divide(writer: &mut Writer) {
    if writer.once_in(4) {
        let mask = Argument::Number(writer.pick(&[2, 4, 6, 8, 14]));
        let data = Argument::Callback(writer.pick(&["throws", "throws", "null"]));
        let callback = Step::Call("cudnnSetCallback", vec![mask, data, Argument::Callback("callback")]);
        let index = writer.random.usize(..=writer.steps.len());
        writer.steps.insert(index, callback);
        if writer.once_in(2) {
            let off = Step::Call("cudnnSetCallback", vec![Argument::Number(0), Argument::Null, Argument::Null]);
            let index = writer.random.usize(index..=writer.steps.len());
            writer.steps.insert(index, off);
        }
    }
    if writer.once_in(5) {
        let how = writer.pick(&["fork", "fork", "raw-fork"]);
        let end = writer.pick::<&[&str]>(&[&[], &["exit"], &["_exit"]]);
        let first = writer.random.usize(..=writer.steps.len());
        let last = writer.random.usize(first..=writer.steps.len().min(first + 20));
        // Processes and threads do not overlap.
        if !writer.steps[first..last].iter().any(|step| matches!(step, Step::Control(_))) {
            let ends = end.iter().chain(&["join"]).map(|word| Step::Control(word));
            writer.steps.splice(last..last, ends);
            writer.steps.insert(first, Step::Control(how));
        }
    }
    let end = writer.pick(&["exit", "_exit"]);
    writer.steps.push(Step::Control(end));
}
