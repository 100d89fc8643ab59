//! Loads cuDNN in a child process, which sends every step and failure to the parent.
//!
//! The child starts the driver first, so that a driver crash is not blamed on cuDNN. Libraries may print to standard
//! output.

use cudnn_cli::child_report::{Work, begin, send};
use cudnn_cli::escape::Printable;
use cudnn_cli::platform::{CAN_LOAD, STATIC, STATIC_HELP};
use cudnn_cli::programs::doctor;
use cudnn_cli::subprocess::{self, Timeouts};
use cudnn_probe::facts::{self, PathFacts};
use std::ffi::{OsStr, OsString, c_void};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudnn_backend::gpu::{self, Gpu, NoGpu};
use cudnn_frameworks::installation::InstallationReport;
use cudnn_loader::preload::{Devices, Preload, PreloadOutcome, PreloadStep};
use cudnn_loader::{
    Error, Function, LoadError, LoadErrorKind, Options, cudnnGetLastErrorString, cudnnStatus_t, signatures,
};
use cudnn_os::IS_WINDOWS;
use cudnn_os::child::end_with_parent;
use cudnn_probe::dll_search::{ProcessFacts, explain};
use cudnn_probe::release_facts::has_library;
use cudnn_probe::{Host, Library, Os, identify};
use cudnn_rules::check::advice::{advice, advice_for_dll};
use cudnn_rules::check::foreign_library;
use cudnn_rules::check::load_test::{
    CONVOLUTION, CUDA, CUDA_VERSION, DRIVER, ENGINES, FAILURE, FINISHED, LOAD, LoadTest, Parts, VERSION_CHECK, result,
};
use cudnn_rules::cudnn_file;
use cudnn_rules::system::{DAMAGED_DRIVER_HELP, DRIVER_HELP, DRIVER_LIBRARY, LOADER, LOADERS, system_library};
use serde_json::json;

use super::driver;
use crate::demo;

pub(crate) const COMMAND: &str = "internal-load";

/// The functions that compare a library's version with graph's.
const VERSION_CHECKS: &[(Library, Function)] = &[
    (Library::Graph, Function::CudnnGraphVersionCheck),
    (Library::Ops, Function::CudnnOpsVersionCheck),
    (Library::Cnn, Function::CudnnCnnVersionCheck),
    (Library::Adv, Function::CudnnAdvVersionCheck),
];

const HELP_PREFIX: &str = "help: ";

pub(super) fn load(report: &InstallationReport, parts: &Parts, timeouts: &Timeouts) -> LoadTest {
    if !CAN_LOAD {
        let help = format!("{STATIC_HELP}; `{} check --no-load` only reads files", doctor());
        return LoadTest::not_made(STATIC, help);
    }
    // The child runs in a different working directory.
    let absolute = |path: &Path| facts::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut arguments: Vec<OsString> = vec![COMMAND.into()];
    let options = [("--gpu", parts.convolution), ("--driver", parts.driver), ("--engines", parts.engines)];
    arguments.extend(options.iter().filter(|(_, is_wanted)| *is_wanted).map(|(option, _)| option.into()));
    for file in &parts.cuda {
        let mut option = OsString::from("--cuda=");
        option.push(absolute(file));
        arguments.push(option);
    }
    arguments.extend(["--".into(), absolute(&report.dir).into_os_string()]);
    let arguments: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
    match subprocess::run(&arguments, timeouts) {
        Ok(ended) => result(&ended, report, parts),
        Err(error) => {
            let (message, help) = subprocess::cannot_start(&error);
            LoadTest::not_made(&message, help)
        }
    }
}

/// Runs in the child process: loads and checks all sub-libraries, then runs the convolution, which creates a CUDA
/// context.
pub(crate) fn run_child(dir: &Path, parts: &Parts) -> ExitCode {
    end_with_parent();
    if parts.driver {
        start_driver();
    }
    load_and_check(dir, parts);
    send(&json!({ FINISHED: true }));
    ExitCode::SUCCESS
}

fn start_driver() {
    if !driver::open() {
        // The doctor accepted the file, but ld.so rejected it.
        if let Err(message) = open(&system_library(DRIVER_LIBRARY)) {
            report_damaged_driver(&message);
        }
        return;
    }
    begin(Work::StartDriver, "started the driver (cuInit)");
    match Gpu::start_driver() {
        Ok(()) => Gpu::cuda_version().iter().for_each(|version| send(&json!({ CUDA_VERSION: version }))),
        Err(error @ (NoGpu::Start(_) | NoGpu::NoFunction(_))) => {
            report_failure(DRIVER, &format!("the driver does not start: {error}"), Vec::new(), driver_help(&error));
        }
        Err(_) => {}
    }
}

/// Reports that ld.so cannot load the driver's library. cuDNN is not at fault, even if its libraries need the driver.
fn report_damaged_driver(message: &str) {
    let text = format!("the driver's library cannot be loaded: {message}");
    report_failure(DRIVER, &text, Vec::new(), DAMAGED_DRIVER_HELP);
}

fn load_and_check(dir: &Path, parts: &Parts) {
    begin(Work::Load, format!("loaded {}", Library::Graph));
    if let Err(error) = Options::new().path(dir).load() {
        return report_load_error(&error);
    }
    // Each call loads a sub-library and compares the version with graph's.
    for (library, function) in VERSION_CHECKS {
        begin(Work::Load, format!("loaded {library}"));
        // SAFETY: all functions in the table have this type.
        match unsafe { function.get::<signatures::cudnnGraphVersionCheck>() } {
            Ok(check) => {
                begin(Work::Load, format!("called {function}"));
                // SAFETY: the function takes no parameters, and all of the loader's functions belong to one cuDNN.
                let checked = unsafe { Error::check(check(), function.name(), cudnnGetLastErrorString) };
                if let Err(error) = checked {
                    let message = format!("{function} returned {:?}", error.status);
                    report_failure(VERSION_CHECK, &message, messages_of_cudnn(&error.text), "");
                }
            }
            // JIT-only installations contain graph but no other sub-library.
            Err(error) if matches!(error.kind(), LoadErrorKind::LibraryMissing) => {}
            Err(error) => report_load_error(&error),
        }
    }
    open_others(dir);
    let are_usable = open_cuda(&parts.cuda);
    if parts.engines && are_usable {
        register_engines(dir);
    }
    if parts.convolution {
        run_convolution();
    }
}

/// Opens the CUDA libraries that cuDNN opens later, and looks up one function in each. Returns whether all are usable.
fn open_cuda(files: &[PathBuf]) -> bool {
    let mut are_usable = true;
    for (index, file) in files.iter().enumerate() {
        begin(Work::LoadCuda, format!("loaded {}", file.printable()));
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let function = if name.starts_with("libnvrtc") { c"nvrtcVersion" } else { c"cublasLtCreate" };
        let message = match open(file) {
            Err(message) => format!("cannot be loaded: {message}"),
            Ok(library) if library.symbol(function).is_none() => {
                format!("does not match its name: it does not export {}", function.to_string_lossy())
            }
            Ok(_) => continue,
        };
        are_usable = false;
        send(&json!({ FAILURE: CUDA, "index": index, "message": message }));
    }
    are_usable
}

/// Makes cuDNN register the engines. Only then does it compare the versions of the libraries that it opens by name,
/// because their files contain no version.
fn register_engines(dir: &Path) {
    begin(Work::Load, "registered cuDNN's engines");
    let preload = Preload::new().options(Options::new().path(dir)).libraries(&[]);
    let preload = preload.devices(Devices::List(Vec::new())).engines(true);
    let report = preload.run().unwrap_or_else(|error| error.report);
    let Some(step) = report.steps.into_iter().find(|step| step.step == PreloadStep::Engines) else { return };
    let PreloadOutcome::Failed { status, reason } = step.outcome else { return };
    // A library failed to open, which is already reported.
    if status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED {
        return;
    }
    let message = format!("cuDNN returned {status:?} when it registered its engines");
    let mut notes = messages_of_cudnn(&reason);
    if status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH {
        notes.push(
            "a library of engines or heuristics is from a different release; their files contain no version number"
                .to_owned(),
        );
        return report_failure(VERSION_CHECK, &message, notes, "");
    }
    let help = "update cudnn-doctor; if the newest one reports the same, reinstall this cuDNN";
    report_failure(ENGINES, &message, notes, help);
}

fn messages_of_cudnn(text: &str) -> Vec<String> {
    text.lines().map(|line| format!("cuDNN's message: {line}")).collect()
}

/// Opens the other libraries as cuDNN does, without a version check, and calls a function of NVIDIA's shim.
fn open_others(dir: &Path) {
    let path = |library: Library| dir.join(library.file_name());
    let version = identify(&path(Library::Graph), Library::Graph).ok().and_then(|graph| graph.version);
    // cuDNN ignores libraries left over from a newer release.
    let is_opened = |library: &Library| {
        let is_checked = VERSION_CHECKS.iter().any(|(checked, _)| checked == library);
        let is_in_release = version.is_some_and(|version| has_library(version, *library));
        !is_checked && is_in_release && identify(&path(*library), *library).is_ok()
    };
    for library in Library::ALL.iter().copied().filter(is_opened) {
        let file = path(library);
        if cudnn_file::is_drop_in(&file) {
            continue;
        }
        begin(Work::Load, format!("loaded {library}"));
        match open(&file) {
            Ok(shim) if library == Library::Shim => call_shim(shim, &file),
            Ok(_) => {}
            Err(message) => {
                report_dlopen_error(&file, &format!("{LOADER} cannot load {}", file.printable()), &message, "");
            }
        }
    }
}

/// Calls a function of NVIDIA's shim, which opens graph by name and so reuses the loaded one.
fn call_shim(shim: cudnn_os::libraries::Library, file: &Path) {
    begin(Work::Load, format!("called cudnnGetVersion in {}", Library::Shim));
    let Some(function) = shim.symbol(c"cudnnGetVersion") else {
        let message = format!("{} does not export cudnnGetVersion", file.printable());
        return report_failure(LOAD, &message, Vec::new(), "");
    };
    // SAFETY: cuDNN's headers declare this type. Running library code is the purpose of this child process.
    let get_version = unsafe { std::mem::transmute::<*mut c_void, signatures::cudnnGetVersion>(function) };
    // SAFETY: the function takes no arguments.
    unsafe { get_version() };
}

fn open(file: &Path) -> Result<cudnn_os::libraries::Library, String> {
    let open = if IS_WINDOWS { cudnn_os::libraries::Library::open } else { cudnn_os::libraries::Library::open_lazily };
    // SAFETY: running library initializers is the purpose of this child process.
    unsafe { open(file) }.map_err(|error| error.to_string())
}

fn run_convolution() {
    begin(Work::Compute, "ran the convolution");
    if let Err(error) = demo::run_convolution() {
        let text = format!("{error:#}");
        let mut lines = text.lines();
        let message = lines.next().unwrap_or_default();
        let (help, notes): (Vec<&str>, Vec<&str>) =
            lines.map(str::trim).filter(|line| !line.is_empty()).partition(|line| line.starts_with(HELP_PREFIX));
        let help = help.first().and_then(|help| help.strip_prefix(HELP_PREFIX)).unwrap_or(demo::HELP);
        let notes = notes.into_iter().map(|note| note.trim_start_matches("note: ").to_owned()).collect();
        report_failure(CONVOLUTION, message, notes, help);
    }
}

fn driver_help(error: &NoGpu) -> &'static str {
    match error {
        _ if Os::HOST == Os::Windows => DRIVER_HELP,
        NoGpu::Start(gpu::STUB_LIBRARY) => {
            "this libcuda.so.1 is a stub for linking: remove CUDA's directory `stubs` from LD_LIBRARY_PATH"
        }
        NoGpu::Start(gpu::NO_DEVICE) => {
            "no GPU is visible: start the container with GPU access, and check CUDA_VISIBLE_DEVICES"
        }
        NoGpu::Start(gpu::COMPAT_NOT_SUPPORTED) => {
            "this libcuda.so.1 is a library for forward compatibility, which only works with data center GPUs: \
             remove its directory from LD_LIBRARY_PATH, and install a newer driver"
        }
        NoGpu::Start(gpu::DRIVER_MISMATCH) => {
            "libcuda.so.1 and the kernel driver have different versions: reboot if the driver was just updated, or \
             reinstall it"
        }
        _ => "check that `nvidia-smi` works; if it does not, reinstall the driver, or reboot if it was just updated",
    }
}

fn report_load_error(error: &LoadError) {
    let (text, advice) = (error.to_string(), advice(error).unwrap_or_default());
    let line = text.lines().next().unwrap_or_default();
    match error.kind() {
        LoadErrorKind::Dlopen { path, message, .. } => report_dlopen_error(path, line, message, &advice),
        _ => report_failure(LOAD, line, Vec::new(), &advice),
    }
}

/// Reports that ld.so failed to open a cuDNN library, and the file that ld.so blames.
fn report_dlopen_error(library: &Path, text: &str, message: &str, help: &str) {
    // Some cuDNN libraries are linked to the driver.
    if foreign_library::is_driver(message) {
        return report_damaged_driver(message);
    }
    let notes = vec![format!("{LOADERS} message: {message}")];
    if Os::HOST == Os::Windows {
        return report_dll(library, text, notes, help);
    }
    match foreign_library::explain(message, library) {
        Some((text, help)) => report_failure(LOAD, &text, notes, &help),
        None => report_failure(LOAD, text, notes, help),
    }
}

/// Reports which DLL or symbol is missing, because Windows only returns an error number.
fn report_dll(library: &Path, text: &str, notes: Vec<String>, help: &str) {
    let mut facts = ProcessFacts::from_host(&Host::current());
    // cuDNN's DLLs are loaded in order, by path.
    facts.loaded =
        Library::ALL.iter().map(|library| library.windows_name()).map(|name| library.with_file_name(name)).collect();
    facts.loaded.retain(|file| file != library && file.leads_to_file());
    let failure = explain(library, &facts);
    let text = failure.as_ref().map_or(text.to_owned(), |failure| format!("{text}: {failure}"));
    let advice = failure.map_or_else(|| help.to_owned(), |failure| advice_for_dll(&failure).unwrap_or_default());
    report_failure(LOAD, &text, notes, &advice);
}

fn report_failure(kind: &str, message: &str, notes: Vec<String>, help: &str) {
    send(&json!({ FAILURE: kind, "message": message, "notes": notes, "help": help }));
}
