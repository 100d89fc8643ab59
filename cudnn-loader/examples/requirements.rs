//! Loads a cuDNN that meets the given requirements and prints the installation or the error:
//! `cargo run --example requirements -- [MINIMUM_VERSION [DIRECTORY]]`.

use std::process::ExitCode;

use cudnn_loader::{self as cudnn, Options, Version};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options::new();
    if let Some(version) = arguments.next() {
        let Ok(version) = version.parse::<Version>() else {
            eprintln!("not a version: {version}");
            return ExitCode::FAILURE;
        };
        options = options.minimum_version(version);
    }
    if let Some(dir) = arguments.next() {
        options = options.path(dir);
    }
    match options.load() {
        Ok(installation) => {
            println!("cuDNN {} in {}", installation.version, installation.dir.display());
            // SAFETY: the function has no parameters and no preconditions.
            println!("cudnnGetVersion = {}", unsafe { cudnn::cudnnGetVersion() });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
