//! `demo`: installs cuDNN if necessary, then runs it up to a convolution, with the time of every step.

use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{Format, Outcome, fail, outln, remark};
use cudnn_cli::platform::{MEMORY_HELP, safe_working_dir};
use cudnn_cli::programs::doctor;
use cudnn_fetch::{FetchError, Network};
use cudnn_loader::{LoadError, Options};
use cudnn_os::memory_limits::MemoryLimits;
use cudnn_probe::{Os, ProbeError};
use cudnn_rules::context::Context;

use super::fetch::fetch_libraries;
use crate::demo::{DemoError, run_demo};

/// The smallest release with real kernels, to fetch if cuDNN is missing. JIT-only releases exist only for Linux.
const FALLBACK_RELEASE: &str = match Os::HOST {
    Os::Windows => "windows-cu13",
    _ => "jit-cu12-9.19.0",
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Never fetch a cuDNN. Fail if none is installed.
    #[arg(long)]
    offline: bool,
}

pub(crate) fn run(arguments: &Arguments, context: &Context) -> Outcome {
    let demo = choose(arguments, context).and_then(|options| {
        // An empty or relative element of a search path must not select libraries from the user's directory.
        std::env::set_current_dir(safe_working_dir())?;
        run_demo(&options)
    });
    match demo {
        Ok(()) => Outcome::Fine,
        Err(error) => {
            let text = match error.downcast_ref::<LoadError>() {
                Some(error) => error.report(),
                None => format!("{error:#}"),
            };
            let failed = fail(Format::Text, format_args!("\nerror: {text}"));
            if let Some(reason) = MemoryLimits::read().explains_message(&text) {
                remark(format_args!("note: {reason}\nhelp: {}", MEMORY_HELP));
            }
            // A failed download is unrelated to cuDNN.
            if error.is::<FetchError>() { failed } else { Outcome::Errors }
        }
    }
}

/// Lists the installations and returns the selected one, or fetches a release.
fn choose(arguments: &Arguments, context: &Context) -> Result<Options, DemoError> {
    let selection = context.select(&Default::default());
    let selected = selection.installation.as_ref();
    for installed in context.inventory() {
        let report = &installed.report;
        let mark = if selected.is_some_and(|selected| selected.dir == report.dir) { "->" } else { "  " };
        let version = report.version.map_or(report.major.to_string(), |version| version.to_string());
        let cuda = report.cuda().map_or("CUDA unknown".into(), |cuda| format!("CUDA {cuda}"));
        let origin = installed.origin().map_or(String::new(), ToString::to_string);
        outln!("{mark} cuDNN {version} ({cuda}) in {}: {}", report.dir.printable(), origin.printable());
    }
    for rejected in selection
        .rejected
        .iter()
        .filter(|one| !matches!(one.error, ProbeError::NotFound | ProbeError::GraphMissing { .. }))
    {
        let (dir, error) = (rejected.candidate.dir.printable(), rejected.error.to_string());
        outln!("rejected: {dir} {}", error.printable());
        outln!("  = help: `{} check` shows how to repair it", doctor());
    }
    match selected {
        Some(selected) => {
            let origin = selected.origin.to_string();
            outln!("The demo uses the marked one (found: {}).", origin.printable());
            Ok(Options::new().path(&selected.dir))
        }
        // The loader reports problems of a directory that the user named.
        None if context.search.explicit_candidate().is_some() => Ok(Options::new()),
        None => {
            outln!("No usable cuDNN is installed.");
            begin(Work::Fetch, format!("fetched {FALLBACK_RELEASE}"));
            let network = if arguments.offline { Network::Forbidden } else { Network::Allowed };
            let dir = fetch_libraries(FALLBACK_RELEASE, None, network, |release| {
                let (package, version, megabytes) = (release.package, release.version, release.megabytes);
                outln!("The demo uses {package} {version} ({megabytes} MB, downloaded unless it is in the cache).");
            })?;
            Ok(Options::new().path(dir))
        }
    }
}
