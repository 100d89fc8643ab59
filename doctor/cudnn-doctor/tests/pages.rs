//! Tests `preload --keep`, and preloads that read the pages of a saved list.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudnn_loader::preload::pages::{FilePages, PageList};
use cudnn_probe::Library;
use serde_json::Value;
use support::{FakeLibrary, TempDir, Version, lib_dir, not_run};

/// Runs `preload --json` with only these variables.
fn preload(arguments: &[&str], variables: &[(&str, &Path)]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
    command.args(["preload", "--json"]).args(arguments).env_clear().envs(variables.iter().copied());
    let output = command.output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Returns the outcome of the step that reads the list with this name.
fn outcome(value: &Value, list: &str) -> Option<String> {
    let steps = value["steps"].as_array().unwrap_or_else(|| panic!("{value}"));
    let step = steps.iter().find(|step| step["step"] == format!("read {list}"))?;
    Some(step["outcome"].as_str().unwrap().to_owned())
}

/// Creates an installation of one small library, and a list of its pages.
fn installation() -> (TempDir, PathBuf) {
    let dir = TempDir::new();
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&dir.file(Library::Graph));
    let list = dir.path().join("app.pages");
    let value = preload(
        &[dir.path().to_str().unwrap(), "--no-context", "--keep", list.to_str().unwrap()],
        &[("HOME", Path::new("/nonexistent"))],
    );
    assert_eq!(value["kept"]["file"].as_str(), list.to_str(), "{value}");
    assert_eq!(value["kept"]["files"], 1, "{value}");
    (dir, list)
}

/// Returns which pages of a file are in memory.
fn resident(file: &Path) -> Vec<bool> {
    let opened = File::open(file).unwrap();
    let length = usize::try_from(opened.metadata().unwrap().len()).unwrap();
    let mut pages = vec![0_u8; length.div_ceil(4096)];
    // SAFETY: the mapping of the open file is new and never read, and the answer provides one byte per page.
    unsafe {
        let mapped = libc::mmap(std::ptr::null_mut(), length, libc::PROT_NONE, libc::MAP_SHARED, opened.as_raw_fd(), 0);
        assert_ne!(mapped, libc::MAP_FAILED);
        assert_eq!(libc::mincore(mapped, length, pages.as_mut_ptr()), 0);
        libc::munmap(mapped, length);
    }
    pages.iter().map(|page| page & 1 == 1).collect()
}

/// Drops the file's pages from the page cache. Returns whether it worked, because in-memory file systems always keep
/// them.
fn evict(file: &Path) -> bool {
    let opened = File::open(file).unwrap();
    opened.sync_all().unwrap();
    // SAFETY: the file is open.
    unsafe { libc::posix_fadvise(opened.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    !resident(file).contains(&true)
}

#[test]
fn a_preload_reads_the_pages_of_an_earlier_run() {
    let Some(real) = lib_dir("jit-cu12-9.19.0") else { return };
    let dir = TempDir::new();
    for library in [Library::Graph, Library::EnginesRuntimeCompiled] {
        std::fs::copy(real.join(library.file_name()), dir.file(library)).unwrap();
    }
    let (path, file) = (dir.path().to_str().unwrap(), dir.path().join("app.pages"));
    let value = preload(&[path, "--no-context", "--keep", file.to_str().unwrap()], &[]);
    assert_eq!(value["kept"]["installation"], path, "{value}");
    let list = PageList::decode(&std::fs::read(&file).unwrap()).unwrap();
    assert!(list.files[0].path.ends_with("libcudnn_graph.so.9"), "{list:?}");

    let engines = dir.file(Library::EnginesRuntimeCompiled);
    let pages = list.files.iter().find(|file| file.path == engines).unwrap();
    let bytes: u64 = pages.ranges.iter().map(|range| range.end - range.start).sum();
    assert!(bytes > 1 << 20, "{pages:?}");
    // Only the registration of engines would read that file.
    let without_engines: &[&str] = &[path, "--no-context", "--no-engines"];
    if !evict(&engines) {
        return not_run("a_preload_reads_the_pages_of_an_earlier_run", "the file system keeps files in memory");
    }
    preload(without_engines, &[]);
    let count = resident(&engines).into_iter().filter(|is_resident| *is_resident).count();
    assert!(count as u64 * 4096 < bytes / 4, "{count} pages were read without a list");

    assert!(evict(&engines));
    let value = preload(without_engines, &[("CUDNN_LOADER_PAGES", &file)]);
    assert_eq!(outcome(&value, "app.pages").as_deref(), Some("done"), "{value}");
    let wanted: Vec<usize> = pages
        .ranges
        .iter()
        .flat_map(|range| (range.start / 4096)..range.end.div_ceil(4096))
        .map(|page| usize::try_from(page).unwrap())
        .collect();
    // The kernel reads in the background and may skip a part if memory is short.
    for attempt in 0.. {
        let resident = resident(&engines);
        let read = wanted.iter().filter(|page| resident.get(**page) == Some(&true)).count();
        if read * 4 >= wanted.len() * 3 {
            break;
        }
        assert!(attempt < 500, "{read} of {} pages were read", wanted.len());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn an_unusable_list_is_reported_and_does_no_harm() {
    let (dir, list) = installation();
    let content = std::fs::read(&list).unwrap();
    let place = dir.path().join("list");
    let write = |content: &[u8]| std::fs::write(&place, content).unwrap();
    let mode = |mode| std::fs::set_permissions(&place, Permissions::from_mode(mode)).unwrap();
    let mut damaged = content.clone();
    damaged[20] = b'x';
    let long = [&content[..], &[0; 3 << 20]].concat();
    let cases: &[(&str, &dyn Fn(), &str)] = &[
        ("a good list", &|| write(&content), "done"),
        ("a damaged one", &|| write(&damaged), "the list of pages is damaged"),
        ("an empty one", &|| write(b""), "the list of pages is damaged"),
        ("one that is too long", &|| write(&long), "the list of pages is damaged"),
        ("others may write", &|| (write(&content), mode(0o622)).1, "it is writable by other users"),
        (
            "a pipe",
            &|| {
                let name = std::ffi::CString::new(place.to_str().unwrap()).unwrap();
                // SAFETY: the name is NUL-terminated.
                assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
            },
            "it is not a regular file",
        ),
        // Like the files in container volumes.
        ("a link", &|| std::os::unix::fs::symlink(&list, &place).unwrap(), "done"),
        ("a directory", &|| std::fs::create_dir(&place).unwrap(), "it is not a regular file"),
        ("nothing", &|| {}, "No such file"),
    ];
    for (case, make, expected) in cases {
        make();
        let arguments = [dir.path().to_str().unwrap(), "--no-context"];
        let value = preload(&arguments, &[("CUDNN_LOADER_PAGES", &place)]);
        let outcome = outcome(&value, "list");
        assert!(outcome.as_deref().is_some_and(|outcome| outcome.contains(expected)), "{case}: {outcome:?}");
        let steps = value["steps"].as_array().unwrap();
        let loaded = steps.iter().find(|step| step["step"] == "load libcudnn_graph.so.9").unwrap();
        assert_eq!(loaded["outcome"], "done", "{case}: {value}");
        let _ = std::fs::remove_file(&place).or_else(|_| std::fs::remove_dir(&place));
    }
    // A relative path is rejected.
    let value = preload(&[dir.path().to_str().unwrap(), "--no-context"], &[("CUDNN_LOADER_PAGES", Path::new("list"))]);
    assert!(outcome(&value, "list").unwrap().contains("it is a relative path"), "{value}");

    // Only lists are replaced.
    let keep = |file: &Path| {
        let value = preload(&[dir.path().to_str().unwrap(), "--no-context", "--keep", file.to_str().unwrap()], &[]);
        assert!(value["error"].as_str().unwrap().contains("exists and is not a list of pages"), "{value}");
    };
    for (name, make) in [("pipe", "mkfifo"), ("directory", "mkdir")] {
        let taken = dir.path().join(name);
        assert!(Command::new(make).arg(&taken).status().unwrap().success());
        keep(&taken);
        assert!(!taken.is_file());
    }
    let thesis = dir.path().join("thesis");
    std::fs::write(&thesis, "text").unwrap();
    keep(&thesis);
    assert_eq!(std::fs::read(&thesis).unwrap(), b"text");

    let (other, _) = installation();
    let value = preload(&[other.path().to_str().unwrap(), "--no-context"], &[("CUDNN_LOADER_PAGES", &list)]);
    assert!(outcome(&value, "app.pages").unwrap().contains("it was recorded for a different cuDNN"), "{value}");

    let graph = File::options().write(true).open(dir.file(Library::Graph)).unwrap();
    graph.set_modified(std::time::UNIX_EPOCH).unwrap();
    let value = preload(&[dir.path().to_str().unwrap(), "--no-context"], &[("CUDNN_LOADER_PAGES", &list)]);
    assert!(outcome(&value, "app.pages").unwrap().contains("cuDNN has changed since"), "{value}");
}

/// The process may belong to another user, and the file may have any size.
#[test]
fn a_huge_sparse_file_takes_no_memory() {
    let dir = TempDir::new();
    let script = "
import mmap, sys
with open(sys.argv[1], 'wb+') as file:
    file.truncate(1000 << 30)
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    print(mapped[1 << 30], flush=True)
    sys.stdin.read()
";
    let mut program = Command::new("python3")
        .args(["-c", script])
        .arg(dir.file(Library::Graph))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "0\n", "the file is mapped");
    let output = Command::new("/bin/sh")
        .args(["-c", "ulimit -v 1000000; exec \"$0\" --json preload --keep \"$1\" --of \"$2\""])
        .args([
            env!("CARGO_BIN_EXE_cudnn-doctor"),
            dir.path().join("list").to_str().unwrap(),
            &program.id().to_string(),
        ])
        .env_clear()
        .output()
        .unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(value["error"].as_str().unwrap().contains("libcudnn_graph.so.9"), "{value}");
}

#[test]
fn the_list_of_a_running_process_is_saved() {
    let (dir, _) = installation();
    let file = dir.path().join("other.pages");
    let keep = |program: &std::process::Child| {
        preload(&["--keep", file.to_str().unwrap(), "--of", &program.id().to_string()], &[])
    };
    let spawn =
        |preloaded: &Path| Command::new("sleep").arg("60").env_clear().env("LD_PRELOAD", preloaded).spawn().unwrap();
    let mut program = spawn(&dir.file(Library::Graph));
    let value = loop {
        let value = keep(&program);
        // ld.so may not have finished yet.
        if value.get("kept").is_some() || program.try_wait().unwrap().is_some() {
            break value;
        }
    };
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(value["kept"]["installation"].as_str(), dir.path().to_str(), "{value}");
    let arguments = [dir.path().to_str().unwrap(), "--no-context"];
    let used = preload(&arguments, &[("CUDNN_LOADER_PAGES", &file)]);
    assert_eq!(outcome(&used, "other.pages").as_deref(), Some("done"), "{used}");

    let mut program = spawn(Path::new(""));
    let value = keep(&program);
    assert!(value["error"].as_str().unwrap().contains("has not loaded libcudnn_graph.so.9"), "{value}");
    program.kill().unwrap();
    program.wait().unwrap();
    let value = keep(&program);
    assert!(value["error"].as_str().unwrap().contains("/maps: No such file"), "{value}");
}

fn list() -> PageList {
    let file = |path: &str, ranges: &[(u64, u64)]| FilePages {
        path: path.into(),
        size: 9_000_000_000,
        modified: -7,
        ranges: ranges.iter().map(|(start, end)| *start..*end).collect(),
    };
    PageList { files: vec![file("/opt/a b/c", &[(0, 4096), (8192, 1 << 29)]), file("/d", &[(4096, 8192)])] }
}

#[test]
fn decoding_reverses_encoding() {
    assert_eq!(PageList::decode(list().encode().as_bytes()).unwrap(), list());
}

#[test]
fn damaged_lists_are_rejected() {
    let text = list().encode();
    let last_line = text.trim_end().rfind('\n').unwrap() + 1;
    for length in 0..text.len() {
        let start = text.as_bytes().get(..length).unwrap();
        // The end of a line is the end of a list.
        assert_eq!(PageList::decode(start).is_ok(), length == last_line, "{length}");
    }
    for (from, to) in [
        ("9000000000", "100"),
        ("4096,", "4096;"),
        ("-536870912", "-9500000000"),
        ("4096-8192", "4096-4096"),
        ("-7", "x"),
        ("2", "1"),
    ] {
        assert!(PageList::decode(text.replacen(from, to, 1).as_bytes()).is_err(), "{from} {to}");
    }
}
