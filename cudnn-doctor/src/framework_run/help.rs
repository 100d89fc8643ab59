//! The help for a cause: which package has to change, or which variable.

use std::path::{Path, PathBuf};

use cudnn_probe::packages::{self, Command};
use cudnn_probe::{InstallationReport, Version};

use super::Framework;
use super::explain::{Cause, Kind};
use super::python::Python;
use crate::check::finding::Help;
use crate::check::fix_commands::{self, Wanted};
use crate::context::Context;
use crate::escape::Printable;
use crate::shell::{doctor, prepend_library_path};

/// The variable of ld.so.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

pub(super) fn help(
    cause: &Cause,
    framework: Framework,
    libraries: &[String],
    python: &Python,
    context: &Context,
) -> Help {
    let (name, loaded) = (framework.name(), loaded_installation(libraries, context));
    match &cause.kind {
        Kind::MissingLibrary(library) => missing_library(library, framework, python, context),
        Kind::MissingSubLibrary if framework == Framework::Ctranslate2 => Help::new(
            "CTranslate2 4.5 and 4.6 contain cuDNN's shim without its libraries; 4.6.3 and later do without cuDNN:",
        )
        .command(install(python, &["--upgrade", "ctranslate2>=4.6.3"])),
        Kind::MissingSubLibrary | Kind::MissingSymbol | Kind::Mixed => {
            on_library_path(libraries).or_else(|| Some(fix_commands::reinstall(&loaded?))).unwrap_or_else(other)
        }
        Kind::OldCudnn(built_for) => old_cudnn(*built_for, libraries, loaded, context),
        Kind::NoKernel => Help::new(format!(
            "install a build of {name} with code for this GPU: its download page lists the GPUs of each build"
        )),
        Kind::NoGpuMemory => {
            Help::new("free the GPU's memory; to see which processes use it:").command("nvidia-smi".to_owned())
        }
        Kind::OldDriver => {
            Help::new(format!("update NVIDIA's driver, or install a build of {name} for an older CUDA release"))
        }
        Kind::NoGpu => Help::new(
            "check that `nvidia-smi` works, that the container was started with GPU access, and CUDA_VISIBLE_DEVICES",
        ),
        Kind::NoModule(module) if module == framework.module() => {
            Help::new(format!("{name} is not installed for this Python: install it, or name another by --python:"))
                .command(install(python, &[package(framework)]))
        }
        Kind::NoModule(module) => {
            Help::new(format!("install the package with the module {module}, or reinstall {name}"))
        }
        Kind::NoCuda => Help::new(format!("install a build of {name} with CUDA:"))
            .command(install(python, &["--upgrade", package(framework)])),
        Kind::Other => other(),
    }
}

/// The help for a library that ld.so does not find.
fn missing_library(library: &str, framework: Framework, python: &Python, context: &Context) -> Help {
    if library.starts_with("libcudnn") {
        let installed = context.selected().filter(|_| library.ends_with(".so.9"));
        if let Some(line) = installed.as_ref().and_then(|installed| prepend_library_path(&installed.dir)) {
            let preload = match framework {
                Framework::Onnxruntime => "call onnxruntime.preload_dlls() before the first session, or ",
                _ => "",
            };
            return Help::new(format!("{preload}have ld.so search the directory of the installed cuDNN:"))
                .command(line);
        }
        if !library.ends_with(".so.9") {
            return Help::new(format!(
                "this {} was built for another major version of cuDNN: install a release for cuDNN 9",
                framework.name()
            ));
        }
        return fix_commands::install(context);
    }
    match packages::wheel_for(library) {
        Some(wheel) => Help::new(format!("install the package with {library}:")).command(install(python, &[&wheel])),
        None => other(),
    }
}

fn old_cudnn(
    built_for: Option<Version>,
    libraries: &[String],
    loaded: Option<InstallationReport>,
    context: &Context,
) -> Help {
    if let Some(help) = on_library_path(libraries) {
        return help;
    }
    let Some(report) = loaded else { return fix_commands::install(context) };
    fix_commands::meet(&report, &Wanted { minimum: built_for, cuda_major: None, full: false }, context)
}

/// The help if LD_LIBRARY_PATH leads to the cuDNN that was loaded.
fn on_library_path(libraries: &[String]) -> Option<Help> {
    let path = std::env::var_os(LIBRARY_PATH)?;
    let on_path: Vec<PathBuf> = std::env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    let loaded = libraries.iter().filter_map(|file| Path::new(file).parent());
    let real = |dir: &Path| std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let loaded: Vec<PathBuf> = loaded.map(real).collect();
    let dir = on_path.iter().find(|dir| loaded.contains(&real(dir)))?;
    let rest = std::env::join_paths(on_path.iter().filter(|other| real(other) != real(dir))).ok()?;
    let help = Help::new(format!(
        "{LIBRARY_PATH} leads to this cuDNN, before the one that was installed with the framework: remove {} from it:",
        dir.printable()
    ));
    Some(if rest.is_empty() {
        help.command(format!("unset {LIBRARY_PATH}"))
    } else {
        help.command(format!("export {LIBRARY_PATH}={}", packages::quoted(rest)))
    })
}

/// The installation whose shim or graph library was loaded.
fn loaded_installation(libraries: &[String], context: &Context) -> Option<InstallationReport> {
    let file = libraries.iter().map(Path::new).find(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcudnn.so") || name.starts_with("libcudnn_graph.so")
    })?;
    InstallationReport::read(file.parent()?, &context.host)
}

/// The package with the framework and CUDA.
fn package(framework: Framework) -> &'static str {
    match framework {
        Framework::Torch => "torch",
        Framework::Jax => "jax[cuda12]",
        Framework::Tensorflow => "tensorflow[and-cuda]",
        Framework::Onnxruntime => "onnxruntime-gpu",
        Framework::Ctranslate2 => "ctranslate2",
    }
}

/// The command that installs something for this Python.
fn install(python: &Python, arguments: &[&str]) -> String {
    let arguments = || arguments.iter().map(|argument| (*argument).to_owned());
    let command = packages::pip(python.root(), "install", arguments());
    let command = command.unwrap_or_else(|| {
        Command::new(&python.program, ["-m", "pip", "install"].map(str::to_owned).into_iter().chain(arguments()))
    });
    command.to_string()
}

fn other() -> Help {
    Help::new(format!(
        "mend the other findings first; to see all calls of cuDNN, start the program with CUDNN_LOGLEVEL_DBG=3 and \
         CUDNN_LOGDEST_DBG=cudnn.log in its environment, then run `{} log cudnn.log`",
        doctor()
    ))
}
