//! Warns about programs that may run graphs without cuDNN, and so hide them from layers.

use std::ffi::OsStr;
use std::path::Path;

use cudnn_cli::escape::Printable;
use cudnn_frameworks::{Environment, frontend_with_engines};
use cudnn_rules::context::Context;
use cudnn_rules::python::Python;

use crate::drop_in::preload::{find, program_of};

/// Returns a note if the program's Python environment has a cudnn-frontend with separate engines.
pub(crate) fn note(program: &OsStr, context: &Context) -> Option<String> {
    let file = find(program)?;
    let python = |file: &Path| Python::find(Some(file), &context.search);
    // The Python may be a script of pyenv or asdf.
    let python = python(&file).or_else(|| python(&program_of(file)?))?;
    let environment = Environment::from_python(&python.program, &python.root, &context.host);
    let version = frontend_with_engines(&environment, &context.host)?;
    Some(format!(
        "note: nvidia-cudnn-frontend {} runs some graphs with engines in Python, which do not call cuDNN. Layers do not \
         see their plans and executions",
        version.printable()
    ))
}
