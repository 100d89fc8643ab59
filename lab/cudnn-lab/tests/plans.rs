//! Tests `plans` with a store of compiled plans.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cudnn_os::trusted_files::make_readable;
use cudnn_store::plans::{PlanEntry, PlanInfo, PlanLookup, Settings, Store, is_pack};
use serde_json::Value;
use support::TempDir;

/// Runs the lab with only these variables.
fn lab(arguments: &[&str], variables: &[(&str, &Path)]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    let output = command.args(arguments).env_clear().envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

fn json(arguments: &[&str], variables: &[(&str, &Path)]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-lab"));
    let output = command.args(arguments).arg("--json").env_clear().envs(variables.iter().copied()).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn entry(label: &str, device: &str, cudnn_version: u32) -> PlanEntry {
    let about = PlanInfo {
        label: label.into(),
        device: device.into(),
        cudnn_version,
        build_time: Duration::from_millis(1500),
        workspace_size: 7,
    };
    PlanEntry { key: label.into(), plan: vec![b'x'; 5000], about }
}

fn store(dir: &Path) -> Store {
    Store::open(&Settings { dir: Some(dir.to_owned()), ..Settings::default() }).0
}

fn plans() -> (TempDir, PathBuf) {
    let root = TempDir::new();
    let dir = root.path().join("plans");
    for entry in [
        entry("conv_fwd a", "NVIDIA H200", 91_900),
        entry("conv_fwd b", "NVIDIA H200", 92_802),
        entry("sdpa c", "NVIDIA L4", 91_900),
    ] {
        store(&dir).put(&entry).unwrap();
    }
    (root, dir)
}

fn file(dir: &Path, key: &str) -> PathBuf {
    let stored = store(dir).entries().map(Result::unwrap).find(|stored| stored.entry.key == key.as_bytes());
    dir.join(stored.unwrap().name)
}

/// Writes a pack that programs accept.
fn write_pack(path: &Path, entry: PlanEntry) {
    let mut file = std::fs::File::create(path).unwrap();
    make_readable(&file).unwrap();
    cudnn_store::plans::write_pack(&mut file, [entry]).unwrap();
}

#[test]
fn list_shows_the_stored_plans() {
    let (root, dir) = plans();
    let pack = root.path().join("app.plans");
    write_pack(&pack, entry("matmul d", "NVIDIA L4", 92_802));
    let old = std::fs::File::options().write(true).open(file(&dir, "sdpa c")).unwrap();
    old.set_modified(std::time::SystemTime::now() - Duration::from_secs(3600 * 30)).unwrap();
    let variables: &[(&str, &Path)] =
        &[("CUDNN_PLANS_DIR", &dir), ("CUDNN_PLANS_PACK", &pack), ("CUDNN_PLANS_LIMIT", Path::new("2M"))];

    let (code, text) = lab(&["plans", "list"], variables);
    assert_eq!(code, Some(0), "{text}");
    let row = |label: &str| text.lines().find(|line| line.contains(label)).unwrap_or_default().to_owned();
    for (label, expected) in [
        ("conv_fwd a", ["NVIDIA H200", "9.19.0", "5.0 KiB", "now"]),
        ("conv_fwd b", ["NVIDIA H200", "9.28.2", "5.0 KiB", "now"]),
        ("sdpa c", ["NVIDIA L4", "9.19.0", "5.0 KiB", "30 hours ago"]),
        ("matmul d", ["NVIDIA L4", "9.28.2", "5.0 KiB", "app.plans"]),
    ] {
        assert!(expected.iter().all(|part| row(label).contains(part)), "{label}: {text}");
    }
    let (_, value) = json(&["plans", "list"], variables);
    let first = &value["plans"][0];
    assert_eq!(first["file"], file(&dir, first["label"].as_str().unwrap()).to_str().unwrap(), "{value:#}");
    assert_eq!(first["build_ms"], 1500.0);
    let (_, value) = json(&["plans", "list", "--dir", dir.to_str().unwrap()], &[("CUDNN_PLANS_PACK", &pack)]);
    assert_eq!(value["plans"].as_array().unwrap().len(), 3, "{value:#}");
}

#[test]
fn list_shows_damaged_plans_without_removing_them() {
    let (_root, dir) = plans();
    let variables: &[(&str, &Path)] = &[("CUDNN_PLANS_DIR", &dir)];
    let (cut, swapped) = (file(&dir, "conv_fwd a"), file(&dir, "conv_fwd b"));
    std::fs::write(&cut, &std::fs::read(&cut).unwrap()[..3000]).unwrap();
    std::fs::copy(file_of_c(&dir), &swapped).unwrap();
    for _ in 0..2 {
        let (code, text) = lab(&["plans", "list"], variables);
        assert!(code == Some(1) && text.contains("sdpa c"), "{text}");
        for (file, why) in
            [(&cut, "the size does not match the header"), (&swapped, "it contains a plan with a different key")]
        {
            assert!(text.contains(&format!("warning: {} is damaged: {why}", file.display())), "{text}");
        }
    }
    let (code, value) = json(&["plans", "list"], variables);
    let lengths = ["plans", "problems"].map(|key| value[key].as_array().unwrap().len());
    assert_eq!((code, lengths), (Some(1), [1, 2]));
}

fn file_of_c(dir: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let has_c = |file: &PathBuf| String::from_utf8_lossy(&std::fs::read(file).unwrap()).contains("sdpa c");
    files.find(has_c).unwrap()
}

#[test]
fn a_program_finds_the_plans_that_pack_writes() {
    let (root, dir) = plans();
    let pack = root.path().join("it's a pack");
    let name = pack.to_str().unwrap();
    let variables: &[(&str, &Path)] = &[("CUDNN_PLANS_DIR", &dir)];
    let found = |keys: &[&str]| {
        let (store, problems) = Store::open(&Settings { packs: vec![pack.clone()], ..Settings::default() });
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(store.entries().count(), keys.len());
        assert!(keys.iter().all(|key| matches!(store.get(key.as_bytes()), PlanLookup::Found(..))), "{keys:?}");
    };
    let (code, text) = lab(&["plans", "pack", name], variables);
    assert!(code == Some(0) && text.contains("3 plans, ") && text.contains("CUDNN_PLANS_PACK="), "{text}");
    found(&["conv_fwd a", "conv_fwd b", "sdpa c"]);
    let command = text.lines().find_map(|line| line.strip_prefix("To use it: ")).unwrap();
    let script = format!("{command}\nprintf %s \"$CUDNN_PLANS_PACK\"");
    let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), name);

    assert_eq!(lab(&["plans", "pack", name, "--from", dir.to_str().unwrap()], &[]).0, Some(0));
    found(&["conv_fwd a", "conv_fwd b", "sdpa c"]);
    let before = std::fs::read(&pack).unwrap();
    let empty = root.path().join("empty");
    let (code, text) = lab(&["plans", "pack", name], &[("CUDNN_PLANS_DIR", &empty)]);
    assert!(code == Some(3) && text.contains("there is no plan in "), "{text}");
    let (code, text) = lab(&["plans", "pack", root.path().to_str().unwrap()], variables);
    assert!(code == Some(3) && text.contains("is a directory"), "{text}");
    assert_eq!(std::fs::read(&pack).unwrap(), before);
}

#[test]
fn a_pack_replaces_packs_that_are_not_its_input() {
    let (root, dir) = plans();
    let [pack, source] = ["app.plans", "train.py"].map(|name| root.path().join(name));
    std::fs::write(&source, "import torch").unwrap();
    let run = |pack: &Path, more: &[&str], variables: &[(&str, &Path)]| {
        let arguments = [&["plans", "pack", pack.to_str().unwrap()], more].concat();
        lab(&arguments, &[&[("CUDNN_PLANS_DIR", dir.as_path())], variables].concat())
    };
    let (code, text) = run(&source, &[], &[]);
    assert!(code == Some(3) && text.contains("exists and is not a pack of plans"), "{text}");
    assert_eq!(std::fs::read(&source).unwrap(), b"import torch");
    write_pack(&pack, entry("matmul d", "NVIDIA L4", 92_802));
    let (code, text) = run(&pack, &["--force"], &[("CUDNN_PLANS_PACK", &pack)]);
    assert!(code == Some(3) && text.contains("is an input of this command"), "{text}");
    for (file, more) in [(&pack, &[][..]), (&source, &["--force"])] {
        assert_eq!(run(file, more, &[]).0, Some(0));
        assert!(is_pack(&std::fs::read(file).unwrap()));
    }
    // A pack replaces the older file, but never a socket or a device.
    let socket = root.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    for more in [&[][..], &["--force"]] {
        let (code, text) = run(&socket, more, &[]);
        assert!(code == Some(3) && text.contains("is not a regular file; write to a file"), "{text}");
    }
    assert!(!socket.metadata().unwrap().is_file());
}

/// Programs in a container image may run as different users, and refuse packs that others can write to.
#[test]
fn a_pack_has_the_same_rights_whatever_the_mask_of_the_process() {
    use std::os::unix::fs::PermissionsExt;
    let (root, dir) = plans();
    for mask in ["077", "000"] {
        let pack = root.path().join(mask);
        let script = format!("umask {mask}; exec \"$0\" plans pack \"$1\"");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_cudnn-lab")]).arg(&pack).env("CUDNN_PLANS_DIR", &dir);
        assert!(command.output().unwrap().status.success());
        assert_eq!(pack.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    }
}

#[test]
fn a_pack_that_cannot_be_written_leaves_the_older_file_and_nothing_else() {
    let (root, dir) = plans();
    let pack = root.path().join("app.plans");
    write_pack(&pack, entry("matmul d", "NVIDIA L4", 92_802));
    let before = std::fs::read(&pack).unwrap();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -f 8; exec \"$0\" plans pack \"$1\"", env!("CARGO_BIN_EXE_cudnn-lab")]).arg(&pack);
    let output = command.env("CUDNN_PLANS_DIR", &dir).output().unwrap();
    let expected =
        format!("cannot write {}: File too large (os error 27); raise the limit (ulimit -f)\n", pack.display());
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr)), (Some(3), expected.into()));
    assert_eq!(std::fs::read(&pack).unwrap(), before);
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
}

/// The variable cannot contain this path, because colons separate packs.
#[test]
fn a_pack_that_the_variable_cannot_name_is_written_with_a_hint() {
    let (root, dir) = plans();
    let pack = root.path().join("a:b.plans");
    let (code, text) = lab(&["plans", "pack", pack.to_str().unwrap()], &[("CUDNN_PLANS_DIR", &dir)]);
    let hint = "copy it to a path without ':', which separates the packs in CUDNN_PLANS_PACK";
    assert!(code == Some(0) && text.contains(hint) && !text.contains("CUDNN_PLANS_PACK="), "{text}");
    assert!(is_pack(&std::fs::read(&pack).unwrap()));
}

#[test]
fn clear_removes_only_plans() {
    let (root, dir) = plans();
    std::fs::write(dir.join("notes.txt"), "").unwrap();
    std::fs::write(dir.join("tmp-1-0123456789abcdef"), "").unwrap();
    let (code, text) = lab(&["plans", "clear", "--dir", dir.to_str().unwrap()], &[]);
    assert!(code == Some(0) && text.contains("Removed 3 plans and 1 temporary file in"), "{text}");
    assert!(dir.join("notes.txt").exists() && store(&dir).entries().next().is_none());

    // This directory was not created by a store.
    let other = root.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let plan = other.join(format!("{}.plan", "0".repeat(64)));
    std::fs::write(&plan, "").unwrap();
    let (code, text) = lab(&["plans", "clear", "--dir", other.to_str().unwrap()], &[]);
    assert!(code == Some(3) && text.contains("is not tagged as a plan store") && plan.exists(), "{text}");
}

#[test]
fn plans_device_reports_why_no_gpu_can_be_described() {
    if Path::new("/dev/nvidiactl").exists() {
        println!("NOT RUN: this machine may have a GPU");
        return;
    }
    let (code, text) = lab(&["plans", "device"], &[]);
    assert!(code == Some(3) && text.contains("libcuda.so.1"), "{text}");
}

#[test]
fn an_unusable_directory_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let (root, dir) = plans();
    let home = root.path();
    let (code, text) = lab(&["plans", "list"], &[("HOME", home)]);
    assert!(
        code == Some(0) && text.contains("No plans are cached in ") && text.contains(".cache/cudnn-plans"),
        "{text}"
    );
    assert!(!home.join(".cache").exists());
    let (code, text) = lab(&["plans", "list"], &[]);
    assert!(code == Some(0) && text.contains("neither CUDNN_PLANS_DIR nor HOME names a directory"), "{text}");
    let (code, text) = lab(&["plans", "list", "--dir", "/no/such/dir"], &[]);
    assert!(code == Some(3) && text.contains("/no/such/dir: No such file"), "{text}");
    assert_eq!(lab(&["plans"], &[]).0, Some(3));
    // The description is a pipe without a writer, or endless, or would damage cuDNN's memory.
    let (pack, long) = (home.join("pack"), home.join("long.json"));
    std::fs::write(&long, format!(r#"{{"deviceName":"{}"}}"#, "A".repeat(256))).unwrap();
    let long = long.to_str().unwrap();
    for (device, expected) in [
        ("/dev/zero", "not a file"),
        ("/nowhere/device.json", "No such file"),
        (long, "long.json: the description of the device has a string of more than 255 bytes"),
    ] {
        let arguments = ["plans", "pack", "--device", device, pack.to_str().unwrap(), "--from", dir.to_str().unwrap()];
        let (code, text) = lab(&arguments, &[]);
        assert!(code == Some(3) && text.contains(device) && text.contains(expected), "{text}");
    }

    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let variables: &[(&str, &Path)] = &[("CUDNN_PLANS_DIR", &dir), ("CUDNN_PLANS_LIMIT", Path::new("lots"))];
    let (code, text) = lab(&["plans", "list"], variables);
    assert_eq!(code, Some(1), "{text}");
    for expected in ["is writable by other users (mode 0777)", "chmod go-w", "CUDNN_PLANS_LIMIT=\"lots\" is not a size"]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let (code, text) = lab(&["plans", "clear"], variables);
    assert!(code == Some(3) && text.contains("is writable by other users"), "{text}");
}

#[test]
fn texts_of_plans_cannot_control_the_terminal() {
    let root = TempDir::new();
    let dir = root.path().join("plans\x1b[2J\nerror: forged");
    store(&dir).put(&entry("conv\x1b[31m\nforged row\u{202e}", "H200\u{9b}31m", 91_900)).unwrap();
    let bad = dir.join(format!("{}.plan", "0".repeat(64)));
    std::fs::write(bad, "").unwrap();
    let pack = root.path().join("pack\x1b[2J\nforged");
    for arguments in [&["list"][..], &["pack", pack.to_str().unwrap()], &["clear"]] {
        for format in [&[][..], &["--json"]] {
            let (_, text) = lab(&[&["plans"], arguments, format].concat(), &[("CUDNN_PLANS_DIR", &dir)]);
            let is_safe = |c: char| c == '\n' || !(c.is_control() || matches!(c, '\u{202e}' | '\u{2066}'));
            assert!(text.chars().all(is_safe), "{arguments:?}: {text:?}");
            let is_forged = |line: &str| line.starts_with("forged") || line.starts_with("error: forged");
            assert!(!text.lines().any(is_forged), "{arguments:?}: {text}");
        }
    }
}
