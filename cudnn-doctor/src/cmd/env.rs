//! `env`: the shell lines that make programs use an installation: the loader, and programs that load cuDNN by its name.

use std::path::PathBuf;

use cudnn_probe::{DIR_VARIABLE, InstallationReport, Requirements, Variant, check_dir};
use serde_json::json;

use crate::context::Context;
use crate::escape::Printable;
use crate::output::{Format, Outcome, SCHEMA, document, fail, outln, remark};
use crate::shell::{doctor, prepend_library_path, quoted_path};

/// The options of `env`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory of an installation, or the root of an environment that contains one. Without it: the installation
    /// that the loader would use.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, context: &Context, format: Format) -> Outcome {
    let selected = match &arguments.dir {
        None => context.selected(),
        Some(root) => {
            let candidates = context.search.under_root(root);
            candidates.iter().find_map(|candidate| check_dir(candidate, &Requirements::default()).ok())
        }
    };
    let Some(selected) = selected else {
        let place = arguments.dir.as_ref().map_or("here".into(), |dir| format!("in {}", dir.printable()));
        let error = format!("There is no usable cuDNN {place}. `{} check` shows what is wrong.", doctor());
        return fail(format, error);
    };
    let Some(library_path) = prepend_library_path(&selected.dir) else {
        let error = format!(
            "LD_LIBRARY_PATH cannot contain the name of {}: it contains a colon, a semicolon or a dollar \
             sign. Make a symbolic link to the directory and use the link's name.",
            selected.dir.printable()
        );
        return fail(format, error);
    };
    let lines = [format!("export {DIR_VARIABLE}={}", quoted_path(&selected.dir)), library_path];
    match format {
        Format::Json => document(&json!({
            "schema": SCHEMA,
            "directory": selected.dir.to_string_lossy(),
            "lines": lines,
        })),
        Format::Text => lines.iter().for_each(|line| outln!("{line}")),
    }
    // To stderr: a shell evaluates the output.
    if InstallationReport::read(&selected.dir, &context.host).is_some_and(|report| report.variant != Variant::Full) {
        remark("note: this is not the full cuDNN; functions of the missing libraries fail");
    }
    Outcome::Fine
}
