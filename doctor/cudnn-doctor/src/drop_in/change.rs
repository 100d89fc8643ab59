//! Installs the drop-in in front of a cuDNN, or removes it. Only renames change the directory, so that it is valid at
//! any moment.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Result as IoResult, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_os::files::{is_like_tmp, lock_dir, make_as_private_as, symlink, sync_dir};
use cudnn_os::processes::users_of;
use cudnn_os::rights::{belongs_to_user, is_root, take_rights};
use cudnn_probe::{Host, Library, Os};
use cudnn_rules::check::drop_in::{bring_back, removal};
use cudnn_rules::check::remedies;
use cudnn_rules::drop_in::LAYERS;
use cudnn_rules::drop_in::functions::refuse_older;
use cudnn_rules::drop_in::source::DropInSource;
use cudnn_rules::drop_in::state::{BackupState, DropInFiles, DropInState, Layers, Shim, shared_package};
use cudnn_rules::refusal::Refusal;
use cudnn_rules::remedy::Remedy;
use tempfile::TempPath;

const UNFINISHED: &str = ".cudnn-doctor-";

const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropInChange {
    /// No change was needed.
    None,
    /// The drop-in replaced NVIDIA's shim.
    Installed,
    /// The drop-in replaced another drop-in.
    Updated,
    /// The drop-in stayed, but other layers are on.
    Configured,
    /// NVIDIA's shim was restored.
    Restored,
    /// Leftover files were removed. NVIDIA's shim was already in place, or cuDNN had been uninstalled.
    Cleaned,
}

#[derive(Debug)]
pub(crate) struct ChangedDropIn {
    pub(crate) change: DropInChange,
    pub(crate) state: DropInState,
}

/// The layers that are on without variables.
pub(crate) struct LayerOptions {
    /// The list of layers, with commas.
    pub(crate) layers: OsString,
    /// The rankings of the layer `tuned`.
    pub(crate) tuned: Option<PathBuf>,
}

/// Installs the drop-in in front of the cuDNN in this directory. Without options, the layers stay as they are.
pub(crate) fn install(
    dir: &Path,
    source: &DropInSource,
    options: Option<&LayerOptions>,
    host: &Host,
) -> Result<ChangedDropIn, Refusal> {
    let lock = lock(dir)?;
    let state = DropInState::read(dir, host);
    let (place, name) = (dir.printable(), Library::Shim);
    let change = match (&state.shim, &state.kept) {
        (Shim::Other(reason), _) => return Err(unknown(&state, reason)),
        // Without cuDNN's other libraries, no shim can be replaced.
        (Shim::Nvidia, _) if !state.has_cudnn() => {
            let message = format!("{place} has NVIDIA's {name}, but none of cuDNN's other libraries");
            return Err(reinstall(message, &state));
        }
        // cuDNN was uninstalled.
        _ if !state.has_cudnn() => {
            let message = format!("{place} has leftover files of the drop-in, but no cuDNN");
            return Err(Refusal::new(message).help(Remedy::new("to remove them:").action(removal(dir))));
        }
        (Shim::Missing, BackupState::Missing) => {
            return Err(reinstall(format!("{place} has no {name} that the drop-in could replace"), &state));
        }
        (Shim::Nvidia, _) | (Shim::Missing, BackupState::OfThisRelease) => DropInChange::Installed,
        (Shim::DropIn, BackupState::OfThisRelease) if is_current(&state, source) => DropInChange::None,
        (Shim::DropIn, BackupState::OfThisRelease) => DropInChange::Updated,
        (Shim::DropIn | Shim::Missing, _) => return Err(stale(dir, &state)),
    };
    refuse_shared(&state)?;
    let DropInFiles { shim, kept, layers, .. } = &state.files;
    refuse_older(&source.file, if state.shim == Shim::Nvidia { shim } else { kept })?;
    if state.layers == Layers::Other {
        let message = format!("{} is not this project's {LAYERS}; it was left unchanged", layers.printable());
        return Err(Refusal::new(message).help("rename it"));
    }
    if options.is_some_and(|options| !options.layers.as_encoded_bytes().trim_ascii().is_empty()) {
        refuse_ignored(dir, &state)?;
    }
    // Read and written first, so that errors are detected before any change.
    let new_options = options.map(|options| prepare(dir, options, &state)).transpose();
    let new_options = new_options.map_err(|(what, error)| not_writable(dir, &what, &error))?;
    if change != DropInChange::None {
        refuse_used(dir, &state)?;
        put(dir, source, &state).map_err(|(what, error)| not_writable(dir, &what, &error))?;
    }
    if let Some(new) = new_options {
        put_options(dir, new).map_err(|(what, error)| not_turned_on(dir, &what, &error))?;
    }
    let change = if change == DropInChange::None && options.is_some() { DropInChange::Configured } else { change };
    drop(lock);
    Ok(ChangedDropIn { change, state: DropInState::read(dir, host) })
}

/// Removes the drop-in from this directory.
pub(crate) fn uninstall(dir: &Path, host: &Host) -> Result<ChangedDropIn, Refusal> {
    let lock = lock(dir)?;
    let state = DropInState::read(dir, host);
    let has_cudnn = state.has_cudnn();
    let is_clean = state.kept == BackupState::Missing && state.layers != Layers::Ours && !state.has_options();
    let change = match (&state.shim, &state.kept) {
        (Shim::Other(reason), _) => return Err(unknown(&state, reason)),
        (Shim::DropIn, BackupState::Missing) => return Err(stale(dir, &state)),
        // The installer's records still list a file with this name.
        (Shim::DropIn, _) if !has_cudnn && !state.has_recorded_shim() => DropInChange::Cleaned,
        (Shim::DropIn, BackupState::Stale(_)) => return Err(stale(dir, &state)),
        (Shim::DropIn, BackupState::OfThisRelease) => DropInChange::Restored,
        (Shim::Missing, BackupState::OfThisRelease) if has_cudnn => DropInChange::Restored,
        (Shim::Nvidia | Shim::Missing, _) if is_clean => DropInChange::None,
        (Shim::Nvidia | Shim::Missing, _) => DropInChange::Cleaned,
    };
    if change != DropInChange::None {
        refuse_used(dir, &state)?;
        take_away(change, &state).map_err(|(what, error)| not_writable(dir, &what, &error))?;
        sync_dir(dir);
    }
    drop(lock);
    Ok(ChangedDropIn { change, state: DropInState::read(dir, host) })
}

/// Performs the steps of `uninstall`.
fn take_away(change: DropInChange, state: &DropInState) -> Result<(), FileError> {
    let DropInFiles { shim, kept, layers, list, tuned } = &state.files;
    let remove = |file: &Path| std::fs::remove_file(file).map_err(at(file));
    for options in [list, tuned] {
        remove(options).or_else(|(what, error)| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err((what, error)),
        })?;
    }
    if change == DropInChange::Restored {
        std::fs::rename(kept, shim).map_err(at(shim))?;
    } else if state.shim == Shim::DropIn {
        remove(shim)?;
    }
    if state.layers == Layers::Ours {
        remove(layers)?;
    }
    // Removed last, because this file shows that leftovers exist.
    if change == DropInChange::Cleaned && state.kept != BackupState::Missing { remove(kept) } else { Ok(()) }
}

type FileError = (String, std::io::Error);

fn at(file: &Path) -> impl FnOnce(std::io::Error) -> FileError {
    let what = file.printable();
    move |error| (what, error)
}

/// Performs the steps of `install`. If one fails, the completed steps are undone, but newer layers stay in place.
fn put(dir: &Path, source: &DropInSource, state: &DropInState) -> Result<(), FileError> {
    let DropInFiles { shim, kept, layers, .. } = &state.files;
    let like = present_shim(state);
    // Write complete copies first, so that a full disk is detected before any change.
    let copied = |from: &Path, to: &Path| {
        let content = std::fs::read(from).map_err(at(from))?;
        copy(&content, dir, like, take_rights).map_err(at(to))
    };
    let new_shim = copied(&source.file, shim)?;
    let new_layers = source.layers.as_deref().map(|file| copied(file, layers)).transpose()?;
    let is_new = state.shim == Shim::Nvidia;
    if is_new {
        keep(shim, kept, dir).map_err(at(kept))?;
    }
    let in_place = match new_layers {
        Some(new) => std::fs::rename(&new, layers).map_err(at(layers)),
        None => Ok(()),
    };
    let in_place = in_place.and_then(|()| std::fs::rename(&new_shim, shim).map_err(at(shim)));
    if in_place.is_err() && is_new {
        // NVIDIA's shim is still available under the original name.
        let _ = std::fs::remove_file(kept);
    }
    if in_place.is_err() && state.layers == Layers::Missing {
        let _ = std::fs::remove_file(layers);
    }
    sync_dir(dir);
    in_place
}

/// Writes the files that turn layers on under temporary names, and returns them with their final paths.
fn prepare<'a>(
    dir: &Path,
    options: &LayerOptions,
    state: &'a DropInState,
) -> Result<Vec<(TempPath, &'a Path)>, FileError> {
    let DropInFiles { list, tuned, .. } = &state.files;
    let written = |content: &[u8], to: &'a Path| match to.is_dir() {
        true => Err(at(to)(ErrorKind::IsADirectory.into())),
        false => Ok((copy(content, dir, dir, take_owner_for_all_readers).map_err(at(to))?, to)),
    };
    let mut new = Vec::new();
    // The rankings come first, because the list makes programs read them.
    if let Some(from) = &options.tuned {
        new.push(written(&std::fs::read(from).map_err(at(from))?, tuned)?);
    }
    new.push(written(&[options.layers.as_encoded_bytes(), b"\n"].concat(), list)?);
    Ok(new)
}

fn put_options(dir: &Path, new: Vec<(TempPath, &Path)>) -> Result<(), FileError> {
    new.into_iter().try_for_each(|(file, place)| std::fs::rename(&file, place).map_err(at(place)))?;
    sync_dir(dir);
    Ok(())
}

fn present_shim(state: &DropInState) -> &Path {
    if state.shim == Shim::Missing { &state.files.kept } else { &state.files.shim }
}

/// Gives a file to the owner of a directory. Only the owner can write to it, because programs ignore other users'
/// options.
fn take_owner_for_all_readers(file: &File, dir: &Metadata) -> IoResult<()> {
    take_rights(file, dir)?;
    make_as_private_as(file, &file.metadata()?)
}

/// Writes contents to a temporary file with the permissions of the file `like`.
fn copy(content: &[u8], dir: &Path, like: &Path, rights: fn(&File, &Metadata) -> IoResult<()>) -> IoResult<TempPath> {
    let mut new = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(dir)?;
    new.write_all(content)?;
    rights(new.as_file(), &std::fs::symlink_metadata(like)?)?;
    new.as_file().sync_all()?;
    Ok(new.into_temp_path())
}

/// Adds a second name for NVIDIA's shim. Hard and symbolic links are preserved if the file system supports them.
fn keep(shim: &Path, kept: &Path, dir: &Path) -> IoResult<()> {
    let is_link = shim.symlink_metadata()?.is_symlink();
    // A link needs an unused name, and `make` tries names until one is free.
    let second = tempfile::Builder::new().prefix(UNFINISHED).make_in(dir, |name| {
        if is_link { symlink(&std::fs::read_link(shim)?, name) } else { std::fs::hard_link(shim, name) }
    });
    let second = match second {
        Ok(second) => second.into_temp_path(),
        // The file system lacks links, or the file belongs to another user.
        Err(_) => {
            let second = copy(&std::fs::read(shim)?, dir, shim, take_rights)?;
            let times = std::fs::metadata(shim)?;
            let times = std::fs::FileTimes::new().set_accessed(times.accessed()?).set_modified(times.modified()?);
            File::options().write(true).open(&second)?.set_times(times)?;
            second
        }
    };
    // If the backup is already a link to this file, the rename is a no-op. The temporary name is removed later.
    std::fs::rename(&second, kept)?;
    sync_dir(dir);
    Ok(())
}

/// Returns whether the installed files match the source.
fn is_current(state: &DropInState, source: &DropInSource) -> bool {
    let is_same = |one: &Path, other: &Path| {
        let hash = cudnn_fetch::sha256(one);
        hash.is_some() && hash == cudnn_fetch::sha256(other)
    };
    let layers = source.layers.as_deref();
    is_same(&state.files.shim, &source.file) && layers.is_none_or(|layers| is_same(layers, &state.files.layers))
}

/// Locks a directory and removes temporary files left by a killed doctor.
fn lock(dir: &Path) -> Result<Option<File>, Refusal> {
    let start = Instant::now();
    let file = loop {
        match lock_dir(dir) {
            Ok(file) => break file,
            Err(error) if error.kind() == ErrorKind::WouldBlock && start.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let seconds = LOCK_TIMEOUT.as_secs();
                let message = format!("another process has locked {} for {seconds} seconds", dir.printable());
                return Err(Refusal::new(message).help("wait for the other cudnn-doctor, or end it"));
            }
            Err(error) => return Err(Refusal::new(format!("{} cannot be opened: {error}", dir.printable()))),
        }
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().filter(|_| file.is_some());
    for name in entries.map(|entry| entry.file_name()).filter(|name| is_unfinished(name)) {
        let _ = std::fs::remove_file(dir.join(name));
    }
    Ok(file)
}

/// Returns whether `tempfile` generates names like this one.
fn is_unfinished(name: &OsStr) -> bool {
    let random = name.as_encoded_bytes().strip_prefix(UNFINISHED.as_bytes());
    random.is_some_and(|random| random.len() == 6 && random.iter().all(u8::is_ascii_alphanumeric))
}

fn refuse_shared(state: &DropInState) -> Result<(), Refusal> {
    let Some(package) = state.report.as_ref().and_then(shared_package) else { return Ok(()) };
    let file = state.files.shim.printable();
    let message = format!("{file} belongs to {package}, a package of the system, which all users share");
    Err(Refusal::new(message)
        .help(format!("put the drop-in in front of one program instead: `{} run -- PROGRAM`", doctor())))
}

/// Refuses files in use, because replacing a loaded file fails on Windows.
fn refuse_used(dir: &Path, state: &DropInState) -> Result<(), Refusal> {
    let DropInFiles { shim, kept, layers, .. } = &state.files;
    let used = [shim, kept, layers].into_iter().find_map(|file| Some((file, users_of(file)?)));
    let Some((file, users)) = used else { return Ok(()) };
    let users = if users.is_empty() { "another program".to_owned() } else { users.join(", ").printable() };
    let message = format!("cannot change {}: {} is in use by {users}", dir.printable(), file.printable());
    Err(Refusal::new(message).help("end that program, then run the command again"))
}

fn unknown(state: &DropInState, reason: &str) -> Refusal {
    reinstall(format!("{} {reason}; it was left unchanged", state.files.shim.printable()), state)
}

fn reinstall(message: String, state: &DropInState) -> Refusal {
    let help = state.report.as_ref().map(remedies::reinstall);
    Refusal { help, ..Refusal::new(message) }
}

fn stale(dir: &Path, state: &DropInState) -> Refusal {
    let message = format!("{}: {}, so it could not be restored", dir.printable(), state.problem_of_backup());
    Refusal { help: state.report.as_ref().map(bring_back), ..Refusal::new(message) }
}

fn not_turned_on(dir: &Path, what: &str, error: &std::io::Error) -> Refusal {
    let message = format!("the drop-in is in {}, but the layers were not turned on: {what}: {error}", dir.printable());
    Refusal::new(message).help("fix the cause, then run the command again")
}

/// Refuses a directory in which programs ignore the files that turn layers on.
fn refuse_ignored(dir: &Path, state: &DropInState) -> Result<(), Refusal> {
    let (reason, help) = if is_like_tmp(dir) {
        ("other users can add files to its directory", "change the mode of the directory with `chmod`")
    } else if !is_root() && !belongs_to_user(dir) {
        ("it would belong to another user than root and the owner of its directory", "run the command as that owner")
    } else {
        return Ok(());
    };
    let message = format!("programs would ignore {}, because {reason}", state.files.list.printable());
    Err(Refusal::new(message).help(help))
}

fn not_writable(dir: &Path, what: &str, error: &std::io::Error) -> Refusal {
    let refusal = Refusal::new(format!("cannot change {}: {what}: {error}", dir.printable()));
    if !matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
        return refusal.help("programs still load the same files as before; fix the cause, then try again");
    }
    let rights = match belongs_to_user(dir) {
        true => "make the directory writable",
        false => "run the command as the owner of the directory",
    };
    match Os::HOST {
        Os::Windows => refusal.help(rights),
        _ => {
            refusal.help(format!("{rights}, or put the drop-in in front of one program: `{} run -- PROGRAM`", doctor()))
        }
    }
}
