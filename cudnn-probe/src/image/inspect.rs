//! Answers questions of tools about libraries of any operating system and processor.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::ProbeError;
use crate::facts::{self, Subject};
use crate::library::Library;
use crate::platform::Os;

use super::elf::Elf;
use super::file::LibraryFile;
use super::identify::{Identity, read};
use super::pe::Pe;
use super::run_path;

/// The error for a library with the right processor but a different word size or byte order.
const OTHER_CLASS: &str = "it is a 32-bit or big-endian library";

/// Like [`identify`](super::identify), but for any operating system and processor. It also derives CUDA versions from
/// the run path, which [`identify`](super::identify) does not read.
///
/// # Errors
/// Returns an error if the file is a different library or invalid.
pub fn identify_any(path: &Path, library: Library) -> Result<Identity, ProbeError> {
    facts::ask("identity on any system", Subject::about(path, library.file_name()), || {
        let file = LibraryFile::open(path)?;
        let identity = file.parse(None).and_then(|format| read(path, library, &*format));
        let mut identity = identity.map_err(|error| match error {
            // The processor matches, so the word size or byte order differs.
            ProbeError::WrongArchitecture { found, wanted } if found == wanted => {
                ProbeError::Malformed { reason: OTHER_CLASS.into() }
            }
            error => error,
        })?;
        let (major, at_most) = run_path::cuda(identity.run_path.as_deref().unwrap_or_default(), identity.version);
        // The metadata may belong to a different wheel that was installed over this file.
        identity.cuda_major = major.or(identity.cuda_major.filter(|major| at_most.is_none_or(|most| *major <= most)));
        identity.cuda_at_most = identity.cuda_at_most.or(at_most);
        Ok(identity)
    })
}

/// Returns the parts of a Linux library that ld.so loads. Parts without machine code come first, because they contain
/// texts.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn loaded_parts(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("loaded parts", path, || Ok(LibraryFile::open_for(path, Os::Linux)?.elf()?.loaded_parts()))
}

/// Like [`parts_without_gpu_code`](super::parts_without_gpu_code), but for libraries of any system.
///
/// # Errors
/// Returns an error if reading the file fails.
pub fn parts_without_gpu_code_any(path: &Path) -> Result<Vec<Range<u64>>, ProbeError> {
    facts::ask("parts without GPU code on any system", path, || LibraryFile::open(path)?.parts_without_gpu_code())
}

/// Returns the cuDNN functions that `replaced` exports and `library` does not. A replacement such as the drop-in must
/// export all functions, because programs that call a missing one do not start.
///
/// # Errors
/// Returns an error if reading one of the files fails.
pub fn missing_exports(library: &Path, replaced: &Path) -> Result<Vec<String>, ProbeError> {
    facts::ask("missing exports", Subject::about(library, &replaced.to_string_lossy()), || {
        let functions = |path: &Path| {
            let file = LibraryFile::open(path)?;
            match file.os {
                Os::Linux => file.elf()?.functions("cudnn"),
                Os::Windows => Ok(Pe::read(&file.data, None)?.functions("cudnn")),
            }
        };
        let present: BTreeSet<String> = functions(library)?.into_iter().collect();
        let mut missing = functions(replaced)?;
        missing.retain(|function| !present.contains(function));
        missing.sort_unstable();
        Ok(missing)
    })
}

/// Returns the versions of symbols that a Linux library requires from the library with this name, and that `found` does not
/// define: `GLIBCXX_3.4.30`. ld.so then refuses to load the library.
///
/// # Errors
/// Returns an error if reading one of the files fails.
pub fn missing_versions(library: &Path, name: &str, found: &Path) -> Result<Vec<String>, ProbeError> {
    let subject = Subject::about(library, &format!("{name} {}", found.display())).and([found]);
    facts::ask("missing versions", subject, || {
        let mut needed = LibraryFile::open_for(library, Os::Linux)?.elf()?.needed_versions(name);
        if !needed.is_empty() {
            let defined = LibraryFile::open_for(found, Os::Linux)?.elf()?.defined_versions();
            needed.retain(|version| !defined.is_empty() && !defined.contains(version));
        }
        Ok(needed)
    })
}

/// Returns the program interpreter of a Linux program for this processor, such as `/lib64/ld-linux-x86-64.so.2`.
/// Returns `None` for libraries and statically linked programs.
#[must_use]
pub fn elf_interpreter(path: &Path) -> Option<PathBuf> {
    facts::ask("interpreter", path, || {
        let file = LibraryFile::open_for(path, Os::Linux).ok()?;
        Elf::read_any(&file.data).ok()?.interpreter()
    })
}
