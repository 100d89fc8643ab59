//! Tests `fix` with an installer that pauses, fails or is killed in the middle of its work. The installer is a script that
//! replaces the environment's Python. At a chosen point it writes to a named pipe, then waits for data from a second pipe.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::FromRawFd;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{PythonEnvironment, TempDir, Version, copy_fake_set, not_run, write_program};

const NEW: &str = "9.19.0.56";
const OLD: &str = "9.18.0.56";
const OPS: &str = "nvidia/cudnn/lib/libcudnn_ops.so.9";
const CNN: &str = "nvidia/cudnn/lib/libcudnn_cnn.so.9";

/// Emulates `-I -m pip install .. nvidia-cudnn-cu12==VERSION`, with the environment's root in `$root`. Like pip, it replaces
/// files instead of writing to them.
const INSTALLER: &str = r#"
echo "$*" >>"$root/../calls"
site=$root/lib/python3.12/site-packages
version=9.19.0.56
case "$*" in *==*) version=${*##*==};; esac
point() {
    [ "$(cat "$root/../stop-at" 2>/dev/null)" = "$1" ] || return 0
    echo $$ >"$root/../begun"
    read line <"$root/../go"
}
case "$*" in *nvidia-cudnn-*) ;; *) exit 0;; esac
[ ! -e "$root/../fail-first" ] || exit 1
case "$4 $*" in
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
if [ -e "$root/../with-other" ]; then
    rm -rf "$site"/other-*.dist-info "$site/other"
    mkdir "$site/other-2.dist-info" "$site/other"
    echo ../../../bin/other,, >"$site/other-2.dist-info/RECORD"
    touch "$site/other/__init__.py" "$root/bin/other"
fi
point unpacked
[ ! -p "$root/../ended" ] || echo >"$root/../ended"
[ ! -e "$root/../fail-last" ] || exit 1
"#;

struct World {
    dir: TempDir,
    site: PathBuf,
}

impl World {
    /// Creates an environment with this version of the wheel.
    fn new(version: &str) -> World {
        let dir = TempDir::new();
        for (cuda, version, release) in
            [(12, NEW, Version::new(9, 19, 0)), (12, OLD, Version::new(9, 18, 0)), (13, NEW, Version::new(9, 19, 0))]
        {
            let wheel = PythonEnvironment::at(&dir.path().join(format!("wheels/{cuda}")), version);
            let libraries = TempDir::new();
            copy_fake_set(release, libraries.path());
            let mut package = wheel.package(&format!("nvidia-cudnn-cu{cuda}"), version);
            for library in std::fs::read_dir(libraries.path()).unwrap().map(|entry| entry.unwrap()) {
                let path = format!("nvidia/cudnn/lib/{}", library.file_name().display());
                package = package.file(&path, "");
                std::fs::copy(library.path(), wheel.import_dir().join(path)).unwrap();
            }
        }
        // These pip programs always fail, so that no other installer can be used.
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
        world.sh(&format!("cp -R wheels/12/{version}/. '{}'", world.site.display()));
        world
    }

    /// Creates an environment with a deleted library. The plan has one step, which reinstalls the package.
    fn broken() -> World {
        let world = World::new(NEW);
        std::fs::remove_file(world.site.join(CNN)).unwrap();
        world
    }

    /// Creates an environment with a dangling link. The first step removes the link, the second reinstalls the package.
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
        // Shells without job control start background programs with SIGINT ignored.
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

    /// Returns the codes of the errors.
    fn errors(&self) -> Vec<String> {
        let (_, text) = self.run(&["check", "--json"]);
        let document: Value = serde_json::from_str(&text).unwrap();
        let findings = document["findings"].as_array().unwrap().iter();
        let errors = findings.filter(|finding| finding["severity"] == "error");
        errors.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts `fix` and waits until the installer is in the middle of its work. Like a terminal, uses a separate process
    /// group. Returns the doctor and the installer's process id.
    fn start(&self) -> (Child, i32) {
        self.start_until("removing", &[])
    }

    /// Starts `fix` with these options and waits until the installer reaches this point.
    fn start_until(&self, point: &str, options: &[&str]) -> (Child, i32) {
        self.sh(&format!("mkfifo begun go ended; echo {point} >stop-at"));
        let mut command = self.doctor(&[&["fix", "--yes"], options].concat());
        let doctor = command.process_group(0).stdout(Stdio::piped()).spawn().unwrap();
        // This blocks until the installer opens the pipe.
        let process = self.read("begun").trim().parse().unwrap();
        (doctor, process)
    }

    /// Starts `fix` with these options, and kills it together with the installer at this point.
    fn kill_at(&self, point: &str, options: &[&str]) {
        let (mut doctor, installer) = self.start_until(point, options);
        kill(group(&doctor), libc::SIGKILL);
        // The installer leads a separate process group.
        kill(-installer, libc::SIGKILL);
        doctor.wait().unwrap();
        self.sh("rm begun go ended stop-at");
    }

    /// Lets the installer continue.
    fn go(&self) {
        std::fs::write(self.path("go"), "go\n").unwrap();
    }

    /// Waits until the installer has finished.
    fn wait(&self) {
        self.read("ended");
    }

    /// Reads from a named pipe as soon as a process writes to it. The test fails if this takes too long.
    fn read(&self, pipe: &str) -> String {
        let output = Command::new("timeout").args(["40", "cat"]).arg(self.path(pipe)).output().unwrap();
        assert!(output.status.success(), "nothing is written to {pipe}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the contents of the environment.
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

    fn calls(&self) -> String {
        std::fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

fn kill(process: i32, signal: i32) {
    // SAFETY: the call takes only integers.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

fn group(doctor: &Child) -> i32 {
    -i32::try_from(doctor.id()).unwrap()
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
    let (code, text) = world.run(&["fix", "--yes", "--remove", "--json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert!(code < Some(2) && document["stopped"].is_null(), "{text}");
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
    let world = World::with_dangling_link();
    // Another package is installed while the first step removes the link.
    let script = format!("#!/bin/sh\n/bin/rm \"$@\"\nmkdir '{}/other-1.0.dist-info'\n", world.site.display());
    write_program(world.path("programs/rm"), script);
    let (code, text) = world.run(&["fix", "--yes", "--remove"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("stopped at step 2") && text.contains("has changed"), "{text}");
    assert_eq!(world.calls(), "");
}

#[test]
fn a_failing_step_is_the_last_one_and_leaves_the_environment_as_it_was() {
    for failure in ["fail-first", "fail-last"] {
        let world = World::new(OLD);
        let before = world.digest();
        std::fs::write(world.path(failure), "").unwrap();
        let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("stopped at step 1") && text.contains("failed with exit status: 1"), "{text}");
        assert!(text.contains("the environment was restored to its state before this step"), "{text}");
        assert!(world.digest() == before, "{failure}: {text}");
    }
}

/// Returns the lines that undo the steps.
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
    assert!(undo.contains("nvidia-cudnn-cu12==9.19.0.56"), "{text}");
    world.sh(&format!("set -e\n{undo}"));
    assert!(world.digest() == before, "{undo}");
}

#[test]
fn two_wheels_with_the_same_files_have_no_undo_lines() {
    let world = World::new(NEW);
    world.sh(&format!("cp -R wheels/13/{NEW}/. '{}'", world.site.display()));
    let (_, text) = world.run(&["fix", "--yes", "--remove", "--only", "C023"]);
    assert!(text.contains("several packages had the same files") && undo_lines(&text).is_empty(), "{text}");
}

#[test]
fn pip_that_a_step_adds_is_removed_by_the_last_undo_line() {
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
    let last = undo_lines(&text).pop().unwrap_or_default().to_owned();
    assert!(last.ends_with("pip uninstall --yes pip"), "{text}");
}

#[test]
fn a_replaced_library_is_noticed() {
    let world = World::with_dangling_link();
    // The first step removes the link. At the same time, a library is modified without changing the size or time.
    let lib = world.site.join("nvidia/cudnn/lib");
    let script = format!(
        "#!/bin/sh\n/bin/rm \"$@\"\ncd '{}' && sed s/ELF/xyz/ libcudnn_cnn.so.9 >new && touch -r libcudnn_cnn.so.9 new && \
         mv new libcudnn_cnn.so.9\n",
        lib.display()
    );
    write_program(world.path("programs/rm"), script);
    let (code, text) = world.run(&["fix", "--yes", "--remove"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("stopped at step 2") && text.contains("has changed"), "{text}");
    assert_eq!(world.calls(), "");
}

/// The points where the installer and the doctor are killed.
const POINTS: [&str; 5] = ["removing", "renamed", "removed", "unpacking", "unpacked"];

#[test]
fn a_killed_step_is_undone_by_the_next_fix() {
    for point in POINTS {
        for (world, options) in [(World::broken(), &[][..]), (World::new(OLD), &["--minimum", "9.19"])] {
            let before = world.digest();
            world.kill_at(point, options);
            let killed = world.digest();
            assert!(killed != before, "{point}");
            let (_, text) = world.run(&["check"]);
            assert!(text.contains("`fix` was interrupted"), "{point}: {text}");
            let (_, text) = world.run(&[&["fix"], options].concat());
            assert!(text.contains("`fix --yes` first restores the files"), "{point}: {text}");
            assert!(world.digest() == killed, "{point}: {text}");
            // Only the restore can have changed the environment.
            std::fs::write(world.path("fail-first"), "").unwrap();
            let (_, text) = world.run(&[&["fix", "--yes"], options].concat());
            assert!(text.contains("was interrupted during this step: install nvidia-cudnn-cu12"), "{point}: {text}");
            assert!(world.digest() == before, "{point}: {text}");
            std::fs::remove_file(world.path("fail-first")).unwrap();
            let (code, text) = world.run(&[&["fix", "--yes"], options].concat());
            assert!(code < Some(2) && !text.contains("interrupted"), "{point}: {text}");
            assert!(world.errors().is_empty() && !world.path("env/.cudnn-doctor-undo").exists(), "{point}: {text}");
        }
    }
}

#[test]
fn nothing_is_undone_while_the_installer_runs() {
    let world = World::broken();
    let (mut doctor, _) = world.start();
    kill(doctor.id().try_into().unwrap(), libc::SIGKILL);
    doctor.wait().unwrap();
    let running = world.digest();
    // The next installer must not wait.
    world.sh("rm stop-at && mv ended later");
    let (_, text) = world.run(&["check"]);
    assert!(text.contains("`fix` is still changing") && !text.contains("interrupted"), "{text}");
    let (_, text) = world.run(&["fix"]);
    assert!(text.contains("`fix` is still running this step") && !text.contains("interrupted"), "{text}");
    // The next `fix` waits for the installer, and then restores the files.
    std::fs::write(world.path("fail-first"), "").unwrap();
    let mut next = world.doctor(&["fix", "--yes"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(next.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.starts_with("Waiting up to a minute for this step to end"), "{line}");
    assert!(world.digest() == running && next.try_wait().unwrap().is_none(), "{line}");
    world.sh("mv later ended");
    world.go();
    world.wait();
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    next.wait().unwrap();
    assert!(text.contains("Restored the files of"), "{text}");
}

#[test]
fn files_that_were_added_since_are_not_removed_without_consent() {
    for consent in [false, true] {
        let world = World::broken();
        let before = world.digest();
        world.kill_at("unpacking", &[]);
        world.sh(&format!(
            "cd '{}'; mkdir other-1.0.dist-info __pycache__; echo >other-1.0.dist-info/RECORD; echo >mine.pth; \
             echo >nvidia/new/x; mkdir other; echo other/x,, >other-1.0.dist-info/RECORD; echo >other/x",
            world.site.display()
        ));
        // Only the restore can change the environment.
        std::fs::write(world.path("fail-first"), "").unwrap();
        let (_, text) = world.run(if consent { &["fix", "--yes", "--remove"] } else { &["fix", "--yes"] });
        assert_eq!(
            !consent,
            text.contains("which remain: ") && text.contains("other 1.0") && text.contains("mine.pth"),
            "{text}"
        );
        let left = ["other-1.0.dist-info/RECORD", "mine.pth", "other/x"].map(|name| world.site.join(name));
        assert!(left.iter().all(|file| file.exists() != consent), "{text}");
        world.sh(&format!("cd '{}'; rm -rf other-1.0.dist-info mine.pth other", world.site.display()));
        assert!(world.digest() == before, "{consent}: {text}");
    }
}

/// Adds the package `other`, which the installer upgrades although no record mentions it.
fn with_other(world: &World) {
    std::fs::write(world.path("with-other"), "").unwrap();
    world.sh(&format!(
        "cd '{}'; mkdir other-1.dist-info other; echo 1 >other/__init__.py; \
         printf 'other/__init__.py,,\nother-1.dist-info/RECORD,,\n' >other-1.dist-info/RECORD",
        world.site.display()
    ));
}

#[test]
fn packages_that_only_the_new_version_needs_are_restored() {
    let world = World::new(OLD);
    with_other(&world);
    let before = world.digest();
    std::fs::write(world.path("fail-last"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
    assert_eq!(code, Some(3), "{text}");
    if cudnn_os::files::is_on_overlay(&world.site) {
        assert!(text.contains("packages that were not saved (other-1)"), "{text}");
    } else {
        assert!(text.contains("the environment was restored") && world.digest() == before, "{text}");
    }
}

#[test]
fn nothing_is_restored_if_the_installer_changed_other_packages() {
    // Reinstalling a package without its dependencies saves only this package.
    let world = World::broken();
    with_other(&world);
    std::fs::write(world.path("fail-last"), "").unwrap();
    for repetition in ["cannot restore the environment", "cannot restore the files"] {
        let output = world.doctor(&["fix", "--yes", "--only", "C012"]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains(repetition) && text.contains("packages that were not saved (other-1"), "{text}");
        assert!(world.site.join("other-2.dist-info").exists() && world.site.join(CNN).exists(), "{text}");
    }
}

#[test]
fn a_package_that_is_removed_with_consent_leaves_no_programs() {
    for consent in [false, true] {
        let world = World::broken();
        let before = world.digest();
        world.sh("touch with-other fail-last");
        let (_, text) = world.run(if consent { &["fix", "--yes", "--remove"] } else { &["fix", "--yes"] });
        let is_listed = text.contains("which remain: ") && text.contains("other 2") && !text.contains("bin/other");
        assert!(consent != is_listed && world.path("env/bin/other").exists() != consent, "{text}");
        assert!(!consent || world.digest() == before, "{text}");
    }
}

#[test]
fn ctrl_c_ends_the_doctor_when_it_asks_after_a_failed_step() {
    let world = World::broken();
    let before = world.digest();
    world.sh("touch with-other fail-last");
    let (terminal, stdin) = terminal();
    let mut command = world.doctor(&["fix", "--yes"]);
    let mut doctor = command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(doctor.stderr.take().unwrap());
    let mut question = Vec::new();
    stderr.read_until(b'?', &mut question).unwrap();
    kill(i32::try_from(doctor.id()).unwrap(), libc::SIGINT);
    let start = Instant::now();
    while doctor.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let is_killed = doctor.try_wait().unwrap().is_none();
    let _ = doctor.kill();
    assert_eq!((is_killed, doctor.wait().unwrap().signal()), (false, Some(libc::SIGINT)));
    drop(terminal);
    let question = String::from_utf8(question).unwrap();
    assert!(question.contains("This removes ") && question.contains("other 2"), "{question}");
    assert!(before.iter().all(|(file, contents)| world.digest().get(file) == Some(contents)));
    // Only the restore can change the environment.
    world.sh("touch fail-first");
    let (_, text) = world.run(&["fix", "--yes", "--remove"]);
    assert!(text.contains("Restored the files of") && world.digest() == before, "{text}");
}

/// Opens a terminal. Returns both ends.
fn terminal() -> (File, File) {
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both integers are valid for writes, and the other arguments may be null.
    assert_eq!(unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) }, 0);
    // SAFETY: openpty returned these descriptors, and this function is the only owner.
    unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) }
}

#[test]
fn programs_that_existed_before_are_kept() {
    let world = World::new(OLD);
    std::fs::write(world.path("env/bin/old"), "").unwrap();
    let record = world.path("wheels/12/9.19.0.56/nvidia_cudnn_cu12-9.19.0.56.dist-info/RECORD");
    // The last line leads out of the environment.
    let lines = "../../../bin/old,,\n../../../bin/new,,\n../../../../../../../lib64/x,,\n";
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text + lines).unwrap();
    let before = world.digest();
    world.kill_at("unpacked", &["--minimum", "9.19"]);
    std::fs::write(world.path("env/bin/new"), "").unwrap();
    std::fs::write(world.path("fail-first"), "").unwrap();
    let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
    assert!(text.contains("Restored the files of") && world.digest() == before, "{text}");
}

#[test]
fn a_journal_that_another_user_could_have_written_is_not_used() {
    for (dir, mode) in [("env/.cudnn-doctor-undo", 0o755), ("env", 0o777)] {
        let world = World::broken();
        world.kill_at("unpacking", &[]);
        let killed = world.digest();
        std::fs::set_permissions(world.path(dir), Permissions::from_mode(mode)).unwrap();
        let output = world.doctor(&["fix", "--yes"]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.code(), Some(3), "{text}");
        let reasons = ["other users can access it", "run `chmod go-w", "a user other than root can change"];
        assert!(reasons.iter().any(|reason| text.contains(reason)), "{text}");
        assert!(world.digest() == killed, "{text}");
    }
}

#[test]
fn nothing_is_removed_if_the_saved_files_are_missing() {
    let world = World::broken();
    world.kill_at("unpacking", &[]);
    world.sh("mv env/.cudnn-doctor-undo/files files");
    let killed = world.digest();
    assert_eq!(world.run(&["fix", "--yes", "--remove"]).0, Some(3));
    assert!(world.digest() == killed);
}

#[test]
fn a_snapshot_that_was_not_finished_is_removed() {
    let world = World::broken();
    let undo = world.path("env/.cudnn-doctor-undo");
    std::fs::create_dir_all(undo.join("files")).unwrap();
    std::fs::set_permissions(&undo, Permissions::from_mode(0o700)).unwrap();
    std::fs::write(undo.join("lock"), "").unwrap();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(code < Some(2) && !text.contains("interrupted") && !undo.exists(), "{text}");
    // The snapshot is replaced by a link to another place.
    let world = World::broken();
    std::fs::create_dir(world.path("elsewhere")).unwrap();
    symlink(world.path("elsewhere"), world.path("env/.cudnn-doctor-undo")).unwrap();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(code == Some(3) && text.contains("is not a directory of this user"), "{text}");
    assert!(std::fs::read_dir(world.path("elsewhere")).unwrap().next().is_none() && world.calls().is_empty());
}

#[test]
fn a_successful_step_can_be_undone() {
    let world = World::new(OLD);
    let before = world.digest();
    let (_, text) = world.run(&["fix", "--yes", "--minimum", "9.19"]);
    assert!(world.errors().is_empty());
    let undo = undo_lines(&text);
    assert_eq!(undo.len(), 1, "{text}");
    world.sh(undo[0]);
    assert!(world.digest() == before, "{undo:?}");
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
fn a_second_ctrl_c_ends_the_step_and_restores_the_environment() {
    let world = World::broken();
    let before = world.digest();
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
    assert!(text.contains("the environment was restored to its state before this step"), "{text}");
    assert!(world.digest() == before, "{text}");
}

#[test]
fn a_pyvenv_cfg_that_is_a_named_pipe_is_replaced() {
    let world = World::new(NEW);
    // Recreating needs a native program.
    std::fs::copy("/bin/true", world.path("programs/python3.12")).unwrap();
    world.sh("cd env; rm bin/python3 pyvenv.cfg; ln -s ../../programs/python3.12 bin/python3; touch bin/activate");
    world.sh("mkfifo env/pyvenv.cfg");
    let (_, text) = world.run(&["check", "--only", "C028"]);
    assert!(text.contains("pyvenv.cfg is not a regular file"), "{text}");
    let (_, text) = world.run(&["fix", "--yes", "--remove", "--only", "C028"]);
    assert!(text.contains("done: recreate") && world.path("env/pyvenv.cfg").symlink_metadata().is_err(), "{text}");
}

#[test]
fn after_ctrl_c_no_step_begins() {
    let world = World::with_dangling_link();
    world.sh("mkfifo begun go");
    // Emulates `rm`, which runs in the first step.
    let script = "#!/bin/sh\necho $$ >begun\nread line <go\nexec /bin/rm \"$@\"\n";
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
fn what_a_killed_installer_leaves_is_fixed() {
    let world = World::broken();
    world.kill_at("removing", &[]);
    assert!(!world.errors().is_empty());
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(code < Some(2) && world.errors().is_empty(), "{text}");
}

/// `fix --yes | head -1` closes the pipe early, and an installer that writes to it would fail halfway.
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
    let world = World::broken();
    let uid = 65534;
    if chown(world.path("env"), Some(uid), Some(uid)).is_err() {
        not_run("root and the environment of a user", "only root can give files away");
        return;
    }
    world.sh(&format!("chown -R {uid}:{uid} env"));
    let before = world.digest();
    let (code, text) = world.run(&["fix", "--yes"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("a user other than root can change"), "{text}");
    assert!(world.digest() == before && world.calls().is_empty());
}

#[test]
fn root_runs_no_code_that_another_user_can_change() {
    let world = World::broken();
    if chown(world.path("programs"), Some(65534), None).is_err() {
        not_run("root and files of another user", "only root can give files away");
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
    ] {
        let world = World::broken();
        world.sh(&line);
        let (code, text) = world.run(&["fix", "--yes"]);
        let message = format!("{path}: run `fix` as that user");
        assert!(code == Some(3) && text.contains(&message), "{line}: {text}");
        assert!(world.calls().is_empty(), "{line}");
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
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("leads out of the environment, to "), "{text}");
        assert!(world.calls().is_empty() && !world.path("env/.cudnn-doctor-undo").exists(), "{text}");
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
fn a_named_pipe_in_place_of_a_library_is_named_with_the_command_that_removes_it() {
    let world = World::broken();
    world.sh(&format!("mkfifo '{}'", world.site.join(CNN).display()));
    let (code, text) = world.run(&["fix", "--yes"]);
    assert!(
        code == Some(3) && text.contains("is not a regular file and cannot be saved: remove it with `rm "),
        "{text}"
    );
    assert!(world.calls().is_empty());
}

#[test]
fn a_link_to_a_device_is_replaced() {
    let world = World::broken();
    symlink("/dev/zero", world.site.join(CNN)).unwrap();
    let (_, text) = world.run(&["fix", "--yes"]);
    assert!(text.contains("done: ") && world.errors().is_empty(), "{text}");
}

#[test]
fn an_environment_whose_root_cannot_be_written_is_refused() {
    const USER: u32 = 65534;
    let world = World::broken();
    world.sh("chmod 755 .");
    let is_ready = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).arg("--version").uid(USER).output();
    if chown(world.path("env"), Some(USER), Some(USER)).is_err() || is_ready.is_err() {
        not_run("an environment with a read-only root", "only root can start the doctor as another user");
        return;
    }
    world.sh(&format!("chown -R {USER}:{USER} env; chmod 555 env; touch calls; chmod 666 calls"));
    let before = world.digest();
    let output = world.doctor(&["fix", "--yes"]).uid(USER).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(3) && text.contains("this user cannot write to "), "{text}");
    assert!(world.digest() == before && world.calls().is_empty());
}

#[test]
fn a_missing_conda_is_named() {
    let world = World::new(NEW);
    world.sh(&format!(
        "mkdir -p conda/lib conda/conda-meta; cp '{}'/nvidia/cudnn/lib/*.so.9 conda/lib; rm conda/lib/libcudnn_cnn.so.9; \
         echo '{{\"files\": [\"lib/libcudnn_graph.so.9\"]}}' >conda/conda-meta/libcudnn-9.19.0.56-h1.json",
        world.site.display()
    ));
    let mut command = world.doctor(&["fix", "--yes", "--only", "C012"]);
    let output = command.env_remove("VIRTUAL_ENV").env("CONDA_PREFIX", world.path("conda")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let message = "conda, mamba or micromamba is not on PATH";
    assert!(output.status.code() == Some(3) && text.contains(message), "{text}");
}

#[test]
fn a_path_with_a_colon_is_used_through_a_link() {
    let world = World::new(NEW);
    world.sh("mv env co:lon");
    let run = |command: &mut Command| {
        let output = command.env("VIRTUAL_ENV", world.path("co:lon")).env("DOCTOR", env!("CARGO_BIN_EXE_cudnn-doctor"));
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    let script = "eval \"$($DOCTOR env)\"; ls \"$CUDNN_LOADER_DIR\"; ls \"${LD_LIBRARY_PATH%%:*}\"; rm -r $HOME/.local";
    let text =
        run(Command::new("sh").args(["-c", script]).env_remove("CUDNN_LOADER_DIR").env("HOME", world.dir.path()));
    assert_eq!(text.matches("libcudnn_ops.so.9").count(), 2, "{text}");
    let text = run(&mut world.doctor(&["fix", "--yes", "--only", "C020"]));
    assert!(text.contains("Checking again, as if") && !text.contains("[C020]"), "{text}");
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

#[test]
fn a_lock_that_is_not_a_regular_file_is_refused() {
    for line in ["mkfifo lock", "touch target; ln -s target lock"] {
        let world = World::broken();
        world.sh(&format!("mkdir -m 700 env/.cudnn-doctor-undo; cd env/.cudnn-doctor-undo; {line}"));
        let (code, text) = world.run(&["fix", "--yes"]);
        assert!(code == Some(3) && text.contains("lock is not a regular file"), "{text}");
        assert!(world.calls().is_empty());
    }
}

#[test]
fn a_journal_in_a_copy_or_an_archive_is_refused() {
    let world = World::broken();
    world.kill_at("removed", &[]);
    let of_archive = "tar -cf kept.tar -C env . && rm -r env && mkdir env && tar -xf kept.tar -C env";
    for line in
        ["cp -a env kept; rm -r env; mv kept env", of_archive, "cd env/.cudnn-doctor-undo; cp -a lock l; mv l lock"]
    {
        world.sh(line);
        let killed = world.digest();
        let output = world.doctor(&["fix", "--yes", "--remove"]).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let is_refused = output.status.code() == Some(3) && text.contains("an interrupted step cannot be read");
        assert!(is_refused && world.digest() == killed, "{line}: {text}");
    }
}

#[test]
fn check_and_fix_refuse_an_unusable_journal() {
    for line in ["printf '{\"a'", "head -c 1000000 /dev/zero | tr '\\0' '['"] {
        let world = World::new(NEW);
        world.sh(&format!("mkdir -m 700 env/.cudnn-doctor-undo; {line} >env/.cudnn-doctor-undo/journal.json"));
        unusable(&world);
    }
    for line in ["truncate -s 20G journal.json", "ln -s /dev/zero journal.json", "mkfifo journal.json"] {
        let world = World::new(NEW);
        world.sh(&format!("mkdir -m 700 env/.cudnn-doctor-undo; cd env/.cudnn-doctor-undo; {line}"));
        unusable(&world);
    }
}

fn unusable(world: &World) {
    for (arguments, expected) in [(&["check"][..], None), (&["fix"], None), (&["fix", "--yes"], Some(3))] {
        let output = world.doctor(arguments).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(text.contains("an interrupted step cannot be read (") && text.contains("to go on"), "{text}");
        assert!(expected.is_none() || output.status.code() == expected, "{text}");
    }
}
