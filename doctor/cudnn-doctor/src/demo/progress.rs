//! Prints the progress of the demo and describes failures.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cudnn_backend::gpu::Gpu;
use cudnn_cli::child_report::{Work, begin};
use cudnn_cli::escape::Printable;
use cudnn_cli::output::{milliseconds, outln};
use cudnn_frameworks::{mapped_libraries, real_path};
use cudnn_loader::{self as cudnn, Function, Library, LoadErrorKind, cudnnStatus_t, loaded_library};

/// An error message that includes help.
pub(crate) type DemoError = Box<dyn std::error::Error>;

/// The help for a failure inside cuDNN.
pub(crate) const HELP: &str = "to see cuDNN's own log, set CUDNN_LOGLEVEL_DBG=2 and CUDNN_LOGDEST_DBG=stderr; to try another \
                    installation, set CUDNN_LOADER_DIR to its directory";

pub(super) fn driver_failure(error: impl Display) -> DemoError {
    format!(
        "the GPU cannot be used: {error}\nhelp: check that `nvidia-smi` works and lists the GPU as free; if it does not, \
         reinstall the driver, or reboot if it was just updated"
    )
    .into()
}

#[derive(Default)]
pub(super) struct Progress {
    libraries: Vec<PathBuf>,
    /// Whether a step failed only because the driver is missing.
    pub(super) lacks_driver: bool,
}

impl Progress {
    /// Makes the first call into a sub-library, then prints the loaded libraries and the time. A missing sub-library is
    /// not a failure.
    pub(super) fn first_call(
        &mut self,
        function: Function,
        call: impl FnOnce() -> Result<(), cudnn::Error>,
    ) -> Result<(), DemoError> {
        begin(Work::Load, format!("called {function} for the first time"));
        let start = Instant::now();
        let result = function.resolve().map(|_| call());
        self.call(function.name(), start);
        match result {
            Ok(Ok(())) => {}
            // cuDNN's engines open the driver's library.
            Ok(Err(error))
                if error.status == cudnnStatus_t::CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED
                    && function == Function::CudnnBackendCreateDescriptor
                    && !Gpu::has_driver() =>
            {
                outln!(
                    "     failed: this cuDNN's engines need libcuda.so.1, the driver's library, which is not installed"
                );
                self.lacks_driver = true;
            }
            Ok(Err(error)) => return Err(format!("{error:#}\nhelp: {HELP}").into()),
            Err(error)
                if matches!(error.kind(), LoadErrorKind::LibraryMissing | LoadErrorKind::FunctionTooNew { .. }) =>
            {
                outln!("     the installation does not include {}", function.library());
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Prints the libraries that a call loaded, with the elapsed time.
    pub(super) fn call(&mut self, name: &str, start: Instant) {
        let time = milliseconds(start.elapsed());
        self.opened();
        outln!("  {name}: {time:.2} ms");
    }

    /// Prints newly loaded libraries: first the loader's with load times, then cuDNN's.
    pub(super) fn opened(&mut self) {
        for opened in Library::WITH_API.iter().filter_map(|library| loaded_library(*library)) {
            if self.is_new(&opened.path) {
                outln!("     loaded {} in {:.2} ms", opened.path.printable(), milliseconds(opened.duration));
            }
        }
        for mapped in mapped_libraries(std::process::id()).unwrap_or_default() {
            let name = mapped.path.file_name().unwrap_or_default();
            if name.as_encoded_bytes().starts_with(b"libcudnn") && self.is_new(&mapped.path) {
                outln!("     loaded {}", mapped.path.printable());
            }
        }
    }

    fn is_new(&mut self, path: &Path) -> bool {
        let path = real_path(path);
        let is_new = !self.libraries.contains(&path);
        self.libraries.extend(is_new.then_some(path));
        is_new
    }
}
