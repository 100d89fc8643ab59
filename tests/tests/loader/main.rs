//! The loader on real cuDNN and on fake libraries, each case in a child process.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, reason = "a failing test panics")]

mod adoption;
mod calls;
mod fork;
mod graph_plugins;
mod preload;
mod selection;
mod threads;

use std::path::{Path, PathBuf};

use cudnn_loader::Version;
use cudnn_probe::Library;
use support::{Child, ChildOutput, FakeLibrary, Subject, TempDir};

const DRIVER: &str = env!("CARGO_BIN_EXE_driver");
const JIT: Version = Version::new(9, 19, 0);

fn child(folder: &Path) -> Child {
    Child::new(DRIVER, Subject::Loader, folder)
}

/// Runs a child that must end by itself.
fn run(child: Child, words: &[&str]) -> ChildOutput {
    let ended = child.run(words);
    assert_eq!(ended.code, Some(0), "{words:?}: {ended:#?}");
    ended
}

/// The files of cuDNN's that were mapped whenever the child was asked, one after the other.
fn mapped(ended: &ChildOutput) -> Vec<PathBuf> {
    ended.stdout.lines().filter_map(|line| line.strip_prefix("mapped ")).map(PathBuf::from).collect()
}

/// The real graph library of a JIT wheel, with stand-ins for the libraries that such a wheel has not.
fn completed(jit: &Path) -> TempDir {
    let folder = TempDir::links_to(jit);
    for library in [Library::Ops, Library::Cnn, Library::Adv] {
        FakeLibrary::new(library, JIT).build(&folder.file(library));
    }
    folder
}

/// A good graph library, in C, of which the given code is a part.
fn graph_with(code: &str) -> TempDir {
    let folder = TempDir::new();
    FakeLibrary::new(Library::Graph, JIT).with_code(code).build(&folder.file(Library::Graph));
    folder
}
