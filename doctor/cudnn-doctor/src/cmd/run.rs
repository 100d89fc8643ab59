//! `run`: replaces the doctor with a program that has the drop-in preloaded.

use cudnn_cli::escape::Printable;
use cudnn_cli::output::remark;
use cudnn_cli::programs::doctor;
use cudnn_cli::subprocess::Timeouts;
use cudnn_frameworks::{Environment, frontend_with_engines};
use cudnn_os::child::become_program;
use cudnn_os::files::{bytes_of, path_from_bytes};
use cudnn_probe::layers::{LAYER_PATH_VARIABLE, LAYERS_VARIABLE, requested_layers};
use cudnn_probe::{FileIdentity, Library, Os};
use cudnn_rules::context::Context;
use cudnn_rules::drop_in::functions::{nvidia_shim_in, refuse_older};
use cudnn_rules::drop_in::layers::{LayerAnswer, check_layers};
use cudnn_rules::drop_in::{PRELOAD, source};
use cudnn_rules::python::Python;
use cudnn_rules::refusal::Refusal;
use cudnn_rules::release_facts::in_use;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use crate::drop_in::preload::{self, check_program, find, program_of};
use crate::layer_check;

/// The exit status for a missing program, as used by shells and `env`.
const NOT_FOUND: u8 = 127;
/// The exit status for a program that fails to start.
const NOT_STARTED: u8 = 126;

/// The variables of the layers.
const TRACE_VARIABLE: &str = "CUDNN_TRACE";
const CAPTURE_VARIABLE: &str = "CUDNN_CAPTURE";
const ERRATA_VARIABLE: &str = "CUDNN_ERRATA";
const EXPLAIN_VARIABLE: &str = "CUDNN_EXPLAIN";
pub(super) const TUNED_VARIABLE: &str = "CUDNN_TUNED";

/// Explains why a trace may be missing after the program exits.
const NO_TRACE: &str = "the program has not called cuDNN through the drop-in or cudnn-loader. A program that is linked to \
                        cuDNN's sub-libraries, or that opens NVIDIA's shim by its path, calls NVIDIA's library";

const PARTS: [&str; 4] = ["files", "libraries", "contexts", "engines"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Turn on these layers, outermost first: `capture`, `trace`, `validate`, `explain`, `errata`, `tuned`, `plans`, or
    /// the path of a layer. Replaces CUDNN_LAYERS.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',')]
    layers: Vec<OsString>,
    /// Write graphs, plans, executions and failed calls to this file, with the layer `capture`. The first `%i` in the
    /// name becomes the process id.
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// Write all cuDNN calls to this file, with the layer `trace`. The first `%i` in the name becomes the process id.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Cache compiled plans for later runs, with the layer `plans`.
    #[arg(long)]
    plans: bool,
    /// Block plans that match these rules, with the layer `errata`: `known`, files, or both, separated by commas.
    #[arg(long, value_name = "RULES")]
    errata: Option<OsString>,
    /// Prefer the engines that this file ranks as the best, with the layer `tuned`. Can be repeated: the first file that
    /// ranks a graph decides.
    #[arg(long, value_name = "FILE")]
    tuned: Vec<PathBuf>,
    /// Report graphs that no engine supports, with the layer `explain`. `--explain=used` also shows the engines that
    /// run.
    #[arg(long, value_name = "REPORTS", num_args = 0..=1, require_equals = true, default_missing_value = "failures",
          value_parser = ["failures", "used"])]
    explain: Option<String>,
    /// Report mistakes that cuDNN accepts or does not explain, with the layer `validate`.
    #[arg(long)]
    validate: bool,
    /// Include the reason in cuDNN's error texts.
    #[arg(long)]
    verbose_errors: bool,
    /// Load these parts at startup, in a program that is linked to cuDNN. Only `files` is safe for all programs.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', value_parser = PARTS)]
    preload: Vec<String>,
    /// The directory with the drop-in. Default: the drop-in shipped with this cudnn-doctor.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// The program and the arguments.
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Does not return if the program starts.
pub(crate) fn run(arguments: &Arguments, context: &Context, timeouts: &Timeouts) -> Result<ExitCode, Box<dyn Error>> {
    let (program, rest) = arguments.command.split_first().ok_or("error: no program is named")?;
    let variables = variables(arguments, program, context, timeouts)?;
    let layers = variables.iter().find(|(name, _)| *name == LAYERS_VARIABLE).map(|(_, layers)| layers.clone());
    if layers.or_else(|| context.host.variable(LAYERS_VARIABLE)).is_some_and(|layers| !layers.is_empty()) {
        unseen_engines(program, context).iter().for_each(remark);
    }
    // If the name contains `%i`, every process writes a separate file.
    let trace = variables.iter().find(|(name, _)| *name == TRACE_VARIABLE).map(|(_, file)| PathBuf::from(file));
    let trace = trace.filter(|file| !has_process(file)).map(|file| (state(&file), file));
    let check_trace = trace.map(|(before, file)| {
        let other = with_process(&file, std::process::id());
        move || {
            if state(&file) == before && !other.exists() {
                remark(format_args!("note: no trace was written to {}: {NO_TRACE}", file.printable()));
            }
        }
    });
    for (name, value) in variables {
        // `Command` would sort the variables and drop duplicates.
        // SAFETY: this process has a single thread.
        unsafe { std::env::set_var(name, value) };
    }
    let mut command = Command::new(program);
    let error = become_program(command.args(rest), check_trace.as_ref().map(|check| check as &dyn Fn()));
    let name = Path::new(program).printable();
    let (status, text) = if error.kind() != ErrorKind::NotFound {
        (NOT_STARTED, format!("cannot start {name}: {error}"))
    } else if find(program).is_some_and(|file| file.exists()) {
        (NOT_STARTED, format!("cannot start {name}: the interpreter that it names does not exist"))
    } else {
        (NOT_FOUND, format!("cannot find program {name}: {error}"))
    };
    remark(format_args!("error: {text}"));
    Ok(ExitCode::from(status))
}

fn variables(
    arguments: &Arguments,
    program: &OsStr,
    context: &Context,
    timeouts: &Timeouts,
) -> Result<Vec<(&'static str, OsString)>, Refusal> {
    if Os::HOST != Os::Linux {
        return Err(Refusal::new("Windows has no variable that preloads a library into a program").help(format!(
            "to use the drop-in for all programs of an environment, run `{} install`; or copy {} into the program's \
             directory, where Windows looks first",
            doctor(),
            Library::Shim
        )));
    }
    let source = source::find(arguments.from.as_deref())?;
    check_program(program)?.iter().for_each(remark);
    if let Some(nvidia) = nvidia_shim(program, context) {
        refuse_older(&source.file, &nvidia)?;
    }
    let library = preload::name(&source.file)?;
    let mut variables = vec![(PRELOAD, preload::value(&library, std::env::var_os(PRELOAD)))];
    let layers = layers(arguments);
    if layers.is_some() || context.host.variable(LAYERS_VARIABLE).is_some() {
        variables.extend(layer_path(&library).map(|path| (LAYER_PATH_VARIABLE, path)));
    }
    let checked = usable_layers(layers.as_deref(), &source.file, context)?;
    variables.extend(layers.map(|layers| (LAYERS_VARIABLE, layers)));
    let of_options: [(_, Option<OsString>); 7] = [
        (TRACE_VARIABLE, arguments.trace.as_deref().map(output_file).transpose()?),
        (CAPTURE_VARIABLE, arguments.capture.as_deref().map(output_file).transpose()?),
        (ERRATA_VARIABLE, arguments.errata.as_deref().map(absolute_files).transpose()?),
        (TUNED_VARIABLE, (!arguments.tuned.is_empty()).then(|| path_list(&arguments.tuned)).transpose()?),
        (EXPLAIN_VARIABLE, arguments.explain.as_ref().map(OsString::from)),
        (cudnn_loader::VERBOSE_VARIABLE, arguments.verbose_errors.then(|| "1".into())),
        ("CUDNN_LOADER_PRELOAD", (!arguments.preload.is_empty()).then(|| arguments.preload.join(",").into())),
    ];
    variables.extend(of_options.into_iter().filter_map(|(name, value)| Some((name, value?))));
    // With invalid variables, a layer stays off, and the program would run without it.
    layer_check::check(&checked, &variables, timeouts)?;
    Ok(variables)
}

/// Returns the NVIDIA shim that the drop-in replaces: the program's own, or the shim of the selected cuDNN.
fn nvidia_shim(program: &OsStr, context: &Context) -> Option<PathBuf> {
    let simulation = find(program).and_then(program_of).and_then(|file| context.simulation(&file).ok());
    let linked = simulation.and_then(|simulation| {
        let index = simulation.loaded(Library::Shim.file_name())?;
        nvidia_shim_in(simulation.objects().get(index)?.path.parent()?)
    });
    linked.or_else(|| nvidia_shim_in(&context.selected()?.dir))
}

/// Returns the value of the variable for an output file. The layer checks whether it can write the file.
fn output_file(file: &Path) -> Result<OsString, Refusal> {
    // If the working directory contains `%i`, an absolute path would expand the wrong one.
    let is_relative = std::env::current_dir().is_ok_and(|dir| has_process(&dir));
    if is_relative { Ok(file.into()) } else { absolute_file(file) }
}

/// Returns the absolute path, because the program may change the working directory.
pub(super) fn absolute_file(file: &Path) -> Result<OsString, Refusal> {
    let refused = |error| Refusal::new(format!("{} has no absolute path: {error}", file.printable()));
    std::path::absolute(file).map(PathBuf::into_os_string).map_err(refused)
}

/// Returns a list of absolute paths in the format of `PATH`.
fn path_list(files: &[PathBuf]) -> Result<OsString, Refusal> {
    let absolute = |file: &PathBuf| {
        let name = absolute_file(file)?;
        match std::env::join_paths([&name]) {
            Ok(_) => Ok(name),
            Err(error) => Err(Refusal::new(format!("--tuned cannot name {}: {error}", file.printable()))),
        }
    };
    let files = files.iter().map(absolute).collect::<Result<Vec<OsString>, Refusal>>()?;
    std::env::join_paths(files).map_err(|error| Refusal::new(error.to_string()))
}

/// Makes the paths absolute. `known` becomes the file with stored facts if they are in use, because for the layer it
/// means the rules of the layer's build.
fn absolute_files(rules: &OsStr) -> Result<OsString, Refusal> {
    let stored = || in_use().file.filter(|file| !file.as_os_str().as_encoded_bytes().contains(&b','));
    let absolute = |item: PathBuf| match item == Path::new("known") {
        true => Ok(stored().unwrap_or(item).into()),
        false => absolute_file(&item),
    };
    let rules = bytes_of(rules);
    let items = rules.split(|byte| *byte == b',').filter(|item| !item.is_empty());
    let items = items.map(|item| absolute(path_from_bytes(item)));
    let items = items.collect::<Result<Vec<OsString>, Refusal>>()?;
    if items.is_empty() {
        return Err(Refusal::new("--errata selects no rules").help("name files with rules, or `known`"));
    }
    Ok(items.join(OsStr::new(",")))
}

fn has_process(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().windows(2).any(|part| part == b"%i")
}

/// Returns the file name used if another process already writes to the file: `trace.PROCESS.json`.
fn with_process(file: &Path, process: u32) -> PathBuf {
    let mut extension = OsString::from(process.to_string());
    if let Some(last) = file.extension() {
        extension.push(".");
        extension.push(last);
    }
    file.with_extension(extension)
}

/// Returns values that change when the trace file is replaced or modified.
fn state(file: &Path) -> Option<(Option<FileIdentity>, SystemTime, u64)> {
    let metadata = std::fs::metadata(file).ok()?;
    Some((FileIdentity::of(file), metadata.modified().ok()?, metadata.len()))
}

/// Returns a CUDNN_LAYER_PATH that includes the drop-in's directory, or `None` if it does already. cudnn-loader does
/// not search next to the drop-in.
fn layer_path(library: &Path) -> Option<OsString> {
    let dir = library.parent()?.to_owned();
    let before = std::env::var_os(LAYER_PATH_VARIABLE).unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&before).filter(|dir| !dir.as_os_str().is_empty()).collect();
    if dirs.contains(&dir) {
        return None;
    }
    dirs.push(dir);
    std::env::join_paths(dirs).ok()
}

/// Returns the new value of CUDNN_LAYERS if an option changes it.
fn layers(arguments: &Arguments) -> Option<OsString> {
    let Arguments { layers, capture, trace, plans, errata, tuned, explain, validate, .. } = arguments;
    let writes_file = capture.is_some() || trace.is_some();
    let is_any = writes_file || *plans || errata.is_some() || !tuned.is_empty() || explain.is_some() || *validate;
    if layers.is_empty() && !is_any {
        return None;
    }
    let before = || std::env::var_os(LAYERS_VARIABLE).filter(|before| !before.is_empty());
    let mut list = if layers.is_empty() { Vec::from_iter(before()) } else { layers.clone() };
    let names = list.join(OsStr::new(","));
    let has = |layer: &str| names.as_encoded_bytes().split(|byte| *byte == b',').any(|name| name == layer.as_bytes());
    // These layers record and check the program's calls before another layer can change them.
    let outermost = [("capture", capture.is_some()), ("trace", trace.is_some()), ("validate", *validate)];
    let outermost = outermost.into_iter().filter(|(layer, is_on)| *is_on && !has(layer));
    list.splice(0..0, outermost.map(|(layer, _)| layer.into()));
    // The layers, and the inner layers that each must enclose.
    let others: [(&str, bool, &[&str]); 4] = [
        // The layer `plans` is off if another layer could change graphs below it.
        ("errata", errata.is_some(), &["plans"]),
        // `errata` may be the reason why no engine is left.
        ("explain", explain.is_some(), &["errata", "plans"]),
        // `errata` must also block ranked engines.
        ("tuned", !tuned.is_empty(), &["plans"]),
        ("plans", *plans, &[]),
    ];
    for (layer, _, inner) in others.into_iter().filter(|(layer, is_on, _)| *is_on && !has(layer)) {
        let index = inner.iter().find_map(|inner| list.iter().position(|other| other == inner));
        list.insert(index.unwrap_or(list.len()), layer.into());
    }
    Some(list.join(OsStr::new(",")))
}

/// Returns the layers with the libraries that the loader tries first. Unusable layers are errors if an option requests
/// them.
pub(super) fn usable_layers(
    layers: Option<&OsStr>,
    drop_in: &Path,
    context: &Context,
) -> Result<Vec<(String, PathBuf)>, Refusal> {
    let (host, is_requested) = match layers {
        Some(layers) => (context.host.clone().env(LAYERS_VARIABLE, layers), true),
        None => (context.host.clone(), false),
    };
    let requested = requested_layers(&host, drop_in.parent());
    let refused = |name: &str, reason: &str| {
        let help = "`capture`, `trace`, `validate`, `explain`, `errata`, `tuned` and `plans` are in the library next \
                    to the drop-in; for other layers, set CUDNN_LAYER_PATH or give the absolute path";
        Refusal::new(format!("the layer {} cannot be used: {reason}", name.printable())).help(help)
    };
    let mut usable = Vec::new();
    for LayerAnswer { name, file } in check_layers(requested) {
        match file {
            Ok(file) => usable.push((name, file)),
            Err(reason) if is_requested => return Err(refused(&name, &reason)),
            Err(_) => {}
        }
    }
    Ok(usable)
}

/// Returns a note if the program's Python environment has a cudnn-frontend with separate engines.
fn unseen_engines(program: &OsStr, context: &Context) -> Option<String> {
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
