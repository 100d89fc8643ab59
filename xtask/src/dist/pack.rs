//! Packs a directory into one reproducible file. The bytes depend only on the directory's files: names are sorted, and
//! the time, the owner and the permissions are constant.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use cudnn_os::files::is_executable;

use crate::error::Result;

/// The first second of 1980, the earliest time that a zip file can represent.
const TIME: u64 = 315_532_800;

/// A file or a symbolic link with its name below the directory, with slashes.
struct Entry {
    name: String,
    path: PathBuf,
    link: Option<PathBuf>,
    is_executable: bool,
}

impl Entry {
    fn mode(&self) -> u32 {
        if self.is_executable { 0o755 } else { 0o644 }
    }
}

/// The names of the files below a directory, sorted, with slashes.
pub(crate) fn names(dir: &Path) -> Result<Vec<String>> {
    Ok(entries(dir)?.into_iter().map(|entry| entry.name).collect())
}

/// Packs a directory into a zip file. It follows symbolic links.
pub(crate) fn zip(dir: &Path, prefix: &str, file: &Path) -> Result<()> {
    let options = zip::write::SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
    let mut archive = zip::ZipWriter::new(BufWriter::new(File::create(file)?));
    for entry in entries(dir)? {
        archive.start_file(format!("{prefix}{}", entry.name), options.unix_permissions(entry.mode()))?;
        archive.write_all(&std::fs::read(&entry.path)?)?;
    }
    Ok(archive.finish()?.flush()?)
}

/// Packs a directory into a tar file that gzip compresses.
pub(crate) fn tar_gz(dir: &Path, prefix: &str, file: &Path) -> Result<()> {
    let compressed = flate2::write::GzEncoder::new(BufWriter::new(File::create(file)?), flate2::Compression::best());
    let mut archive = tar::Builder::new(compressed);
    for entry in entries(dir)? {
        let name = format!("{prefix}{}", entry.name);
        let mut header = tar::Header::new_gnu();
        header.set_mtime(TIME);
        header.set_mode(entry.mode());
        if let Some(link) = entry.link {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            archive.append_link(&mut header, name, link)?;
        } else {
            let content = std::fs::read(&entry.path)?;
            header.set_size(content.len().try_into()?);
            archive.append_data(&mut header, name, content.as_slice())?;
        }
    }
    Ok(archive.into_inner()?.finish()?.flush()?)
}

/// Returns the files below a directory, sorted by name. A wheel's record comes last, as its specification requires.
fn entries(dir: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    collect(dir, "", &mut entries)?;
    entries.sort_by(|a, b| {
        a.name.ends_with(".dist-info/RECORD").cmp(&b.name.ends_with(".dist-info/RECORD")).then(a.name.cmp(&b.name))
    });
    Ok(entries)
}

fn collect(dir: &Path, prefix: &str, entries: &mut Vec<Entry>) -> Result<()> {
    for entry in std::fs::read_dir(dir).map_err(|error| format!("cannot read {}: {error}", dir.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = format!("{prefix}{}", name.ok_or_else(|| format!("{} is not UTF-8", path.display()))?);
        let metadata = path.symlink_metadata()?;
        if metadata.is_dir() {
            collect(&path, &format!("{name}/"), entries)?;
        } else {
            let link = metadata.is_symlink().then(|| std::fs::read_link(&path)).transpose()?;
            let is_executable = link.is_some() || is_executable(&path);
            entries.push(Entry { is_executable, name, path, link });
        }
    }
    Ok(())
}
