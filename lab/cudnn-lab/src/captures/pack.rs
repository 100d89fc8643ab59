//! Packs a capture and the values of its tensors into one archive, and unpacks it.
//!
//! The archive contains `capture.cudnncap` and `capture.cudnncap.data/FILE`, and readers ignore other entries. It is
//! unpacked into a temporary directory, with limits on the sizes.

use std::cell::Cell;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write, copy};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cudnn_cli::temporary::{self, Temporary};
use cudnn_store::captures::{Capture, is_file_name, values_dir};
use zip::read::ZipFile;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::data;
use crate::output_file::{Output, OutputKind};

const CAPTURE: &str = "capture.cudnncap";
const DATA: &str = "capture.cudnncap.data/";

/// Archives from [`write()`], which begin with the capture.
pub(crate) const ARCHIVE: OutputKind = OutputKind { name: "a packed capture", is_start };

fn is_start(start: &[u8]) -> bool {
    /// The size of the header before the name of the first entry.
    const HEADER: usize = 30;
    start.starts_with(b"PK\x03\x04") && start.get(HEADER..).is_some_and(|name| name.starts_with(CAPTURE.as_bytes()))
}

/// The limits for an archive from an unknown sender.
#[derive(Clone, Copy)]
struct Limits {
    entries: usize,
    /// The size of the list of entries in bytes, because it is read into memory.
    list: u64,
    capture: u64,
    /// The maximum compression ratio of large captures.
    ratio: u64,
    small_capture: u64,
    /// The sum of all sizes in bytes. The layer writes at most 1 GiB.
    total: u64,
}

const LIMITS: Limits =
    Limits { entries: 1 << 16, list: 16 << 20, capture: 1 << 29, ratio: 100, small_capture: 64 << 20, total: 2 << 30 };

pub(crate) struct Packed {
    pub(crate) files: usize,
    pub(crate) bytes: u64,
}

/// Writes an archive with a capture, which was read from `path`, and all intact data files.
pub(crate) fn write(capture: &Capture, path: &Path, output: &Output<'_>) -> Result<Packed, String> {
    output.write(|file| {
        let files = write_to(capture, path, file)?;
        Ok(Packed { files, bytes: file.metadata()?.len() })
    })
}

fn write_to(capture: &Capture, path: &Path, output: &mut File) -> Result<usize, Error> {
    let dir = values_dir(path);
    let files = data::intact(capture, &dir);
    let size = files.iter().map(|data| data.bytes).sum::<u64>().saturating_add(path.metadata()?.len());
    if files.len() >= LIMITS.entries || size > LIMITS.total {
        return Err(Error::other("the capture is too large for an archive"));
    }
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    let mut archive = ZipWriter::new_stream(Target { file: output, error: None });
    archive.start_file(CAPTURE, options)?;
    copy(&mut Source::new(File::open(path)?).take(LIMITS.capture), &mut archive)?;
    for data in &files {
        archive.start_file(format!("{DATA}{}", data.file), options)?;
        let file = data::open(data, &dir).map_err(|reason| Error::other(format!("{:?} {reason}", data.file)))?;
        if copy(&mut Source::new(file).take(data.bytes), &mut archive)? != data.bytes {
            return Err(Error::other(format!("{:?} was truncated", data.file)));
        }
    }
    archive.finish()?.into_inner().error.map_or(Ok(files.len()), Err)
}

/// The file for an archive. Stores errors, which `ZipWriter` would print on standard error.
struct Target<'a> {
    file: &'a mut File,
    error: Option<Error>,
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        if self.error.is_none() {
            self.error = self.file.write_all(bytes).err();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// A file that is read in parts up to a limit, so that a signal can end the lab.
struct Source {
    file: File,
    left: Rc<Cell<u64>>,
}

impl Source {
    fn new(file: File) -> Self {
        Source { file, left: Rc::new(Cell::new(u64::MAX)) }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        temporary::check();
        let read = self.file.read(buffer)?;
        self.left.set(self.left.get().checked_sub(read as u64).ok_or_else(too_large)?);
        Ok(read)
    }
}

impl Seek for Source {
    fn seek(&mut self, position: SeekFrom) -> Result<u64, Error> {
        self.file.seek(position)
    }
}

/// The directory, the capture in it, and problems with entries.
type Unpacked = (Temporary, PathBuf, Vec<String>);

/// Unpacks an archive into a temporary directory. Returns `None` for other files.
pub(super) fn unpack(file: &Path) -> Result<Option<Unpacked>, Error> {
    let mut start = Vec::new();
    File::open(file)?.take(4).read_to_end(&mut start)?;
    if start != b"PK\x03\x04" && start != b"PK\x05\x06" {
        return Ok(None);
    }
    unpack_within(File::open(file)?, LIMITS).map(Some)
}

fn unpack_within(file: File, limits: Limits) -> Result<Unpacked, Error> {
    if file.metadata()?.len() > limits.total {
        return Err(too_large());
    }
    let dir = Temporary::dir()?;
    let left = Rc::new(Cell::new(limits.list));
    let mut archive = ZipArchive::new(Source { file, left: left.clone() }).map_err(|error| match error {
        // A conversion of this variant would lose the text.
        ZipError::Io(error) => error,
        error => error.into(),
    })?;
    if archive.len() > limits.entries {
        return Err(too_large());
    }
    left.set(u64::MAX);
    let path = dir.path().join(CAPTURE);
    let mut left = limits.total;
    let mut problems = Vec::new();
    {
        let mut entry = archive.by_name(CAPTURE).map_err(|error| Error::other(format!("{CAPTURE}: {error}")))?;
        let compressed = entry.compressed_size();
        let limit = limits.capture.min(limits.small_capture.max(compressed.saturating_mul(limits.ratio)));
        left = left.saturating_sub(extract(&mut entry, &path, limit.min(left))?);
    }
    std::fs::create_dir(values_dir(&path))?;
    for index in 0..archive.len() {
        let mut entry = match archive.by_index(index) {
            Ok(entry) => entry,
            Err(error) => {
                problems.push(format!("the entry {index} of the archive is unreadable: {error}"));
                continue;
            }
        };
        let name = entry.name().to_owned();
        if name == CAPTURE || name == DATA {
            continue;
        }
        let target = name.strip_prefix(DATA).filter(|name| is_file_name(name) && !entry.is_symlink());
        let Some(target) = target else {
            problems
                .push(format!("the entry {name:?} of the archive was ignored, because captures contain other files"));
            continue;
        };
        let target = values_dir(&path).join(target);
        match extract(&mut entry, &target, left) {
            Ok(size) => left = left.saturating_sub(size),
            Err(error) => {
                problems.push(format!("the entry {name:?} of the archive was not unpacked: {error}"));
                // The existing file with the same name may be intact.
                if error.kind() != ErrorKind::AlreadyExists {
                    left = left.saturating_sub(target.metadata().map_or(0, |partial| partial.len()));
                    let _ = std::fs::remove_file(target);
                }
            }
        }
    }
    Ok((dir, path, data::bounded(problems.into_iter())))
}

/// Writes an entry to a new file, verifies the checksum, and returns the size.
fn extract(entry: &mut ZipFile<'_, Source>, target: &Path, limit: u64) -> Result<u64, Error> {
    if entry.size() > limit {
        return Err(too_large());
    }
    let mut file = File::options().write(true).create_new(true).open(target)?;
    // The declared size may be wrong. `ZipFile` verifies the checksum at the end of the entry.
    let size = copy(&mut entry.by_ref().take(limit), &mut file)?;
    match entry.read(&mut [0])? {
        0 => Ok(size),
        _ => Err(too_large()),
    }
}

fn too_large() -> Error {
    Error::other("the archive is too large")
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const START: &str = r#"{"record":"start","format":1,"cudnn":91900,"cudart":12090}"#;

    fn data(file: &str, bytes: usize) -> String {
        let file = serde_json::Value::from(file);
        format!(r#"{{"record":"data","plan":0,"execution":1,"uid":1,"is_after":false,"file":{file},"bytes":{bytes}}}"#)
    }

    fn capture(records: &[String]) -> Vec<u8> {
        format!("{START}\n{}\n", records.join("\n")).into_bytes()
    }

    fn archive(dir: &Path, entries: &[(&str, &[u8])]) -> PathBuf {
        let file = dir.join("packed.zip");
        let mut archive = ZipWriter::new(File::create(&file).unwrap());
        for (name, content) in entries {
            archive.start_file(*name, SimpleFileOptions::default()).unwrap();
            archive.write_all(content).unwrap();
        }
        archive.finish().unwrap();
        file
    }

    fn write(capture: &Capture, path: &Path, file: &Path) -> Result<Packed, String> {
        super::write(capture, path, &Output { file, kind: &ARCHIVE, inputs: &[path], force: false })
    }

    fn problems(file: &Path) -> Vec<String> {
        super::super::read(file).unwrap().problems
    }

    #[test]
    fn a_packed_capture_equals_the_original() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("app.cudnncap");
        let records = [data("a.bin", 3), data("b.bin", 0), data("a.bin", 3)];
        std::fs::write(&path, capture(&records)).unwrap();
        std::fs::create_dir(dir.path().join("app.cudnncap.data")).unwrap();
        for (name, content) in [("a.bin", "abc"), ("b.bin", ""), ("unlisted.bin", "private")] {
            std::fs::write(dir.path().join("app.cudnncap.data").join(name), content).unwrap();
        }
        let original = super::super::read(&path).unwrap();
        let mut packed = dir.path().join("app.zip");
        assert_eq!(write(&original.capture, &original.path, &packed).unwrap().files, 2);
        // A packed file can be packed again.
        for _ in 0..2 {
            let read = super::super::read(&packed).unwrap();
            assert_eq!((&read.capture, read.problems.len()), (&original.capture, 0));
            assert_eq!(std::fs::read(values_dir(&read.path).join("a.bin")).unwrap(), b"abc");
            assert!(!values_dir(&read.path).join("unlisted.bin").exists());
            packed = dir.path().join("again.zip");
            write(&read.capture, &read.path, &packed).unwrap();
            let unpacked = values_dir(&read.path);
            drop(read);
            assert!(!unpacked.exists(), "the unpacked copy was not removed");
        }
    }

    #[test]
    fn unusable_data_files_are_named_and_left_out() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("app.cudnncap");
        let names = ["missing", "short", "../app.cudnncap", "/etc/passwd", "link", "", "C:x", "good"];
        std::fs::write(&path, capture(&names.map(|name| data(name, 4)))).unwrap();
        let data = dir.path().join("app.cudnncap.data");
        std::fs::create_dir(&data).unwrap();
        std::fs::write(data.join("short"), "abc").unwrap();
        std::fs::write(data.join("good"), "abcd").unwrap();
        #[cfg(all(test, unix))]
        std::os::unix::fs::symlink(data.join("good"), data.join("link")).unwrap();
        let read = super::super::read(&path).unwrap();
        let expected = [
            "\"missing\" is unreadable",
            "\"short\" has 3 bytes instead of 4",
            "\"../app.cudnncap\" is unreadable: the name contains a directory",
            "\"/etc/passwd\" is unreadable: the name",
            "\"link\" is unreadable",
            "\"\" is unreadable: the name",
            "\"C:x\" is unreadable: the name",
        ];
        assert_eq!(read.problems.len(), expected.len(), "{:?}", read.problems);
        for (problem, expected) in read.problems.iter().zip(expected) {
            assert!(problem.contains(expected), "{problem}");
        }
        assert_eq!(write(&read.capture, &read.path, &dir.path().join("app.zip")).unwrap().files, 1);
    }

    #[test]
    fn other_entries_of_an_archive_are_ignored_and_named() {
        let dir = TempDir::new().unwrap();
        let others = ["../escaped", "/escaped", "capture.cudnncap.data/../escaped", "capture.cudnncap.data/a/b", "x"];
        let content = capture(&[data("good", 4)]);
        let mut entries: Vec<(&str, &[u8])> = vec![(CAPTURE, &content), ("capture.cudnncap.data/good", b"abcd")];
        entries.extend(others.map(|name| (name, &b"text"[..])));
        let file = archive(dir.path(), &entries);
        let read = super::super::read(&file).unwrap();
        assert_eq!(read.problems.len(), others.len(), "{:?}", read.problems);
        for (name, problem) in others.iter().zip(&read.problems) {
            assert!(problem.contains(&format!("{name:?}")) && problem.contains("was ignored"), "{problem}");
        }
        let files = std::fs::read_dir(values_dir(&read.path)).unwrap().count();
        assert_eq!((files, std::fs::read_dir(values_dir(&read.path).parent().unwrap()).unwrap().count()), (1, 2));
        assert!(!values_dir(&read.path).join("../../escaped").exists());
    }

    #[test]
    fn links_in_an_archive_are_ignored() {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("links.zip");
        let mut archive = ZipWriter::new(File::create(&file).unwrap());
        archive.start_file(CAPTURE, SimpleFileOptions::default()).unwrap();
        archive.write_all(&capture(&[data("link", 4)])).unwrap();
        archive.add_symlink(format!("{DATA}link"), "/etc/passwd", SimpleFileOptions::default()).unwrap();
        archive.finish().unwrap();
        let read = super::super::read(&file).unwrap();
        assert!(read.problems[0].contains("was ignored"), "{:?}", read.problems);
        assert!(values_dir(&read.path).join("link").symlink_metadata().is_err());
    }

    #[test]
    fn damaged_archives_are_refused_or_named() {
        let dir = TempDir::new().unwrap();
        let content = capture(&[data("x.bin", 9)]);
        let file = archive(dir.path(), &[(CAPTURE, &content), ("capture.cudnncap.data/x.bin", b"recognize")]);
        let whole = std::fs::read(&file).unwrap();
        assert_eq!(problems(&file), [""; 0]);
        // The checksums have a fixed position in the headers.
        let central: Vec<usize> =
            (0..whole.len() - 4).filter(|place| whole[*place..].starts_with(b"PK\x01\x02")).collect();
        let mut damaged = whole.clone();
        damaged[central[1] + 16] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let found = problems(&file);
        assert!(found[0].contains("was not unpacked: Invalid checksum"), "{found:?}");
        assert!(found[1].contains("the data file \"x.bin\" is unreadable"), "{found:?}");
        damaged[central[0] + 16] ^= 1;
        std::fs::write(&file, &damaged).unwrap();
        let error = super::super::read(&file).err().unwrap();
        assert!(error.contains("Invalid checksum"), "{error}");
        for length in (4..whole.len()).step_by(7) {
            std::fs::write(&file, &whole[..length]).unwrap();
            assert!(super::super::read(&file).is_err(), "{length} bytes");
        }
        let empty = archive(dir.path(), &[]);
        assert!(super::super::read(&empty).err().unwrap().contains(CAPTURE));
    }

    #[test]
    fn sizes_and_ratios_are_limited() {
        let dir = TempDir::new().unwrap();
        let limits = Limits { entries: 3, list: 10_000, capture: 5000, ratio: 10, small_capture: 1000, total: 6000 };
        let unpack = |entries: &[(&str, &[u8])]| unpack_within(File::open(archive(dir.path(), entries))?, limits);
        let start = capture(&[]);
        let bomb = [&start[..], &[b' '; 4000]].concat();
        let large = [&start[..], &(0..5000_u32).flat_map(|n| (n * n).to_le_bytes()).collect::<Vec<_>>()].concat();
        for content in [&bomb, &large] {
            let error = unpack(&[(CAPTURE, content)]).err().unwrap();
            assert!(error.to_string().contains("too large"), "{error}");
        }
        assert!(unpack(&[(CAPTURE, &start), ("1", b""), ("2", b""), ("3", b"")]).is_err());
        let file = archive(dir.path(), &[(CAPTURE, &start)]);
        let short = Limits { list: 60, ..limits };
        let error = unpack_within(File::open(file).unwrap(), short).err().unwrap();
        assert!(error.to_string().contains("too large"), "{error}");
        let (_dir, path, problems) = unpack(&[
            (CAPTURE, &start),
            ("capture.cudnncap.data/a", &[0; 4000]),
            ("capture.cudnncap.data/b", &[0; 4000]),
        ])
        .unwrap();
        assert!(problems[0].contains("/b\"") && problems[0].contains("too large"), "{problems:?}");
        assert!(values_dir(&path).join("a").exists() && !values_dir(&path).join("b").exists());
    }

    /// A declared size that is too small must not circumvent the limits.
    #[test]
    fn a_wrong_size_is_noticed() {
        let dir = TempDir::new().unwrap();
        let file = archive(dir.path(), &[(CAPTURE, &capture(&[])), ("capture.cudnncap.data/a", &[0; 100_000])]);
        let mut bytes = std::fs::read(&file).unwrap();
        for place in 0..bytes.len() - 4 {
            let offset = match &bytes[place..place + 4] {
                b"PK\x01\x02" => 24,
                b"PK\x03\x04" => 22,
                _ => continue,
            };
            if bytes[place + offset..].starts_with(&100_000_u32.to_le_bytes()) {
                bytes[place + offset..place + offset + 4].copy_from_slice(&1_u32.to_le_bytes());
            }
        }
        std::fs::write(&file, bytes).unwrap();
        let limits = Limits { total: 50_000, ..LIMITS };
        let (_dir, path, problems) = unpack_within(File::open(&file).unwrap(), limits).unwrap();
        assert!(problems[0].contains("too large"), "{problems:?}");
        assert!(!values_dir(&path).join("a").exists());
    }
}
