//! `facts --update` and `--reset`: store newer facts about releases for this user, and remove them.
//!
//! A new file must be complete, valid, and newer than the facts in use.

use std::ffi::OsString;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cudnn_cli::escape::Printable;
use cudnn_cli::programs::doctor;
use cudnn_fetch::sha256_hex;
use cudnn_os::clock::local_time;
use cudnn_os::environment::is_secure_execution;
use cudnn_os::files::{Opened, open_regular};
use cudnn_os::rights::is_root;
use cudnn_os::trusted_files::{Directory, TrustError};
use cudnn_rules::refusal::Refusal;
use cudnn_rules::release_facts::{FILE_NAME, InUse, MAX_LEN, ReleaseFacts, in_use, stored_file};

use crate::fix::changeable_by_others;

const MAX_CHECKSUM_LEN: u64 = 4096;

/// Stores and returns the facts in a file with this SHA-256, or with the one in the file next to it.
pub(super) fn update(file: &Path, sha256: Option<&str>) -> Result<InUse, Refusal> {
    let stored = writable_file()?;
    let bytes = read(file, MAX_LEN)?;
    let (expected, stated_by) = match sha256 {
        Some(digits) => (digits.to_owned(), "--sha256".to_owned()),
        None => checksum_next_to(file)?,
    };
    if expected.len() != 64 || !expected.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(Refusal::new(format!("{stated_by} does not start with a SHA-256 of 64 hexadecimal digits")));
    }
    let found = sha256_hex(&bytes);
    if !found.eq_ignore_ascii_case(&expected) {
        return Err(Refusal::new(format!(
            "{} was changed or is incomplete: its SHA-256 is {found}, but {stated_by} states {}",
            file.printable(),
            expected.printable()
        ))
        .help("get the file and its SHA-256 again from where they were published"));
    }
    let invalid = |reason: &str| Refusal::new(format!("{}: {}", file.printable(), reason.printable()));
    let text = std::str::from_utf8(&bytes).map_err(|_| invalid("it is not UTF-8"))?;
    let facts = ReleaseFacts::parse(text).map_err(|reason| invalid(&reason))?;
    if today().is_some_and(|today| facts.date > today) {
        return Err(invalid(&format!("its date, {}, is in the future", facts.date)));
    }
    let now = in_use().facts;
    if facts.version <= now.version {
        return Err(invalid(&format!(
            "version {} of {} is not newer than version {} of {}, which is in use",
            facts.version, facts.date, now.version, now.date
        )));
    }
    store(&stored, &bytes).map_err(|reason| cannot("write", &stored, &reason))?;
    Ok(InUse { facts, file: Some(stored), ignored: None })
}

/// Returns tomorrow's date, because files may come from other time zones. `None` if the clock is wrong.
fn today() -> Option<String> {
    const DAY: u64 = 24 * 60 * 60;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    Some(local_time("%Y-%m-%d".as_ref(), now + DAY)?.to_string_lossy().into_owned())
}

/// Removes the stored facts, and returns their file if there was one.
pub(super) fn reset() -> Result<Option<PathBuf>, Refusal> {
    let stored = writable_file()?;
    let removed = Directory::open(stored.parent().unwrap_or(&stored)).and_then(|dir| Ok(dir.remove_file(FILE_NAME)?));
    match removed {
        Ok(()) => Ok(Some(stored)),
        Err(TrustError::System(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(reason) => Err(cannot("remove", &stored, &reason)),
    }
}

fn cannot(what: &str, file: &Path, reason: &TrustError) -> Refusal {
    Refusal::new(format!("cannot {what} {}: {}", file.printable(), reason.to_string().printable()))
}

fn writable_file() -> Result<PathBuf, Refusal> {
    if is_secure_execution() {
        return Err(Refusal::new("stored facts of a less privileged user are ignored in secure-execution mode"));
    }
    let home = if cudnn_os::IS_WINDOWS { "LOCALAPPDATA" } else { "HOME" };
    let file =
        stored_file().ok_or_else(|| Refusal::new(format!("facts cannot be stored, because {home} is not set")))?;
    match changeable_by_others(&file).filter(|_| is_root()) {
        Some(path) => Err(Refusal::new(format!(
            "a user other than root can change {}: run this as that user, without root",
            path.printable()
        ))),
        None => Ok(file),
    }
}

/// Returns the SHA-256 in `FILE.sha256`, in the format of `sha256sum`, and the name of that file.
fn checksum_next_to(file: &Path) -> Result<(String, String), Refusal> {
    let mut path = OsString::from(file);
    path.push(".sha256");
    let path = PathBuf::from(path);
    let bytes = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Refusal::new(format!("the SHA-256 of {} is not known", file.printable())).help(format!(
                "put {} next to it, or run `{} facts --update FILE --sha256 DIGITS`",
                path.printable(),
                doctor()
            )));
        }
        _ => read(&path, MAX_CHECKSUM_LEN)?,
    };
    let text = String::from_utf8_lossy(&bytes);
    Ok((text.split_whitespace().next().unwrap_or_default().to_owned(), path.printable()))
}

fn read(path: &Path, max: u64) -> Result<Vec<u8>, Refusal> {
    let refused = |reason: &dyn std::fmt::Display| Refusal::new(format!("cannot read {}: {reason}", path.printable()));
    let file = match open_regular(path).map_err(|error| refused(&error))? {
        Opened::Regular(file, len) if len <= max => file,
        Opened::Regular(_, len) => return Err(refused(&format!("it has {len} bytes, more than {max}"))),
        Opened::Other(kind) => return Err(refused(&format!("it is {kind}, not a file"))),
    };
    let mut bytes = Vec::new();
    // If the file grows while it is read, the hash differs.
    file.take(max).read_to_end(&mut bytes).map_err(|error| refused(&error))?;
    Ok(bytes)
}

fn store(file: &Path, bytes: &[u8]) -> Result<(), TrustError> {
    Ok(Directory::create(file.parent().unwrap_or(file))?.replace(FILE_NAME, bytes)?)
}
