//! The help for a cause: which package has to change, or which variable.

use std::path::{Path, PathBuf};

use cudnn_frameworks::Environment;
use cudnn_frameworks::facts::is_since;
use cudnn_probe::packages::{self, CudaWheel};
use cudnn_probe::{InstallationReport, Version};

use super::explain::{Cause, Kind};
use super::framework::Framework;
use super::{Run, build, foreign};
use crate::check::finding::Help;
use crate::check::fix_commands::{self, Wanted, with_commands};
use crate::check::frameworks::{help_for_libraries, install_for_active};
use crate::check::machine::Machine;
use crate::context::Context;
use crate::escape::Printable;
use crate::python::Python;
use crate::shell::{doctor, prepend_library_path, unset_variable};

/// The variables that lead to another cuDNN than the one of the framework's environment, and where it is below their
/// directories.
const VARIABLES: [(&str, &str); 2] = [("LD_LIBRARY_PATH", ""), ("PYTHONPATH", "nvidia/cudnn/lib")];

pub(super) fn help(cause: &Cause, run: &Run, python: &Python, context: &Context, machine: &Machine) -> Help {
    let Run { framework, libraries, .. } = run;
    let framework = *framework;
    let (name, loaded) = (framework.name(), loaded_installation(libraries, python, context));
    match &cause.kind {
        Kind::MissingLibrary(library) => missing_library(library, run, python, context, machine),
        Kind::MissingSubLibrary if framework == Framework::Ctranslate2 => Help::new(
            "CTranslate2 4.5 and 4.6 contain cuDNN's shim without its libraries; 4.6.3 and later do without cuDNN:",
        )
        .command(install(python, &["--upgrade", "ctranslate2>=4.6.3"])),
        Kind::MissingSymbol if !cause.text.contains("cudnn") => Help::new(format!(
            "a library is not of the release that {name} was built for: reinstall {name} with all that it requires"
        )),
        Kind::MissingSubLibrary | Kind::MissingSymbol | Kind::Mixed => {
            by_variable(libraries, python).or_else(|| Some(fix_commands::reinstall(&loaded?))).unwrap_or_else(other)
        }
        Kind::OldCudnn(built_for) => {
            by_variable(libraries, python).unwrap_or_else(|| old_cudnn(*built_for, loaded, context, machine))
        }
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
            let text = format!("{name} is not installed for this Python: install it, or name another by --python:");
            install_framework(text, framework, &[], python, context, machine)
        }
        Kind::NoModule(module) => {
            Help::new(format!("install the package with the module {module}, or reinstall {name}"))
        }
        Kind::Hidden(variable) => {
            Help::new(format!("{variable} hides the GPUs: unset it:")).command(unset_variable(variable))
        }
        Kind::NoCuda => with_cuda(framework, run.package.as_deref(), python, context, machine),
        Kind::Other => other(),
    }
}

/// Installs the framework with CUDA, beside the others of the environment. These commands come first.
fn install_framework(
    text: String,
    framework: Framework,
    options: &[&str],
    python: &Python,
    context: &Context,
    machine: &Machine,
) -> Help {
    match build::requirements(framework, python, context, machine) {
        Ok(requirements) => {
            let arguments: Vec<&str> = options.iter().copied().chain(requirements.iter().map(String::as_str)).collect();
            Help::new(text).command(install(python, &arguments))
        }
        Err(reason) => Help::new(reason),
    }
}

/// Installs the build with CUDA. Builds in packages of two names overwrite each other.
fn with_cuda(
    framework: Framework,
    installed: Option<&str>,
    python: &Python,
    context: &Context,
    machine: &Machine,
) -> Help {
    let (name, package, others) = (framework.name(), framework.package(12), framework.cpu_packages());
    let Some(installed) = installed.filter(|installed| others.contains(installed) || *installed == package) else {
        // The same release may be installed without CUDA. JAX's part with CUDA is in packages of their own.
        let options: &[&str] = if framework == Framework::Jax { &[] } else { &["--force-reinstall"] };
        let text = format!("to use a GPU, install a build of {name} with CUDA:");
        return install_framework(text, framework, options, python, context, machine);
    };
    let text =
        format!("to use a GPU, replace {installed} by the build of {name} with CUDA; they overwrite each other:");
    let both = others.iter().copied().chain((installed == package).then_some(package.as_str()));
    let removed: Vec<&str> = std::iter::once("--yes").chain(both).collect();
    let help = install_framework(text, framework, &[], python, context, machine);
    if help.commands.is_empty() {
        return help;
    }
    let removal = pip(python, "uninstall", &removed);
    Help { commands: std::iter::once(removal).chain(help.commands).collect(), ..help }
}

/// The help for a library that ld.so does not find.
fn missing_library(library: &str, run: &Run, python: &Python, context: &Context, machine: &Machine) -> Help {
    let framework = run.framework;
    // The libraries that it needs after this one, too.
    let environment = || Environment::of_python(&python.program, &python.root, &context.host);
    let of_cuda = Some(framework).filter(|_| !library.is_empty() && !library.starts_with("libcudnn"));
    let all =
        of_cuda.and_then(|framework| help_for_libraries(framework.module(), &environment(), machine, &context.host));
    if let Some(help) = all {
        return help;
    }
    if library.starts_with("libcudnn") {
        let installed = context.selected().filter(|_| library.ends_with(".so.9"));
        if let Some(line) = installed.as_ref().and_then(|installed| prepend_library_path(&installed.dir)) {
            let preload = match framework {
                Framework::Onnxruntime if run.version.as_deref().is_some_and(|version| is_since(version, "1.21")) => {
                    "call onnxruntime.preload_dlls() before the first session, or "
                }
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
        return install_cudnn(context, machine);
    }
    match packages::cuda_wheel(library, None) {
        Some(wheel) => with_wheel(library, &wheel, python),
        None if library.is_empty() => {
            let text = format!("install {} with the libraries of CUDA:", framework.name());
            install_framework(text, framework, &[], python, context, machine)
        }
        None => Help::new(format!(
            "install the package with {library}; to see what the installed packages require and lack:"
        ))
        .command(pip(python, "check", &[])),
    }
}

/// Installs a wheel with a library, or has ld.so search the wheel that is there.
fn with_wheel(library: &str, wheel: &CudaWheel, python: &Python) -> Help {
    let dirs = packages::site_packages(&python.root).map(|site| site.join(&wheel.dir));
    let installed = dirs.into_iter().find(|dir| dir.join(library).is_file());
    match installed.as_deref().and_then(prepend_library_path) {
        Some(line) => Help::new(format!("{library} is in {}: have ld.so search there:", wheel.name)).command(line),
        None => {
            Help::new(format!("install the package with {library}:")).command(install(python, &[&wheel.requirement]))
        }
    }
}

fn old_cudnn(
    built_for: Option<Version>,
    loaded: Option<InstallationReport>,
    context: &Context,
    machine: &Machine,
) -> Help {
    let Some(report) = loaded else { return install_cudnn(context, machine) };
    let wanted = Wanted { minimum: built_for, ..Wanted::default() };
    fix_commands::meet(&report, &wanted, &[], context).unwrap_or_else(Help::new)
}

/// The help if a variable leads to a cuDNN that was loaded, outside the framework's environment.
fn by_variable(libraries: &[String], python: &Python) -> Option<Help> {
    let real = |file: &Path| cudnn_probe::canonicalize(file).ok();
    let environment = real(&python.root);
    let is_outside = |file: &PathBuf| environment.as_ref().is_none_or(|root| !file.starts_with(root));
    let loaded: Vec<PathBuf> = libraries.iter().filter_map(|file| real(Path::new(file))).filter(is_outside).collect();
    // The directory may contain links.
    let has_loaded = |dir: &Path| {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut files = files.filter(|file| file.file_name().to_string_lossy().starts_with("libcudnn"));
        files.any(|file| real(&file.path()).is_some_and(|file| loaded.contains(&file)))
    };
    VARIABLES.into_iter().find_map(|(variable, below)| {
        let (dir, line) = foreign::without(variable, |dir| has_loaded(&dir.join(below)))?;
        let dir = dir.printable();
        Some(Help::new(format!("{variable} leads to the cuDNN in {dir}: remove that directory from it:")).command(line))
    })
}

/// The installation whose shim or graph library was loaded; the one of the framework's environment if there are several.
fn loaded_installation(libraries: &[String], python: &Python, context: &Context) -> Option<InstallationReport> {
    let is_main = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libcudnn.so") || name.starts_with("libcudnn_graph.so")
    };
    let files: Vec<&Path> = libraries.iter().map(Path::new).filter(is_main).collect();
    let in_environment = files.iter().find(|file| file.starts_with(&python.root));
    InstallationReport::read(in_environment.or(files.first())?.parent()?, &context.host)
}

/// The command that installs something for this Python.
fn install(python: &Python, arguments: &[&str]) -> String {
    pip(python, "install", arguments)
}

fn pip(python: &Python, action: &str, arguments: &[&str]) -> String {
    with_commands("", &[python.pip(action, arguments)]).commands.join(" && ")
}

fn other() -> Help {
    Help::new(format!(
        "mend the other findings first; to see all calls of cuDNN, start the program with CUDNN_LOGLEVEL_DBG=3 and \
         CUDNN_LOGDEST_DBG=cudnn.log in its environment, then run `{} log cudnn.log`",
        doctor()
    ))
}

/// Installs a cuDNN: what the frameworks of the active environment demand, or else the full one.
fn install_cudnn(context: &Context, machine: &Machine) -> Help {
    install_for_active(context, machine).unwrap_or_else(|| fix_commands::install(context, machine))
}
