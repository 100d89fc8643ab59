//! Tests the loader on real cuDNN and on fake libraries, with a child process for every case.

mod adoption;
mod calls;
mod fork;
mod graph_plugins;
mod hooks;
mod preload;
mod retries;
mod selection;
mod threads;
mod verification;

use std::path::{Path, PathBuf};

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{Child, ChildOutput, FakeLibrary, Subject, TempDir, graph_with};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const JIT: Version = Version::new(9, 19, 0);

fn child(dir: &Path) -> Child {
    Child::new(DRIVER, Subject::Loader, dir)
}

/// Runs a child, which must exit with 0.
fn run(child: Child, args: &[&str]) -> ChildOutput {
    child.run_successfully(args)
}

/// Returns the files of cuDNN that were mapped at every `maps` argument, in order.
fn mapped(output: &ChildOutput) -> Vec<PathBuf> {
    output.stdout.lines().filter_map(|line| line.strip_prefix("mapped ")).map(PathBuf::from).collect()
}

/// Combines the real graph library of a JIT wheel with fake libraries for the missing ones.
fn complete_jit(jit: &Path) -> TempDir {
    let dir = TempDir::links_to(jit);
    for library in [Library::Ops, Library::Cnn, Library::Adv] {
        FakeLibrary::new(library, JIT).build(&dir.file(library));
    }
    dir
}
