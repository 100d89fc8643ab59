//! Checks an unpacked wheel against the list of files (RECORD), which contains sizes and sha256 hashes.
//!
//! Hashing a gigabyte takes seconds, so a successful check writes a stamp with the hash of RECORD, and the size and
//! modification time of all files. The next check hashes the files again only if one of these differs.

use std::fmt::{self, Write};
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::release::Release;

const STAMP: &str = ".cudnn-fetch-verified";

/// The maximum length of RECORD in bytes. cuDNN's has a few thousand.
const MAX_RECORD_LEN: u64 = 32 << 20;

/// A difference between a release's files and RECORD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    path: PathBuf,
    what: &'static str,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.path, self.what)
    }
}

impl Damage {
    fn new(path: &Path, what: &'static str) -> Self {
        Damage { path: path.to_owned(), what }
    }
}

/// A line of RECORD with a size.
struct Entry {
    path: PathBuf,
    /// `sha256=` and the hash in URL-safe base64.
    hash: String,
    len: u64,
}

/// Returns whether the release may replace this path, which is missing, empty, or contains a part of the release.
pub(crate) fn is_replaceable(dir: &Path, release: &Release) -> bool {
    let Ok(mut entries) = std::fs::read_dir(dir) else { return dir.symlink_metadata().is_err() };
    let parts = [dir.join(STAMP), record_path(dir), release.lib_dir(dir)];
    entries.next().is_none() || parts.iter().any(|part| part.exists())
}

pub(crate) fn verify(dir: &Path, release: &Release) -> Result<(), Damage> {
    let record = record_path(dir);
    let Some(text) = read(&record) else { return Err(Damage::new(&record, "is missing")) };
    let entries = parse(&text, dir);
    if entries.is_empty() {
        return Err(Damage::new(&record, "lists no files"));
    }
    if let Some(graph) = release.graph_library() {
        let graph = release.lib_dir(dir).join(graph);
        if entries.iter().all(|entry| entry.path != graph) {
            return Err(Damage::new(&record, "lists no graph library"));
        }
    }
    let record_line = format!("RECORD {}\n", base64_url(&Sha256::digest(text.as_bytes())));
    let mut expected = record_line.clone();
    for entry in &entries {
        let Ok(metadata) = std::fs::metadata(&entry.path) else {
            return Err(Damage::new(&entry.path, "is missing"));
        };
        if !metadata.is_file() || metadata.len() != entry.len {
            return Err(Damage::new(&entry.path, "has the wrong size"));
        }
        let name = entry.path.strip_prefix(dir).unwrap_or(&entry.path);
        let _ = writeln!(expected, "{} {} {}", entry.len, modified(&metadata), name.display());
    }
    let stamp = read(&dir.join(STAMP)).unwrap_or_default();
    if stamp == expected {
        return Ok(());
    }
    if !stamp.is_empty() && !stamp.starts_with(&record_line) {
        return Err(Damage::new(&record, "has changed since it was verified"));
    }
    for entry in entries.iter().filter(|entry| entry.hash.starts_with("sha256=")) {
        if sha256(&entry.path).is_none_or(|hash| entry.hash != format!("sha256={hash}")) {
            return Err(Damage::new(&entry.path, "has the wrong sha256"));
        }
    }
    write_stamp(dir, &expected);
    Ok(())
}

/// Returns the text of a regular file of a plausible size. Opening a pipe would block.
fn read(file: &Path) -> Option<String> {
    let metadata = std::fs::metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_RECORD_LEN {
        return None;
    }
    let mut text = String::new();
    File::open(file).ok()?.take(MAX_RECORD_LEN).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Returns the path of RECORD, which may be missing.
fn record_path(dir: &Path) -> PathBuf {
    let dist_info = std::fs::read_dir(dir).ok().and_then(|entries| {
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "dist-info"))
    });
    dist_info.unwrap_or_else(|| dir.to_owned()).join("RECORD")
}

/// Parses the lines with a size: `path,sha256=...,size`. The line for RECORD itself omits it.
fn parse(record: &str, dir: &Path) -> Vec<Entry> {
    // `pip --target` installs start scripts in a different place than their paths, which lead outside.
    let lines = record.lines().filter(|line| !line.starts_with("../"));
    let entry = |line: &str| {
        let (rest, len) = line.rsplit_once(',')?;
        let (path, hash) = rest.rsplit_once(',')?;
        let quoted = path.strip_prefix('"').and_then(|path| path.strip_suffix('"'));
        let path = quoted.map_or_else(|| path.to_owned(), |path| path.replace("\"\"", "\""));
        Some(Entry { path: dir.join(path), hash: hash.to_owned(), len: len.trim().parse().ok()? })
    };
    lines.filter_map(entry).collect()
}

/// Returns a modification time in nanoseconds since 1970. The time of the last metadata change is unsuitable, because
/// hard links, as in the tests, change it.
fn modified(metadata: &Metadata) -> u128 {
    let since_epoch = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since_epoch.map_or(0, |duration| duration.as_nanos())
}

/// Returns the sha256 of a readable file in URL-safe base64 without padding, as in RECORD.
pub fn sha256(path: &Path) -> Option<String> {
    // Opening a pipe would block.
    let len = std::fs::metadata(path).ok().filter(Metadata::is_file)?.len();
    // If the file grows while it is read, the hash differs.
    let mut file = File::open(path).ok()?.take(len + 1);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let len = file.read(&mut buffer).ok()?;
        if len == 0 {
            return Some(base64_url(&hasher.finalize()));
        }
        hasher.update(buffer.get(..len)?);
    }
}

/// Returns the sha256 in hexadecimal digits, like `sha256sum`.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes bytes in URL-safe base64 without padding.
fn base64_url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, index| bits << 8 | u32::from(chunk.get(index).copied().unwrap_or(0)));
        let digit = |index: usize| DIGITS.get((bits >> (18 - 6 * index) & 63) as usize).copied().unwrap_or(b'=');
        text.extend((0..=chunk.len()).map(|index| char::from(digit(index))));
    }
    text
}

/// Writes the stamp in one step. If the cache is not writable, each process hashes the files.
fn write_stamp(dir: &Path, text: &str) {
    let unfinished = dir.join(format!("{STAMP}.{}", std::process::id()));
    let written = std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, dir.join(STAMP)));
    if written.is_err() {
        let _ = std::fs::remove_file(unfinished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUDNN: Release = Release {
        id: "cu12-9.99.0",
        package: "nvidia-cudnn-cu12",
        version: "9.99.0.1",
        sha256: &[],
        platform: None,
        megabytes: 1,
    };
    const GRAPH: &str = "nvidia/cudnn/lib/libcudnn_graph.so.9";

    struct Unpacked(PathBuf);

    impl Unpacked {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("cudnn-fetch-verify-{name}-{}", std::process::id()));
            let unpacked = Unpacked(dir);
            unpacked.write(GRAPH, "graph");
            unpacked.write("a,b", "123");
            let hash = |text: &str| base64_url(&Sha256::digest(text.as_bytes()));
            unpacked.write_record(&format!(
                "{GRAPH},sha256={},5\n\"a,b\",sha256={},3\n../../bin/x,sha256=x,9\nx.dist-info/RECORD,,\n",
                hash("graph"),
                hash("123")
            ));
            unpacked
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.path(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }

        fn write_record(&self, text: &str) {
            self.write("x.dist-info/RECORD", text);
        }

        fn record(&self) -> PathBuf {
            self.path("x.dist-info/RECORD")
        }

        fn verify(&self) -> Result<(), Damage> {
            verify(&self.0, &CUDNN)
        }
    }

    impl Drop for Unpacked {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn missing_shortened_and_changed_files_are_detected() {
        let unpacked = Unpacked::new("files");
        assert_eq!(unpacked.verify(), Ok(()));
        assert_eq!(unpacked.verify(), Ok(()));
        unpacked.write("a,b", "12");
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.path("a,b"), "has the wrong size")));
        // The size is the same, and the stamp exists.
        unpacked.write("a,b", "124");
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.path("a,b"), "has the wrong sha256")));
        unpacked.write("a,b", "123");
        assert_eq!(unpacked.verify(), Ok(()));
        std::fs::remove_file(unpacked.path("a,b")).unwrap();
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.path("a,b"), "is missing")));
    }

    #[test]
    fn a_pipe_instead_of_a_file_is_damage() {
        if cudnn_os::IS_WINDOWS {
            return;
        }
        for name in ["a,b", "x.dist-info/RECORD"] {
            let unpacked = Unpacked::new("pipe");
            std::fs::remove_file(unpacked.path(name)).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(unpacked.path(name)).status().unwrap().success());
            assert!(unpacked.verify().is_err() && sha256(&unpacked.path(name)).is_none(), "{name}");
        }
    }

    #[test]
    fn a_wrong_byte_is_detected_at_first_use() {
        let unpacked = Unpacked::new("first-use");
        unpacked.write(GRAPH, "grapf");
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.path(GRAPH), "has the wrong sha256")));
        assert!(!unpacked.path(STAMP).exists());
    }

    #[test]
    fn a_list_of_files_that_is_missing_empty_or_changed_is_rejected() {
        let unpacked = Unpacked::new("record");
        assert_eq!(unpacked.verify(), Ok(()));
        let text = std::fs::read_to_string(unpacked.record()).unwrap();
        // Without its line, changes of a file would be hidden.
        unpacked.write_record(&text.replace("\"a,b\"", "../a,b"));
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.record(), "has changed since it was verified")));
        unpacked.write_record("");
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.record(), "lists no files")));
        std::fs::remove_file(unpacked.record()).unwrap();
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.record(), "is missing")));
    }

    #[test]
    fn a_cudnn_without_a_graph_library_is_rejected() {
        let unpacked = Unpacked::new("graph");
        let text = std::fs::read_to_string(unpacked.record()).unwrap();
        unpacked.write_record(text.split_once('\n').unwrap().1);
        assert_eq!(unpacked.verify(), Err(Damage::new(&unpacked.record(), "lists no graph library")));
        assert_eq!(verify(&unpacked.0, &Release { package: "cmake", ..CUDNN }), Ok(()));
    }

    #[test]
    fn base64_is_url_safe_without_padding() {
        assert_eq!(base64_url(&Sha256::digest(b"")), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
        assert_eq!(base64_url(b"\xfb\xff"), "-_8");
    }
}
