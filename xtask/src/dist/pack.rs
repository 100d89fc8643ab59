//! Packs a directory into one reproducible file: names are sorted, and times, owners and permissions are constant.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use crate::command::{Result, output, run};
use cudnn_os::files::is_executable;

/// Packs a directory into a zip file with the directory's name as prefix, and follows symbolic links.
pub(crate) fn zip(dir: &Path, file: &Path) -> Result<()> {
    let options = zip::write::SimpleFileOptions::default().last_modified_time(zip::DateTime::default());
    let mut archive = zip::ZipWriter::new(BufWriter::new(File::create(file)?));
    // `find -L` also prints dangling links, and reading them fails below.
    let mut find = Command::new("find");
    let found = output(find.args(["-L", ".", "!", "-type", "d", "-printf", "%P\\0"]).current_dir(dir))?;
    let mut names: Vec<&str> = found.split_terminator('\0').collect();
    names.sort_unstable();
    let prefix = dir.file_name().unwrap_or_default().to_string_lossy();
    for name in names {
        let path = dir.join(name);
        let mode = if is_executable(&path) { 0o755 } else { 0o644 };
        archive.start_file(format!("{prefix}/{name}"), options.unix_permissions(mode))?;
        archive.write_all(&std::fs::read(path)?)?;
    }
    Ok(archive.finish()?.flush()?)
}

/// Packs a directory into a compressed tar file with the directory's name as prefix.
pub(crate) fn tar_gz(dir: &Path, file: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    // The first second of 1980, like the zip file.
    tar.args(["--create", "--format=gnu", "--sort=name", "--mtime=@315532800", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u=rwX,go=rX", "--use-compress-program=gzip -9n", "--file"]).arg(file);
    run(tar.arg("--directory").arg(dir.parent().unwrap_or(dir)).arg(dir.file_name().unwrap_or_default()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Packs a directory with files that were created in this order.
    fn packed(names: &[&str]) -> [Vec<u8>; 2] {
        let temporary = support::TempDir::new();
        let dir = temporary.path().join("cudnn");
        std::fs::create_dir_all(dir.join("lib")).unwrap();
        for name in names {
            std::fs::write(dir.join(name), name).unwrap();
        }
        cudnn_os::files::symlink(Path::new("b.so.9"), &dir.join("lib/b.so")).unwrap();
        let files = ["zip", "tar.gz"].map(|kind| temporary.path().join(kind));
        zip(&dir, &files[0]).unwrap();
        tar_gz(&dir, &files[1]).unwrap();
        files.map(|file| std::fs::read(file).unwrap())
    }

    #[test]
    fn equal_directories_become_equal_files() {
        let [zip, tar_gz] = packed(&["LICENSE", "lib/b.so.9", "lib/a"]);
        assert_eq!(packed(&["lib/a", "lib/b.so.9", "LICENSE"]), [zip.clone(), tar_gz]);
        let mut archive = zip::ZipArchive::new(std::io::Cursor::new(zip)).unwrap();
        let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        assert_eq!(names, ["cudnn/LICENSE", "cudnn/lib/a", "cudnn/lib/b.so", "cudnn/lib/b.so.9"]);
        assert_eq!(archive.by_name("cudnn/LICENSE").unwrap().unix_mode(), Some(0o100_644));
    }
}
