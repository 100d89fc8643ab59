//! Tests `fix` with an installer that pauses, fails or is killed. The installer is a script in place of the
//! environment's Python. At a chosen point, it writes to a named pipe and waits for data from another one.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "advice/world.rs"]
#[allow(dead_code, reason = "the tests of the advice use all of it")]
mod world;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{PythonEnvironment, Share, TempDir, Version, copy_program, not_run, write_program};
use world::Cudnn;

/// A directory that all tests of this program share.
type Shared = OnceLock<TempDir>;

const NEW: &str = "9.19.0.56";
const OLD: &str = "9.18.0.56";
const OPS: &str = "nvidia/cudnn/lib/libcudnn_ops.so.9";
const CNN: &str = "nvidia/cudnn/lib/libcudnn_cnn.so.9";

/// Emulates `-I -m pip install .. nvidia-cudnn-cu12==VERSION` in the environment `$root`, and replaces files like pip.
const INSTALLER: &str = r#"
[ -z "$PIP_CACHE_DIR" ] || echo "$PIP_CACHE_DIR $PIP_NO_CACHE_DIR" >>"$root/../caches"
case " $* " in *" --dry-run "*)
    [ ! -p "$root/../rehearsing" ] || timeout 40 cat "$root/../rehearsing" >"$root/../rehearsed"
    [ -e "$root/../unavailable" ] || exit 0
    echo "ERROR: No matching distribution found" >&2
    exit 1;;
esac
echo "$*" >>"$root/../calls"
site=$root/lib/python3.12/site-packages
if [ "$4" = freeze ]; then
    [ ! -e "$root/../no-freeze" ] || exit 2
    for record in "$site"/*.dist-info; do basename "$record" .dist-info | sed 's/_/-/g; s/-\([^-]*\)$/==\1/'; done
    exit 0
fi
[ ! -e "$root/../do-nothing" ] || exit 0
words=$*
for word in $words; do
    name=${word%%=*}
    record=$(echo "$name" | tr - _)
    case "$word" in *==13*) release=13.9.1;; *) release=12.9.1;; esac
    case "$4 $name" in
    install*nvidia-cublas* | install*nvidia-cuda-nvrtc*)
        rm -rf "$site/$record"-1?.9.1.dist-info
        cp -R "$root/../wheels/${record%_cu1?}/." "$site"
        mkdir "$site/$record-$release.dist-info"
        printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n' "$name" "$release" \
            >"$site/$record-$release.dist-info/METADATA"
        echo "$record-$release.dist-info/METADATA,," >"$site/$record-$release.dist-info/RECORD";;
    uninstall*nvidia-cublas* | uninstall*nvidia-cuda-nvrtc*)
        rm -r "$site/$record"-1?.9.1.dist-info
        (cd "$root/../wheels/${record%_cu1?}" && find . -type f) | while read file; do rm "$site/$file"; done
        find "$site/nvidia" -type d -empty -delete;;
    esac
done
version=9.19.0.56
for word in $words; do
    case "$word" in nvidia-cudnn-*==*) version=${word##*==};; esac
done
point() {
    [ "$(cat "$root/../stop-at" 2>/dev/null)" = "$1" ] || return 0
    echo $$ >"$root/../begun"
    read line <"$root/../go"
}
case "$words" in *nvidia-cudnn-*) ;; *) exit 0;; esac
[ ! -e "$root/../fail-first" ] || exit 1
case "$4 $words" in
uninstall*) rm -rf "$site"/nvidia_cudnn_cu1?-*.dist-info "$site/nvidia/cudnn"; exit 0;;
install*cu13*) cuda=13;;
install*) cuda=12;;
*) exit 9;;
esac
rm -f "$site"/nvidia/cudnn/lib/libcudnn_ops*
point removing
mv "$site/nvidia/cudnn" "$site/nvidia/~udnn"
point renamed
rm -rf "$site"/nvidia_cudnn_cu12-*.dist-info "$site/nvidia/~udnn"
point removed
mkdir -p "$site/nvidia/cudnn/include" "$site/nvidia/cudnn/lib" "$site/nvidia/new"
touch "$site/nvidia/cudnn/include/x.h" "$site/nvidia/new/x"
cp "$root/../wheels/$cuda/$version/nvidia/cudnn/lib/libcudnn_cnn.so.9" "$site/nvidia/cudnn/lib"
point unpacking
rm -r "$site/nvidia/cudnn" "$site/nvidia/new"
cp -R "$root/../wheels/$cuda/$version/." "$site"
point unpacked
[ ! -p "$root/../ended" ] || echo >"$root/../ended"
[ ! -e "$root/../fail-last" ] || exit 1
"#;

fn write_cuda_wheels(wheels: &Path) {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    let compile = || {
        let dir = TempDir::new();
        support::compile("", &["-shared", "-nostdlib"], &dir.path().join("library"));
        std::fs::read(dir.path().join("library")).unwrap()
    };
    for (wheel, dir, files) in [
        ("nvidia_cublas", "cublas", ["libcublas.so.12", "libcublasLt.so.12"]),
        ("nvidia_cublas", "cu13", ["libcublas.so.13", "libcublasLt.so.13"]),
        ("nvidia_cuda_nvrtc", "cuda_nvrtc", ["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"]),
        ("nvidia_cuda_nvrtc", "cu13", ["libnvrtc.so.13", "libnvrtc-builtins.so.13.9"]),
    ] {
        let lib = wheels.join(wheel).join("nvidia").join(dir).join("lib");
        std::fs::create_dir_all(&lib).unwrap();
        files.iter().for_each(|file| std::fs::write(lib.join(file), LIBRARY.get_or_init(compile)).unwrap());
    }
}

struct World {
    dir: TempDir,
    site: PathBuf,
}

impl World {
    /// Creates an environment with this version of cuDNN's wheel.
    fn new(version: &str) -> World {
        let dir = TempDir::new();
        for (cuda, version, release) in
            [(12, NEW, Version::new(9, 19, 0)), (12, OLD, Version::new(9, 18, 0)), (13, NEW, Version::new(9, 19, 0))]
        {
            let wheel = PythonEnvironment::at(&dir.path().join(format!("wheels/{cuda}")), version);
            let libraries = TempDir::new();
            Cudnn { version: release, cuda_major: cuda }.copy_to(libraries.path());
            let mut package = wheel.package(&format!("nvidia-cudnn-cu{cuda}"), version);
            for library in std::fs::read_dir(libraries.path()).unwrap().map(|entry| entry.unwrap()) {
                let path = format!("nvidia/cudnn/lib/{}", library.file_name().display());
                package = package.file(&path, "");
                std::fs::copy(library.path(), wheel.import_dir().join(path)).unwrap();
            }
        }
        write_cuda_wheels(&dir.path().join("wheels"));
        // No other installer can be used, because these always fail.
        std::fs::create_dir(dir.path().join("programs")).unwrap();
        ["pip", "pip3"]
            .iter()
            .for_each(|pip| write_program(dir.path().join("programs").join(pip), "#!/bin/sh\nexit 9\n"));
        let root = dir.path().join("env");
        std::fs::create_dir(&root).unwrap();
        let environment = PythonEnvironment::venv(&root).pip();
        let site = environment.import_dir().to_owned();
        let _ = std::fs::remove_file(root.join("bin/python3"));
        write_program(root.join("bin/python3"), format!("#!/bin/sh\nroot='{}'{INSTALLER}", root.display()));
        let world = World { dir, site };
        world.sh(&format!("cp -R wheels/12/{version}/. wheels/nvidia_cublas/. '{}'", world.site.display()));
        world
    }

    /// Creates an environment with a deleted library, which one step repairs by reinstalling the package.
    fn broken() -> World {
        let world = World::new(NEW);
        std::fs::remove_file(world.site.join(CNN)).unwrap();
        world
    }

    /// Creates an environment with a dangling link. The first step removes it, and the second one reinstalls the
    /// package.
    fn with_dangling_link() -> World {
        let world = World::new(NEW);
        std::fs::remove_file(world.site.join(OPS)).unwrap();
        symlink("/nonexistent/file", world.site.join(OPS)).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn sh(&self, line: &str) -> Output {
        let output = Command::new("/bin/sh").args(["-c", line]).current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        output
    }

    fn doctor(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        command.args(arguments).env_clear().env("PATH", format!("{}:/usr/bin:/bin", self.path("programs").display()));
        command.env("HOME", self.dir.path()).env("VIRTUAL_ENV", self.path("env")).current_dir(self.dir.path());
        command.arg("--no-load").stdin(Stdio::null());
        // Shells without job control ignore SIGINT in background programs.
        let reset = || {
            // SAFETY: the call only restores the default action of a signal.
            unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
            Ok(())
        };
        // SAFETY: the function makes one system call, which is allowed between fork and exec.
        unsafe { command.pre_exec(reset) };
        command
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.doctor(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    fn errors(&self) -> Vec<String> {
        let (_, text) = self.run(&["check", "--json"]);
        let document: Value = serde_json::from_str(&text).unwrap();
        let findings = document["findings"].as_array().unwrap().iter();
        let errors = findings.filter(|finding| finding["severity"] == "error");
        errors.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts `fix` in a process group of its own, like a terminal, and waits until the installer has removed the
    /// package. Returns the doctor and the installer's process id.
    fn start(&self) -> (Child, i32) {
        self.start_until("removing", &[])
    }

    fn start_until(&self, point: &str, options: &[&str]) -> (Child, i32) {
        self.sh(&format!("mkfifo begun go ended; echo {point} >stop-at"));
        let mut command = self.doctor(&[&["fix", "--yes"], options].concat());
        let doctor = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        // Blocks until the installer opens the pipe.
        let process = self.read("begun").trim().parse().unwrap();
        (doctor, process)
    }

    fn kill_at(&self, point: &str, options: &[&str]) {
        let (mut doctor, installer) = self.start_until(point, options);
        kill(group(&doctor), libc::SIGKILL);
        kill(-installer, libc::SIGKILL);
        doctor.wait().unwrap();
        self.sh("rm begun go ended stop-at");
    }

    fn go(&self) {
        std::fs::write(self.path("go"), "go\n").unwrap();
    }

    fn wait(&self) {
        self.read("ended");
    }

    /// Reads from a named pipe, or fails after a time limit.
    fn read(&self, pipe: &str) -> String {
        let output = Command::new("timeout").args(["40", "cat"]).arg(self.path(pipe)).output().unwrap();
        assert!(output.status.success(), "nothing is written to {pipe}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn digest(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut all, mut dirs) = (BTreeMap::new(), vec![self.path("env")]);
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    dirs.push(path.clone());
                }
                let link = std::fs::read_link(&path).map(|target| target.into_os_string().into_encoded_bytes());
                let contents = link.or_else(|_| std::fs::read(&path)).unwrap_or_default();
                all.insert(path, contents);
            }
        }
        all
    }

    /// Returns the calls of the installer that change something.
    fn calls(&self) -> String {
        let calls = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        calls.lines().filter(|line| !line.contains(" freeze ")).map(|line| format!("{line}\n")).collect()
    }
}

fn kill(process: i32, signal: i32) {
    // SAFETY: the call takes only integers.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn group(doctor: &Child) -> i32 {
    -i32::try_from(doctor.id()).unwrap()
}

/// Returns whether this process may give files to other users. Otherwise prints that the test does not run.
fn can_give_files_away(test: &str) -> bool {
    let can = chown(TempDir::new().path(), Some(65534), Some(65534)).is_ok();
    if !can {
        not_run(test, "only root can give files away");
    }
    can
}

#[test]
fn without_yes_nothing_is_changed() {
    let world = World::broken();
    let before = world.digest();
    for arguments in [&["fix"][..], &["fix", "--dry-run"], &["fix", "--json"]] {
        let (code, text) = world.run(arguments);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains("nvidia-cudnn-cu12==9.19.0.56"), "{text}");
    }
    assert!(world.digest() == before && world.calls().is_empty());
}

#[test]
fn a_plan_is_executed_and_checked_again() {
    let world = World::broken();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(text.contains("done: ") && text.contains("Checking again"), "{text}");
    assert!(world.errors().is_empty() && code < Some(2), "{code:?} {text}");
    let (code, text) = world.run(&["fix", "--yes", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(code < Some(2) && document["findings"].is_array(), "{code:?} {text}");
}

#[test]
fn json_is_one_document() {
    let world = World::with_dangling_link();
    let (code, text) = world.run(&["fix", "--yes", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, Some(3), "{text}");
    let reason = document["stopped"]["reason"].as_str().unwrap();
    assert!(reason.contains(OPS) && reason.contains("--remove"), "{text}");
    assert_eq!(document["error"], format!("error: step 1 is not finished: {reason}"), "{text}");
    let (code, text) = world.run(&["fix", "--yes", "--remove", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(code < Some(2) && document["stopped"].is_null() && document["error"].is_null(), "{text}");
    assert!(document["done"].as_array().unwrap().len() == 2 && document["findings"].is_array(), "{text}");
}

#[test]
fn files_are_not_removed_without_consent() {
    let world = World::with_dangling_link();
    let before = world.digest();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("stopped at step 1") && text.contains("--remove"), "{text}");
    assert!(world.digest() == before && world.calls().is_empty());
}

#[test]
fn a_change_by_another_program_is_noticed() {
    // While the first step removes the link, a package is installed, or a library changes without a new size or time.
    for change in [
        "mkdir other-1.0.dist-info",
        "cd nvidia/cudnn/lib && sed s/ELF/xyz/ libcudnn_cnn.so.9 >new && touch -r libcudnn_cnn.so.9 new && \
         mv new libcudnn_cnn.so.9",
    ] {
        let world = World::with_dangling_link();
        let script = format!("#!/bin/sh\n/bin/rm \"$@\"\ncd '{}' && {change}\n", world.site.display());
        write_program(world.path("programs/rm"), script);
        let (code, text) = world.run(&["fix", "--yes", "--remove"]);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("stopped at step 2") && text.contains("has changed"), "{change}: {text}");
        assert_eq!(world.calls(), "");
    }
}

#[test]
fn a_failing_step_is_the_last_one_and_names_the_lines_that_restore_the_packages() {
    for failure in ["fail-first", "fail-last"] {
        let world = World::new(OLD);
        let before = world.digest();
        std::fs::write(world.path(failure), "").unwrap();
        let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("stopped at step 1") && text.contains("failed with exit status: 1"), "{text}");
        std::fs::remove_file(world.path(failure)).unwrap();
        let undo = undo_lines(&text);
        assert!(undo.iter().any(|line| line.ends_with(&format!("nvidia-cudnn-cu12=={OLD}"))), "{text}");
        undo.iter().for_each(|line| drop(world.sh(line)));
        assert!(world.digest() == before, "{failure}: {text}");
    }
}

#[test]
fn lines_that_need_an_unfinished_step_are_not_named_to_paste() {
    for is_failing in [false, true] {
        let world = World::new(NEW);
        world.sh(&format!("rm -r '{}'/nvidia*", world.site.display()));
        if is_failing {
            std::fs::write(world.path("fail-first"), "").unwrap();
        }
        let (code, text) = world.run(&["fix", "--yes"]);
        assert_eq!(code == Some(3), is_failing, "{text}");
        assert_eq!(text.contains("Paste this into the shell"), !is_failing, "{text}");
    }
}

#[test]
fn a_command_that_failed_is_not_named_to_undo_it() {
    let world = World::broken();
    std::fs::write(world.path("fail-first"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &document["stopped"]["step"]), (Some(3), &1.into()), "{text}");
    assert_eq!((&document["stopped"]["undo"], &document["stopped"]["note"]), (&serde_json::json!([]), &Value::Null));
}

/// If pip fails to list the packages, the records are listed.
#[test]
fn the_packages_are_listed_before_a_step() {
    for options in ["true", "touch no-freeze"] {
        let world = World::new(OLD);
        world.sh(&format!("mkdir '{}/other-1.0.dist-info'; {options}", world.site.display()));
        let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        let list =
            text.split("The packages before this step are listed in ").nth(1).and_then(|rest| rest.lines().next());
        let list = std::fs::read_to_string(list.unwrap_or_else(|| panic!("{text}")).trim_end_matches('.')).unwrap();
        assert!(list.contains(&format!("nvidia-cudnn-cu12=={OLD}\n")) && list.contains("other==1.0\n"), "{list}");
    }
}

#[test]
fn a_step_names_the_requirements_that_it_breaks_or_respects_them() {
    for (requirement, is_broken) in [("==9.18.0.56", true), (">=9.18,<9.25", false)] {
        let world = World::new(OLD);
        let record = world.site.join("acme-0.7.0.dist-info");
        std::fs::create_dir(&record).unwrap();
        let text = format!("Name: acme\nVersion: 0.7.0\nRequires-Dist: nvidia-cudnn-cu12{requirement}\n");
        std::fs::write(record.join("METADATA"), text).unwrap();
        let note = format!("acme 0.7.0 requires nvidia-cudnn-cu12{requirement}, which this step breaks");
        let (_, plan) = world.run(&["fix", "--minimum", "9.19"]);
        assert_eq!(plan.contains(&note), is_broken, "{plan}");
        assert_eq!(plan.contains("nvidia-cudnn-cu12>=9.19.0,>=9.18,<9.25'"), !is_broken, "{plan}");
        let (_, json) = world.run(&["fix", "--minimum", "9.19", "--json"]);
        assert_eq!(json.contains(&note), is_broken, "{json}");
        let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        assert!(text.contains("done: ") && text.contains(&note) == is_broken, "{text}");
    }
}

#[test]
fn a_step_without_its_effect_is_not_done() {
    let world = World::new(OLD);
    std::fs::write(world.path("do-nothing"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
    let message = format!("ended without an error, but nvidia-cudnn-cu12 is version {OLD} instead of ");
    assert!(code == Some(3) && text.contains(&message) && !text.contains("done: "), "{text}");
    let world = World::broken();
    std::fs::write(world.path("do-nothing"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(code == Some(3) && text.contains("nvidia-cudnn-cu12 was not installed again"), "{text}");
}

/// pip cannot uninstall a package with a damaged record, so the doctor sets it aside.
#[test]
fn a_damaged_record_is_lost_only_if_the_package_was_installed_again() {
    let world = World::broken();
    let record = world.site.join(format!("nvidia_cudnn_cu12-{NEW}.dist-info/RECORD"));
    std::fs::write(&record, "").unwrap();
    let before = world.digest();
    std::fs::write(world.path("fail-first"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes", "--remove"]);
    assert!(code == Some(3) && text.contains("failed with exit status: 1"), "{text}");
    assert!(world.digest() == before, "{text}");
    let (_, text) = world.run(&["check", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let found = document["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "C012").unwrap();
    let line = found["commands"][0].as_str().unwrap();
    let pasted = Command::new("/bin/sh").args(["-c", line]).output().unwrap();
    assert!(!pasted.status.success() && world.digest() == before, "{line}: {pasted:?}");
    std::fs::remove_file(world.path("fail-first")).unwrap();
    let (_, text) = world.run(&["fix", "--yes", "--remove"]);
    assert!(text.contains("done: ") && world.errors().is_empty(), "{text}");
    assert!(!std::fs::read(&record).unwrap().is_empty(), "{text}");
    let left = world.digest().into_keys().find(|path| path.to_string_lossy().contains(".aside-"));
    assert_eq!(left, None, "{text}");
}

/// The next run knows the package by this record.
#[test]
fn a_record_that_a_killed_doctor_has_set_aside_is_used_and_removed() {
    let world = World::broken();
    std::fs::write(world.site.join(format!("nvidia_cudnn_cu12-{NEW}.dist-info/RECORD")), "").unwrap();
    world.kill_at("removing", &["--remove"]);
    let left = || world.digest().into_keys().find(|path| path.to_string_lossy().ends_with(".aside-1"));
    assert!(left().is_some());
    let (code, text) = world.run(&["fix", "--yes", "--remove"]);
    assert!(text.contains("done: ") && world.errors().is_empty() && code < Some(2), "{text}");
    assert_eq!(left(), None, "{text}");
}

#[test]
fn a_step_with_another_effect_than_the_simulated_one_is_not_done() {
    let world = World::broken();
    world.sh(&format!("mkdir '{}/other-1.0.dist-info'", world.site.display()));
    let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
    let change = "mv \"$site/other-1.0.dist-info\" \"$site/other-2.0.dist-info\"\npoint unpacked";
    write_program(world.path("env/bin/python3"), script.replace("point unpacked", change));
    let (code, text) = world.run(&["fix", "--yes"]);
    let message = "but other is version 2.0 instead of 1.0, although the plan keeps it";
    assert!(code == Some(3) && text.contains(message) && !text.contains("done: "), "{text}");
    // Another program may have done this at the same time.
    let note = text.lines().find(|line| line.contains("note: another program may have changed other during the step"));
    assert!(note.is_some_and(|line| line.contains(" other==1.0")), "{text}");
    assert!(!undo_lines(&text).iter().any(|line| line.contains("other")), "{text}");
}

#[test]
fn changes_of_another_program_are_not_undone_with_the_step() {
    for failure in ["", "touch \"$root/../fail-last\"; "] {
        let world = World::new(OLD);
        world.sh(&format!("cd '{}'; mkdir gone-1.0.dist-info kept-1.0.dist-info", world.site.display()));
        let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
        let change =
            format!("{failure}rmdir \"$site/gone-1.0.dist-info\"; mkdir \"$site/new-1.0.dist-info\"\npoint unpacked");
        write_program(world.path("env/bin/python3"), script.replace("point unpacked", &change));
        let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        let lines = undo_lines(&text);
        assert!(lines.iter().any(|line| line.ends_with(&format!("nvidia-cudnn-cu12=={OLD}"))), "{text}");
        assert!(!lines.iter().any(|line| line.contains("gone") || line.contains(" new")), "{text}");
        let note =
            text.lines().find(|line| line.contains("note: another program may have changed new and gone")).unwrap();
        assert!(note.contains("uninstall --yes new") && note.contains(" gone==1.0"), "{text}");
    }
}

#[test]
fn a_step_that_installs_a_damaged_file_is_not_done() {
    for (damage, message) in [
        ("echo >>", "CNN has "),
        ("sed -i s/ELF/elf/", "CNN has the right size, but a different sha256"),
        ("rm", "CNN is missing"),
    ] {
        let world = World::broken();
        let wheel = world.path(&format!("wheels/12/{NEW}"));
        let file = wheel.join(CNN);
        let (len, hash) = (std::fs::metadata(&file).unwrap().len(), cudnn_fetch::sha256(&file).unwrap());
        let record = wheel.join(format!("nvidia_cudnn_cu12-{NEW}.dist-info/RECORD"));
        let text = std::fs::read_to_string(&record).unwrap();
        let line = format!("{CNN},sha256={hash},{len}");
        std::fs::write(&record, text.replace(&format!("{CNN},,"), &line)).unwrap();
        world.sh(&format!("{damage} '{}'", file.display()));
        let (code, text) = world.run(&["fix", "--yes"]);
        let message = format!("but nvidia-cudnn-cu12 is damaged: {}", message.replace("CNN", CNN));
        assert!(code == Some(3) && text.contains(&message) && !text.contains("done: "), "{damage}: {text}");
    }
}

/// Later runs of `fix` repair the environment without removing other packages.
#[test]
fn what_a_killed_installer_leaves_is_fixed() {
    for point in ["removing", "renamed", "removed", "unpacking", "unpacked"].into_iter().share(3) {
        for (world, options) in [(World::broken(), &[][..]), (World::new(OLD), &["--minimum", "9.19"])] {
            world.sh(&format!("cd '{}'; mkdir other-1.0.dist-info; echo >mine.pth", world.site.display()));
            world.kill_at(point, options);
            world.sh(&format!("cd '{}'; mkdir added_later-1.0.dist-info", world.site.display()));
            let (_, first) = world.run(&[&["fix", "--yes", "--remove"], options].concat());
            let (code, second) = world.run(&[&["fix", "--yes", "--remove"], options].concat());
            assert!(world.errors().is_empty() && code < Some(2), "{point}: {first}{second}");
            for kept in ["other-1.0.dist-info", "mine.pth", "added_later-1.0.dist-info"] {
                assert!(world.site.join(kept).exists(), "{point}: {kept}: {first}{second}");
            }
        }
    }
}

#[test]
fn an_environment_is_not_changed_while_an_installer_runs() {
    let world = World::broken();
    let (mut doctor, _) = world.start();
    kill(doctor.id().try_into().unwrap(), libc::SIGKILL);
    doctor.wait().unwrap();
    let (calls, running) = (world.calls(), world.digest());
    let (code, text) = world.run(&["fix", "--yes", "--remove"]);
    assert!(code == Some(3) && text.contains("another process has locked "), "{text}");
    assert!(world.calls() == calls && world.digest() == running, "{text}");
    world.go();
    world.wait();
    world.sh("rm begun go ended stop-at");
    assert!(world.errors().is_empty(), "{:?}", world.errors());
}

#[test]
fn pip_that_a_step_adds_is_kept() {
    let world = World::new(NEW);
    let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
    let ensurepip = "*ensurepip*) mkdir -p $site/pip $site/pip-23.dist-info; exit 0;; ";
    write_program(
        world.path("env/bin/python3"),
        script.replace("*nvidia-cudnn-*)", &format!("{ensurepip}*nvidia-cudnn-*)")),
    );
    world.sh(&format!("rm -r '{}/pip'; mkdir -p base/lib/python3.12/ensurepip", world.site.display()));
    std::fs::write(world.path("env/pyvenv.cfg"), format!("home = {}/bin\n", world.path("base").display())).unwrap();
    let (_, text) = world.run(&["fix", "--yes", "--remove", "--cuda", "13"]);
    assert!(text.contains("done: ") && undo_lines(&text)[0].contains(" nvidia-cudnn-cu13"), "{text}");
    assert!(!text.contains("uninstall --yes pip"), "{text}");
}

fn undo_lines(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once("to undo it: ")).map(|(_, line)| line).collect()
}

#[test]
fn a_package_is_not_removed_without_consent() {
    let world = World::new(NEW);
    let before = world.digest();
    let (_, text) = world.run(&["fix", "--cuda", "13"]);
    assert!(text.contains("Step 1 removes nvidia-cudnn-cu12"), "{text}");
    let (code, text) = world.run(&["fix", "--yes", "--cuda", "13"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("it removes nvidia-cudnn-cu12, which was not allowed"), "{text}");
    assert!(world.digest() == before && world.calls().is_empty());
    let (_, text) = world.run(&["fix", "--yes", "--remove", "--cuda", "13"]);
    assert!(text.contains("done: remove nvidia-cudnn-cu12, then install nvidia-cudnn-cu13"), "{text}");
    assert!(world.site.join("nvidia_cudnn_cu13-9.19.0.56.dist-info").exists(), "{}", world.calls());
    let undo = undo_lines(&text).join("\n");
    assert!(
        undo.contains(" uninstall --yes ")
            && undo.contains(" nvidia-cudnn-cu13")
            && undo.contains("nvidia-cudnn-cu12==9.19.0.56"),
        "{text}"
    );
    world.sh(&format!("set -e\n{undo}"));
    assert!(world.digest() == before, "{undo}");
}

#[test]
fn nothing_is_removed_if_the_new_package_cannot_be_installed() {
    let world = World::new(NEW);
    let before = world.digest();
    world.sh("touch unavailable");
    let (code, text) = world.run(&["fix", "--yes", "--remove", "--cuda", "13"]);
    assert_eq!(code, Some(3), "{text}");
    let expected = "nothing was removed, because the new packages cannot be installed: ERROR: No matching distribution";
    assert!(text.contains(expected) && !text.contains("to undo it"), "{text}");
    assert!(world.digest() == before && world.calls().is_empty(), "{}", world.calls());
}

/// Otherwise pip would download everything twice.
#[test]
fn the_rehearsal_shares_its_downloads_with_the_installation() {
    let world = World::new(NEW);
    let mut command = world.doctor(&["fix", "--yes", "--remove", "--cuda", "13"]);
    let output = command.env("PIP_NO_CACHE_DIR", "1").output().unwrap();
    let caches = std::fs::read_to_string(world.path("caches")).unwrap_or_default();
    let caches: Vec<&str> = caches.lines().collect();
    assert!(caches.len() >= 3 && caches.iter().all(|cache| *cache == caches[0]), "{caches:?} {output:?}");
    assert!(caches[0].ends_with(' ') && !std::path::Path::new(caches[0].trim()).exists(), "{caches:?}");
}

#[test]
fn a_spinner_appears_during_the_rehearsal() {
    let world = World::new(NEW);
    world.sh("mkfifo rehearsing");
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both integers are valid for writes, and the other arguments may be null.
    let opened = unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
    assert_eq!(opened, 0);
    // SAFETY: openpty returned these descriptors, and this function is the only owner.
    let (mut master, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
    let mut command = world.doctor(&["fix", "--yes", "--remove", "--cuda", "13"]);
    let mut doctor = command.stdout(Stdio::null()).stderr(slave).spawn().unwrap();
    drop(command);
    let (mut shown, mut bytes) = (String::new(), [0; 1000]);
    while !shown.contains("trying the installation") {
        // On Linux, the last read fails.
        let len = master.read(&mut bytes).unwrap_or_default();
        assert!(len > 0, "{shown:?}");
        shown += &String::from_utf8_lossy(&bytes[..len]);
    }
    std::fs::write(world.path("rehearsing"), "go\n").unwrap();
    // Without a reader, the doctor would block.
    let _ = std::io::copy(&mut master, &mut std::io::sink());
    doctor.wait().unwrap();
}

#[test]
fn a_successful_step_can_be_undone() {
    let world = World::new(OLD);
    let before = world.digest();
    let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
    assert!(world.errors().is_empty());
    let undo = undo_lines(&text);
    // The release also requires NVRTC, which was missing.
    assert_eq!(undo.len(), 2, "{text}");
    world.sh(&format!("set -e\n{}", undo.join("\n")));
    assert!(world.digest() == before, "{undo:?}");
}

/// The package that was installed last wins.
#[test]
fn packages_that_share_files_are_restored_in_the_order_of_their_installation() {
    for (first, last) in [(12, 13), (13, 12)] {
        let world = World::new(NEW);
        let site = world.site.display();
        let copy = |cuda: i32, time: i32| {
            let record = format!("'{site}'/nvidia_cudnn_cu{cuda}-{NEW}.dist-info");
            format!("cp -R wheels/{cuda}/{NEW}/. '{site}'; touch -d @{time} {record}; ")
        };
        world.sh(&format!("set -e; {}{}", copy(first, 1000), copy(last, 2000)));
        let (_, text) = world.run(&["fix", "--yes", "--remove"]);
        assert!(text.contains("done: remove nvidia-cudnn-cu12 and nvidia-cudnn-cu13"), "{text}");
        let undo = undo_lines(&text);
        let installed = |cuda: i32| {
            let wheel = format!(" nvidia-cudnn-cu{cuda}=={NEW}");
            undo.iter().position(|line| line.contains(" install ") && line.ends_with(&wheel))
        };
        let of_both = installed(first).zip(installed(last));
        assert!(of_both.is_some_and(|(first, last)| first < last), "{undo:#?}");
    }
}

#[test]
fn a_step_is_finished_when_the_doctor_is_killed() {
    let world = World::broken();
    let (mut doctor, _) = world.start();
    kill(doctor.id().try_into().unwrap(), libc::SIGKILL);
    doctor.wait().unwrap();
    world.go();
    world.wait();
    world.sh("rm begun go ended stop-at");
    assert!(world.errors().is_empty(), "{:?}", world.errors());
}

#[test]
fn ctrl_c_ends_the_doctor_after_the_step() {
    let world = World::broken();
    let (doctor, _) = world.start();
    kill(group(&doctor), libc::SIGINT);
    world.go();
    world.wait();
    let output = doctor.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(signal, Some(libc::SIGINT), "{text}");
    assert!(text.contains("done: install nvidia-cudnn-cu12 again") && !text.contains("Checking again"), "{text}");
    world.sh("rm begun go ended stop-at");
    assert!(world.errors().is_empty(), "{:?}", world.errors());
}

#[test]
fn a_second_ctrl_c_ends_the_step() {
    let world = World::broken();
    world.sh("mkfifo begun go; echo renamed >stop-at");
    let mut command = world.doctor(&["fix", "--yes"]);
    let mut doctor = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    world.read("begun");
    kill(group(&doctor), libc::SIGINT);
    let mut message = String::new();
    BufReader::new(doctor.stderr.as_mut().unwrap()).read_line(&mut message).unwrap();
    assert!(message.contains("Press Ctrl-C again"), "{message}");
    kill(group(&doctor), libc::SIGINT);
    let start = Instant::now();
    while doctor.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = doctor.kill();
    let output = doctor.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGINT), "{text}");
    assert!(text.contains("stopped at step 1") && !text.contains("Checking again"), "{text}");
}

#[test]
fn a_pyvenv_cfg_that_is_a_named_pipe_is_replaced() {
    let world = World::new(NEW);
    // Recreating an environment needs a native program.
    std::fs::copy("/bin/true", world.path("programs/python3.12")).unwrap();
    world.sh("cd env; rm bin/python3 pyvenv.cfg; ln -s ../../programs/python3.12 bin/python3; touch bin/activate");
    world.sh("mkfifo env/pyvenv.cfg");
    let (_, text) = world.run(&["check", "--only", "C028"]);
    assert!(text.contains("pyvenv.cfg is not a regular file"), "{text}");
    let (_, text) = world.run(&["fix", "--yes", "--remove", "--only", "C028"]);
    // The stand-in for Python creates no files.
    let is_gone = world.path("env/pyvenv.cfg").symlink_metadata().is_err();
    assert!(is_gone && text.contains("bin/python3 still cannot use its packages"), "{text}");
}

#[test]
fn after_ctrl_c_no_step_begins() {
    let world = World::with_dangling_link();
    world.sh("mkfifo begun go");
    let dir = world.dir.path().display();
    let script = format!("#!/bin/sh\necho $$ >'{dir}/begun'\nread line <'{dir}/go'\nexec /bin/rm \"$@\"\n");
    write_program(world.path("programs/rm"), script);
    let mut command = world.doctor(&["fix", "--yes", "--remove"]);
    let doctor = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    world.read("begun");
    kill(group(&doctor), libc::SIGINT);
    world.go();
    let text = String::from_utf8(doctor.wait_with_output().unwrap().stdout).unwrap();
    assert!(text.contains("done: remove") && text.contains("stopped at step 2"), "{text}");
    assert!(text.contains("the doctor was interrupted"), "{text}");
    assert!(world.calls().is_empty() && world.site.join(OPS).symlink_metadata().is_err());
}

#[test]
fn root_runs_no_installer_of_another_user() {
    let world = World::new(NEW);
    if !can_give_files_away("root and programs of another user") {
        return;
    }
    chown(world.path("programs"), Some(65534), None).unwrap();
    write_program(world.path("programs/uv"), "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    world.sh(&format!("rm -r '{0}/pip' '{0}/{CNN}'; echo uv = 0.9.0 >>env/pyvenv.cfg", world.site.display()));
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(code == Some(3) && text.contains("a user other than root can change"), "{text}");
    assert!(!world.path("ran").exists(), "{text}");
}

/// For example, pip starts `lsb_release`, `uname` and `rustc`.
#[test]
fn installers_of_root_start_no_program_of_another_user() {
    if !can_give_files_away("root and programs of another user") {
        return;
    }
    let world = World::broken();
    let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
    write_program(world.path("env/bin/python3"), script.replacen('\n', "\nlsb_release -a\n", 1));
    write_program(world.path("programs/lsb_release"), "#!/bin/sh\ntouch \"$HOME/ran\"\n");
    chown(world.path("programs"), Some(65534), None).unwrap();
    let (_, text) = world.run(&["fix", "--yes"]);
    assert!(text.contains("done: ") && !world.path("ran").exists(), "{text}");
}

/// With `fix --yes | head -1`, an installer that writes to the pipe would fail halfway.
#[test]
fn a_reader_that_goes_away_ends_no_installer() {
    for format in [&[][..], &["--json"]] {
        let world = World::broken();
        let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
        let script = script.replace("rm -rf", "echo installing && echo more >&2 || exit 5\nrm -rf");
        write_program(world.path("env/bin/python3"), script);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = world.doctor(&[&["fix", "--yes"], format].concat());
        command.stdout(writer.try_clone().unwrap()).stderr(writer).status().unwrap();
        assert!(world.errors().is_empty(), "{:?} {}", world.errors(), world.calls());
    }
}

#[test]
fn root_does_nothing_that_the_owner_of_the_environment_can_do() {
    if !can_give_files_away("root and the environment of a user") {
        return;
    }
    let world = World::broken();
    world.sh("chown -R 65534:65534 env");
    let before = world.digest();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("a user other than root can change"), "{text}");
    assert!(world.digest() == before && world.calls().is_empty());
}

#[test]
fn root_runs_no_code_that_another_user_can_change() {
    if !can_give_files_away("root and files of another user") {
        return;
    }
    let site = "env/lib/python3.12/site-packages";
    for (line, path) in [
        (format!("echo >{site}/pip/__main__.py; chmod 666 {site}/pip/__main__.py"), "pip/__main__.py"),
        (format!("chown 65534 {site}/pip"), "site-packages/pip"),
        ("chmod 666 env/pyvenv.cfg".to_owned(), "env/pyvenv.cfg"),
        (format!("echo >{site}/x.pth; chown 65534 {site}/x.pth"), "x.pth"),
        (format!("chown 65534 {site}/nvidia/cudnn"), "nvidia/cudnn"),
        ("chgrp 65534 env; chmod 770 env".to_owned(), "env"),
        // Python adds these directories to its search path, and pip imports from them.
        (format!("mkdir project; chown 65534 project; echo $PWD/project >{site}/x.pth"), "project"),
        // These end the line for some Pythons, and the mark at the start is skipped by some.
        (format!("mkdir project; chown 65534 project; printf '# x\\r%s\\n' $PWD/project >{site}/x.pth"), "project"),
        (format!("mkdir project; chown 65534 project; printf '# x\\f%s\\n' $PWD/project >{site}/x.pth"), "project"),
        (
            format!("mkdir project; chown 65534 project; printf '\\357\\273\\277%s\\n' $PWD/project >{site}/x.pth"),
            "project",
        ),
        (format!("mkdir -p project/keyring; chown 65534 project/keyring; echo $PWD/project >{site}/x.pth"), "keyring"),
        (
            format!(
                "mkdir project; chown 65534 project; echo 'import __editable___x' >{site}/x.pth; \
                 echo \"MAPPING = {{'x': '$PWD/project'}}\" >{site}/__editable___x.py"
            ),
            "project",
        ),
        (format!("mkdir later; chown 65534 later; echo $PWD/later/project >{site}/x.pth"), "later"),
        // The user can redirect a link on the path, or create the target of a dangling one.
        (
            format!(
                "mkdir -p user own/project; ln -s $PWD/own user/link; chown -h 65534 user user/link; \
                 ln -s $PWD/user/link link; echo $PWD/link/project >{site}/x.pth"
            ),
            "/user",
        ),
        (
            format!(
                "ln -s $PWD/own link; mkdir -p own/project; chown -h 65534 link; echo $PWD/link/project >{site}/x.pth"
            ),
            "/link",
        ),
        (format!("mkdir later; chown 65534 later; ln -s $PWD/later/x link; echo $PWD/link >{site}/x.pth"), "/later"),
        (
            format!("mkdir {site}/attr; echo >{site}/attr/__init__.py; chown 65534 {site}/attr/__init__.py"),
            "attr/__init__.py",
        ),
        (format!("mkdir {site}/__pycache__; chown 65534 {site}/__pycache__"), "__pycache__"),
        (format!("echo >{site}/_manylinux.abi3.so; chown 65534 {site}/_manylinux.abi3.so"), "_manylinux.abi3.so"),
        (
            "mkdir -p base/bin base/lib/python3.12; echo >base/bin/python3; chown 65534 base/lib/python3.12; \
             echo home = $PWD/base/bin >env/pyvenv.cfg"
                .to_owned(),
            "base/lib/python3.12",
        ),
        (
            "echo >env/lib/libpython3.12.so.1.0; chown 65534 env/lib/libpython3.12.so.1.0".to_owned(),
            "libpython3.12.so.1.0",
        ),
        ("mkdir -p .local/lib/python3.12; chown 65534 .local".to_owned(), ".local"),
    ] {
        let world = World::broken();
        world.sh(&line);
        let (code, text) = world.run(&["fix", "--yes"]);
        let message = format!("{path}: run `fix` as that user");
        assert!(code == Some(3) && text.contains(&message), "{line}: {text}");
        assert!(world.calls().is_empty(), "{line}");
    }
}

/// Otherwise pip would first download hundreds of megabytes.
#[test]
fn a_user_who_may_not_change_the_packages_is_told_before_the_download() {
    if !can_give_files_away("the packages of root in the environment of a user") {
        return;
    }
    let uid = 65534;
    for (line, dir, advice) in [
        ("true", "", ": run `fix` as the user that it belongs to"),
        ("chown 65534 env/lib/python3.12/site-packages", "/nvidia", ": run `fix` as the user that it belongs to"),
        (
            "chown 65534 env/lib/python3.12/site-packages; chmod 555 env/lib/python3.12/site-packages",
            "",
            ", but owns it: run `chmod",
        ),
    ] {
        let world = World::broken();
        chown(world.path("env"), Some(uid), Some(uid)).unwrap();
        world.sh(line);
        let program = world.path("programs/cudnn-doctor");
        copy_program(env!("CARGO_BIN_EXE_cudnn-doctor"), &program);
        let mut command = Command::new(program);
        command
            .args(["fix", "--yes", "--no-load"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/nonexistent");
        command.env("VIRTUAL_ENV", world.path("env")).current_dir("/").uid(uid).gid(uid).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let message = format!("this user may not change {}{dir}{advice}", world.site.display());
        assert!(output.status.code() == Some(3) && text.contains(&message), "{text}");
        assert!(world.calls().is_empty(), "{text}");
    }
}

/// An installation executes code, so settings and directories with packages are checked like code.
#[test]
fn root_takes_no_settings_or_packages_of_another_user() {
    if !can_give_files_away("root and settings of another user") {
        return;
    }
    for (line, variable, path) in [
        ("echo >env/pip.conf; chown 65534 env/pip.conf", None, "env/pip.conf"),
        ("mkdir -p .config/pip; chown 65534 .config/pip", None, ".config/pip"),
        ("mkdir own; chown 65534 own; ln -s $PWD/own/later env/pip.conf", None, "own"),
        ("mkdir 'o wn'; chown 65534 'o wn'", Some(("PIP_INDEX_URL", "file://$/o%20wn/simple")), "o wn"),
        ("mkdir own; chown 65534 own", Some(("XDG_CONFIG_HOME", "$/own")), "own"),
        ("mkdir own; chown 65534 own", Some(("XDG_CONFIG_DIRS", "/etc/xdg:$/own")), "own"),
        ("mkdir own; chown 65534 own", Some(("PIP_CONFIG_FILE", "$/own/x")), "own"),
        ("mkdir own; chown 65534 own", Some(("PIP_FIND_LINKS", "$/own")), "own"),
        ("mkdir own; chown 65534 own", Some(("PIP_INDEX_URL", "file://$/own/simple")), "own"),
        ("mkdir own; chown 65534 own", Some(("TMPDIR", "$/own")), "own"),
        ("mkdir wheels; echo >wheels/x.whl; chown 65534 wheels/x.whl", Some(("PIP_FIND_LINKS", "$/wheels")), "x.whl"),
        (
            "mkdir own; chown 65534 own; printf '[install]\nfind-links =\n  %s/own\n' \"$PWD\" >env/pip.conf",
            None,
            "own",
        ),
        (
            "mkdir own; chown 65534 own; echo x @ file://$PWD/own/x.whl >names; echo -c names >constraints",
            Some(("PIP_CONSTRAINT", "$/constraints")),
            "own",
        ),
    ] {
        let world = World::broken();
        world.sh(line);
        let mut command = world.doctor(&["fix", "--yes"]);
        if let Some((name, value)) = variable {
            command.env(name, value.replace('$', &world.dir.path().display().to_string()));
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let message = format!("{path}, where pip finds settings or packages: make ");
        assert!(output.status.code() == Some(3) && text.contains(&message), "{line} {variable:?}: {text}");
        assert!(world.calls().is_empty(), "{line} {variable:?}");
    }
    for (line, variable, message) in [
        (
            "yes '#' | head -c 1100000 >env/pip.conf",
            ("X", ""),
            "env/pip.conf, where pip finds settings, has 1100000 bytes, more than 1048576",
        ),
        ("printf '# Ren\\351' >names", ("PIP_FIND_LINKS", "$/names"), "names, where pip finds settings, is not UTF-8"),
        ("echo '-f ${OWN}' >names", ("PIP_CONSTRAINT", "$/names"), "names, where pip finds settings, contains `$`"),
        ("true", ("PIP_FIND_LINKS", "~user"), "PIP_FIND_LINKS, where pip finds settings, contains `~user`"),
        (
            "mkdir -p own/x; echo >own/x/index.html",
            ("PIP_INDEX_URL", "file://$/own"),
            "has pages or a list of packages, which may link",
        ),
        (
            "mkdir -m 1777 own",
            ("PIP_FIND_LINKS", "$/own/later"),
            "own, where pip finds settings or packages: let PIP_FIND_LINKS name a directory that only root can change",
        ),
    ] {
        let world = World::broken();
        world.sh(line);
        let value = variable.1.replace('$', &world.dir.path().display().to_string());
        let output = world.doctor(&["fix", "--yes"]).env(variable.0, value).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(3) && text.contains(message), "{line} {variable:?}: {text}");
        assert!(world.calls().is_empty(), "{line} {variable:?}");
    }
    // Root's own settings are used, and so is /dev/null for no settings.
    for (line, file) in [
        ("mkdir wheels; printf '[install]\nfind-links = %s/wheels\n' \"$PWD\" >env/pip.conf", "$/env/pip.conf"),
        ("echo >env/pip.conf; chown 65534 env/pip.conf", "/dev/null"),
        // uv creates locks that all users may write to.
        (
            "mkdir w; printf '[install]\nfind-links = %s/w\n' \"$PWD\" >env/pip.conf; echo >w/.lock; chmod 666 w/.lock",
            "$/env/pip.conf",
        ),
    ] {
        let world = World::broken();
        world.sh(line);
        let file = file.replace('$', &world.dir.path().display().to_string());
        let output = world.doctor(&["fix", "--yes"]).env("PIP_CONFIG_FILE", file).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("done: "), "{line}: {output:?}");
    }
}

/// Some variables name files with code or settings.
#[test]
fn programs_of_root_get_only_known_variables() {
    if !can_give_files_away("root and variables") {
        return;
    }
    let world = World::broken();
    let script = std::fs::read_to_string(world.path("env/bin/python3")).unwrap();
    let script = script.replace("rm -rf", "env >>\"$root/../variables\"\nrm -rf");
    write_program(world.path("env/bin/python3"), script);
    let mut command = world.doctor(&["fix", "--yes"]);
    command.env("OPENSSL_CONF", "/own/x").env("LD_BIND_NOW", "1").env("PIP_Log", "/own/x").env("PIP_RETRIES", "2");
    // pip uses the last spelling of a name.
    let output = command.env("PIP_Retries", "3").output().unwrap();
    let variables = std::fs::read_to_string(world.path("variables")).unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("done: "), "{output:?}");
    assert!(variables.contains("PATH=") && variables.contains("PIP_RETRIES=3"), "{variables}");
    for name in ["OPENSSL_CONF", "LD_BIND_NOW", "PIP_LOG", "PIP_Log", "PIP_Retries"] {
        assert!(!variables.contains(name), "{variables}");
    }
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    let world = World::broken();
    for arguments in [&["fix", "--yes", "--dry-run"][..], &["fix", "--remove"]] {
        assert_eq!(world.run(arguments).0, Some(3), "{arguments:?}");
    }
    assert!(world.calls().is_empty());
}

#[test]
fn a_link_out_of_the_environment_is_refused() {
    for dir in ["nvidia", "nvidia/cudnn/lib"] {
        let world = World::broken();
        let (dir, outside) = (world.site.join(dir), world.path("outside"));
        world.sh(&format!("mkdir outside; rm -r '{}'", dir.display()));
        symlink(&outside, &dir).unwrap();
        let (code, text) = world.run(&["fix", "--yes"]);
        assert!(code == Some(2) && text.starts_with("No command can fix these problems"), "{text}");
        assert!(world.calls().is_empty(), "{text}");
        let (_, text) = world.run(&["check"]);
        assert!(text.contains("leads out of the environment, to "), "{text}");
    }
}

#[test]
fn a_named_pipe_in_a_record_is_refused() {
    // A damaged RECORD is removed with consent.
    for (file, expected) in [("METADATA", "is not a regular file"), ("RECORD", "which was not allowed")] {
        let world = World::new(OLD);
        let record = world.site.join(format!("nvidia_cudnn_cu12-{OLD}.dist-info/{file}"));
        world.sh(&format!("rm '{0}'; mkfifo '{0}'", record.display()));
        let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        assert!(code != Some(0) && text.contains(expected), "{text}");
        assert!(world.calls().is_empty());
    }
}

#[test]
fn a_loop_of_links_in_a_record_is_named() {
    for (file, expected) in [("METADATA", "METADATA cannot be read: "), ("RECORD", "which was not allowed")] {
        let world = World::new(OLD);
        let record = world.site.join(format!("nvidia_cudnn_cu12-{OLD}.dist-info/{file}"));
        world.sh(&format!("rm '{0}'; ln -s {file} '{0}'", record.display()));
        let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        assert!(code != Some(0) && text.contains(expected) && !text.contains("other than root"), "{text}");
        assert!(world.calls().is_empty());
    }
}

#[test]
fn a_link_to_a_device_is_replaced() {
    let world = World::broken();
    symlink("/dev/zero", world.site.join(CNN)).unwrap();
    let (_, text) = world.run(&["fix", "--yes"]);
    assert!(text.contains("done: ") && world.errors().is_empty(), "{text}");
}

fn conda_world() -> World {
    let world = World::new(NEW);
    world.sh(&format!(
        "mkdir -p conda/lib conda/conda-meta; cp '{}'/nvidia/cudnn/lib/*.so.9 conda/lib; rm conda/lib/libcudnn_cnn.so.9; \
         echo '{{\"files\": [\"lib/libcudnn_graph.so.9\"]}}' >conda/conda-meta/libcudnn-9.19.0.56-h1.json",
        world.site.display()
    ));
    world
}

/// Executes the plan with this variable, in which `$` is the world's directory.
fn fix_conda(world: &World, variable: (&str, &str)) -> (Option<i32>, String) {
    fix_conda_in(world, "conda", variable)
}

fn fix_conda_in(world: &World, root: &str, (name, value): (&str, &str)) -> (Option<i32>, String) {
    let mut command = world.doctor(&["fix", "--yes", "--only", "C012"]);
    command.env_remove("VIRTUAL_ENV").env("CONDA_PREFIX", world.path(root));
    let output = command.env(name, value.replace('$', &world.dir.path().display().to_string())).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_missing_conda_is_named() {
    let (code, text) = fix_conda(&conda_world(), ("X", ""));
    let message = "conda, mamba or micromamba is not on PATH";
    assert!(code == Some(3) && text.contains(message), "{text}");
}

/// A command would replace the requirement that the user wrote.
#[test]
fn the_manifest_of_pixi_is_restored_by_the_user() {
    let world = conda_world();
    let root = "project/.pixi/envs/default";
    world.sh(&format!(
        "mkdir -p project/.pixi/envs; mv conda {root}; echo '{{\"environment_name\": \"default\"}}' >{root}/conda-meta/pixi; \
         touch project/pixi.toml; cp wheels/12/{NEW}/nvidia/cudnn/lib/libcudnn_cnn.so.9 {root}/lib"
    ));
    let lock = world.path("project/pixi.lock");
    for (script, has_note) in [("exit 1".to_owned(), false), (format!("echo >>'{}'", lock.display()), true)] {
        write_program(world.path("programs/pixi"), format!("#!/bin/sh\n{script}\n"));
        let mut command = world.doctor(&["fix", "--yes", "--only", "C018", "--minimum", "9.20"]);
        let output = command.env_remove("VIRTUAL_ENV").env("CONDA_PREFIX", world.path(root)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("restore the manifest and pixi.lock in "), has_note, "{text}");
        assert!(text.contains("stopped at step 1") && !text.contains("to undo it"), "{text}");
    }
}

#[test]
fn root_takes_no_settings_or_packages_of_conda_from_another_user() {
    if !can_give_files_away("root and settings of conda") {
        return;
    }
    let world = || {
        let world = conda_world();
        write_program(
            world.path("programs/conda"),
            format!("#!/bin/sh\necho conda >>'{}'\n", world.path("calls").display()),
        );
        world
    };
    const OWN: &str = "mkdir own; chown 65534 own";
    const FOREIGN: &str = "where conda finds settings or packages: make ";
    for (line, variable, message) in [
        ("echo >conda/.condarc; chown 65534 conda/.condarc", ("X", ""), FOREIGN),
        ("echo >.condarc; chown 65534 .condarc", ("X", ""), FOREIGN),
        ("echo >.mambarc; chown 65534 .mambarc", ("X", ""), FOREIGN),
        (
            "mkdir -p .config/conda/condarc.d; echo >.config/conda/condarc.d/x.yml; chown 65534 .config/conda/condarc.d/x.yml",
            ("X", ""),
            FOREIGN,
        ),
        (
            "mkdir -p .conda/condarc.d; echo channels: [file://$PWD/own] >.conda/condarc.d/x.yml; mkdir own; chown 65534 own",
            ("X", ""),
            FOREIGN,
        ),
        ("mkdir -p .conda/pkgs; chown 65534 .conda/pkgs", ("X", ""), FOREIGN),
        (OWN, ("CONDARC", "$/own/x"), FOREIGN),
        (OWN, ("MAMBARC", "$/own/x"), FOREIGN),
        (OWN, ("CONDA_CHANNELS", "conda-forge,$/own"), FOREIGN),
        (OWN, ("MAMBA_ROOT_PREFIX", "$/own"), FOREIGN),
        (OWN, ("CONDA_CHANNEL_ALIAS", "file://$/own"), FOREIGN),
        ("mkdir own; chown 65534 own; printf 'channels:\n  - %s/own\n' \"$PWD\" >.condarc", ("X", ""), FOREIGN),
        ("printf 'channels:\n  - ${OWN}\n' >.condarc", ("X", ""), ".condarc, where conda finds settings, contains `$`"),
        (
            "mkdir -p own/noarch; echo {} >own/noarch/repodata.json",
            ("CONDA_CHANNELS", "$/own"),
            "has pages or a list of packages, which may link",
        ),
    ] {
        let world = world();
        world.sh(line);
        let (code, text) = fix_conda(&world, variable);
        assert!(code == Some(3) && text.contains(message), "{line} {variable:?}: {text}");
        assert_eq!(world.calls(), "", "{line} {variable:?}");
    }
    // Root's own settings are used.
    for (line, variable) in [
        ("printf 'channels:\n  - conda-forge\n' >.condarc", ("CONDA_CHANNELS", "conda-forge,nvidia")),
        ("mkdir -p channel", ("CONDA_CHANNELS", "$/channel")),
        ("echo >conda/x; chown 65534 conda/x", ("CONDA_SHLVL", "1")),
    ] {
        let world = world();
        world.sh(line);
        let (_, text) = fix_conda(&world, variable);
        assert!(world.calls().contains("conda"), "{line} {variable:?}: {text}");
    }
}

#[test]
fn root_takes_no_settings_of_pixi_from_another_user() {
    if !can_give_files_away("root and settings of pixi") {
        return;
    }
    let root = "project/.pixi/envs/default";
    let run = |line: &str, variable: (&str, &str)| {
        let world = conda_world();
        let calls = world.path("calls");
        write_program(world.path("programs/pixi"), format!("#!/bin/sh\necho pixi >>'{}'\n", calls.display()));
        world.sh(&format!(
            "mkdir -p project/.pixi/envs; mv conda {root}; echo '{{\"environment_name\": \"default\"}}' >{root}/conda-meta/pixi; \
             echo '[project]' >project/pixi.toml; {line}"
        ));
        let (code, text) = fix_conda_in(&world, root, variable);
        (code, text, world.calls())
    };
    for (line, variable) in [
        ("mkdir .pixi; echo >.pixi/config.toml; chown 65534 .pixi/config.toml", ("X", "")),
        ("mkdir -p .config/pixi; echo >.config/pixi/config.toml; chown 65534 .config/pixi", ("X", "")),
        ("mkdir -p .cache/rattler/cache; chown 65534 .cache/rattler/cache", ("X", "")),
        ("mkdir own; chown 65534 own", ("PIXI_HOME", "$/own")),
        ("mkdir own; chown 65534 own; echo \"channels = ['file://$PWD/own']\" >>project/pixi.toml", ("X", "")),
        ("chown 65534 project/pixi.toml", ("X", "")),
        ("echo >project/.pixi/config.toml; chown 65534 project/.pixi/config.toml", ("X", "")),
    ] {
        let (code, text, calls) = run(line, variable);
        assert!(code == Some(3) && text.contains("where pixi finds settings or packages: make "), "{line}: {text}");
        assert_eq!(calls, "", "{line}");
    }
    let (_, text, calls) = run("mkdir .pixi; echo >.pixi/config.toml", ("PIXI_HOME", "$/.pixi"));
    assert!(calls.contains("pixi"), "{text}");
}

#[test]
fn a_file_of_facts_that_cannot_be_written_is_removed() {
    let world = World::new(NEW);
    let doctor = env!("CARGO_BIN_EXE_cudnn-doctor");
    world.sh(&format!("ulimit -f 0; '{doctor}' check --no-load --save-facts facts >/dev/null 2>&1; test ! -e facts"));
}

#[test]
fn verbose_needs_no_subcommand() {
    let world = World::broken();
    let arguments = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        let command = command.args(arguments).env_clear().env("VIRTUAL_ENV", world.path("env"));
        command.current_dir(world.dir.path()).stdin(Stdio::null()).output().unwrap()
    };
    let text = String::from_utf8(arguments(&["--verbose"]).stdout).unwrap();
    assert!(text.contains("  = note: ") && text.contains("read more"), "{text}");
    assert_eq!(arguments(&["--verbose", "list"]).status.code(), Some(3));
}
