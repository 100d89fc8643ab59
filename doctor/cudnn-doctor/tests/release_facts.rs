//! Tests `facts --update` and `--reset`, and which facts the other commands use.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A user's data directory, and a published file with newer facts.
struct Update {
    dir: support::TempDir,
}

impl Update {
    fn new() -> Update {
        let update = Update { dir: support::TempDir::new() };
        update.publish(&facts(4_000_000_000));
        update
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("new.json")
    }

    fn stored(&self) -> PathBuf {
        self.dir.path().join("data/cudnn-doctor/facts.json")
    }

    fn publish(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
        let digits = cudnn_fetch::sha256_hex(text.as_bytes());
        std::fs::write(self.dir.path().join("new.json.sha256"), format!("{digits}  new.json\n")).unwrap();
    }

    fn doctor(&self, arguments: &[&str]) -> Output {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        let doctor = doctor.args(arguments).env_clear().env("XDG_DATA_HOME", self.dir.path().join("data"));
        doctor.output().unwrap()
    }

    /// Returns the error of an update with the published file, or an empty text.
    fn update(&self, options: &[&str]) -> String {
        let file = self.file();
        let output = self.doctor(&[&["facts", "--update", file.to_str().unwrap()], options].concat());
        assert_eq!(output.status.code() == Some(0), output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Returns the version of the facts in use, and why stored facts are ignored.
    fn in_use(&self) -> (u64, Option<String>) {
        let value: Value = serde_json::from_slice(&self.doctor(&["facts", "--json"]).stdout).unwrap();
        let facts = &value["release_facts"];
        assert_eq!(facts["file"].is_string(), facts["version"] == 4_000_000_000_u64, "{facts}");
        (facts["version"].as_u64().unwrap(), facts["ignored"].as_str().map(str::to_owned))
    }
}

fn facts(version: u32) -> String {
    let range = r#"[{"from":"9.19.0","before":"9.20.0"}]"#;
    let issue = format!(
        r#"{{"name":"new","releases":{range},"operation":"matmul","effect":"a new issue","source":"https://a.example","erratum":"new"}}"#
    );
    let rules = r#"{"errata":1,"rules":[{"name":"new","reason":"a new issue","operations":["matmul"]}]}"#;
    format!(r#"{{"facts":1,"version":{version},"date":"2026-01-31","known_issues":[{issue}],"errata":{rules}}}"#)
}

#[test]
fn stored_facts_are_used_until_they_are_removed() {
    let update = Update::new();
    let (built_in, ignored) = update.in_use();
    assert!(built_in > 0 && ignored.is_none());
    assert_eq!(update.update(&[]), "");
    assert_eq!(update.in_use(), (4_000_000_000, None));
    let shown = String::from_utf8(update.doctor(&["facts"]).stdout).unwrap();
    assert!(shown.contains("Known issues (version 4000000000 of 2026-01-31, "), "{shown}");
    assert!(shown.contains("9.19.0 through releases before 9.20.0: a new issue"), "{shown}");

    let cudnn = support::TempDir::new();
    support::copy_fake_set(support::Version::new(9, 19, 0), cudnn.path());
    let check = |update: &Update| {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        doctor.args(["check", "--no-load", "--only", "C017"]).env_clear().env("CUDNN_LOADER_DIR", cudnn.path());
        String::from_utf8(doctor.env("XDG_DATA_HOME", update.dir.path().join("data")).output().unwrap().stdout).unwrap()
    };
    assert!(check(&update).contains("cuDNN 9.19.0 has a known issue: a new issue"), "{}", check(&update));
    let again = update.update(&[]);
    assert!(again.contains("is not newer than version 4000000000 of 2026-01-31, which is in use"), "{again}");

    let removed = String::from_utf8(update.doctor(&["facts", "--reset"]).stdout).unwrap();
    assert!(removed.starts_with("Removed ") && removed.contains(&format!("version {built_in} of ")), "{removed}");
    assert_eq!(update.in_use(), (built_in, None));
    assert!(!check(&update).contains("a new issue"));
    let nothing = String::from_utf8(update.doctor(&["facts", "--reset"]).stdout).unwrap();
    assert!(nothing.starts_with("No facts were stored. Now in use: version "), "{nothing}");
}

#[cfg(unix)]
#[test]
fn root_stores_no_facts_where_a_link_of_another_user_leads() {
    use std::os::unix::fs::{chown, symlink};
    let update = Update::new();
    update.publish(&facts(4_000_000_000));
    let (data, target) = (update.dir.path().join("data"), update.dir.path().join("target"));
    [&data, &target].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    symlink(&target, data.join("cudnn-doctor")).unwrap();
    if chown(&data, Some(65534), Some(65534)).is_err() {
        return support::not_run("the link of another user", "only root can give files away");
    }
    let error = update.update(&[]);
    assert!(error.contains("a user other than root can change "), "{error}");
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn an_issue_of_some_releases_of_cublas_is_reported_with_these_only() {
    let update = Update::new();
    update.publish(&facts(4_000_000_000).replace("\"operation\"", "\"cublas\":\">=12.9\",\"operation\""));
    assert_eq!(update.update(&[]), "");
    let cudnn = support::TempDir::new();
    support::copy_fake_set(support::Version::new(9, 19, 0), cudnn.path());
    for (release, is_reported) in [("12.8.4.1", false), ("12.9.1.4", true)] {
        let (link, file) = (cudnn.path().join("libcublasLt.so.12"), format!("libcublasLt.so.{release}"));
        support::ExtensionLibrary::new().with_soname("libcublasLt.so.12").build(&cudnn.path().join(&file));
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(file, link).unwrap();
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
        doctor.args(["check", "--no-load", "--only", "C017"]).env_clear().env("CUDNN_LOADER_DIR", cudnn.path());
        let output = doctor.env("XDG_DATA_HOME", update.dir.path().join("data")).output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        assert_eq!(found.contains("has a known issue: a new issue"), is_reported, "{release}: {found}");
    }
}

#[test]
fn files_that_are_not_complete_valid_and_newer_change_nothing() {
    let update = Update::new();
    let (built_in, _) = update.in_use();
    let right = cudnn_fetch::sha256_hex(facts(4_000_000_000).as_bytes());
    assert_eq!(update.update(&["--sha256", &right.to_uppercase()]), "");
    std::fs::remove_file(update.stored()).unwrap();
    let short = update.update(&["--sha256", "00"]);
    assert!(short.contains("--sha256 does not start with a SHA-256 of 64 hexadecimal digits"), "{short}");
    let wrong = "0".repeat(64);
    let error = update.update(&["--sha256", &wrong]);
    assert!(error.contains(&format!("its SHA-256 is {right}, but --sha256 states {wrong}")), "{error}");
    for (text, expected) in [
        (facts(0), "version 0 of 2026-01-31 is not newer than version"),
        (
            facts(9).replace("matmul\"]", "\u{1b}[31m\"]").replace("a new issue\",\"source", "\\u001b[31m\",\"source"),
            "control character",
        ),
        (facts(9).replace("\"facts\":1", "\"facts\":2"), "format 2 is not supported"),
        (facts(4_000_000_000).replace("2026-01-31", "9026-01-31"), "its date, 9026-01-31, is in the future"),
        (facts(4_000_000_000).replace("2026-01-31", "2026-31-01"), "\"2026-31-01\" is not a date"),
        (
            r#"{"facts":1,"version":4000000000,"date":"2026-01-31","known_issues":[],"errata":{"rules":[]}}"#.into(),
            "no known issues",
        ),
        ("{".repeat(200_000), "these are no facts"),
        (" ".repeat((1 << 20) + 1), "more than 1048576"),
    ] {
        update.publish(&text);
        let error = update.update(&[]);
        assert!(error.contains(expected) && !error.contains('\u{1b}'), "{error}");
        assert!(!update.stored().exists());
    }
    update.publish(&facts(4_000_000_000));
    std::fs::write(update.file(), &facts(4_000_000_000)[..100]).unwrap();
    assert!(update.update(&[]).contains("was changed or is incomplete"), "{}", update.update(&[]));
    let checksum = update.dir.path().join("new.json.sha256");
    std::fs::write(&checksum, "none").unwrap();
    assert!(update.update(&[]).contains("does not start with a SHA-256"), "{}", update.update(&[]));
    std::fs::remove_file(&checksum).unwrap();
    assert!(update.update(&[]).contains("--sha256 DIGITS"), "{}", update.update(&[]));
    std::fs::remove_file(update.file()).unwrap();
    std::fs::create_dir(update.file()).unwrap();
    assert!(
        update.update(&["--sha256", &wrong]).contains("it is a directory"),
        "{}",
        update.update(&["--sha256", &wrong])
    );
    assert!(!update.stored().exists());
    assert_eq!(update.in_use(), (built_in, None));
}

#[cfg(unix)]
#[test]
fn stored_facts_that_cannot_be_trusted_are_ignored() {
    use std::os::unix::fs::PermissionsExt;
    let update = Update::new();
    let (built_in, _) = update.in_use();
    let ignored = |expected: &str| {
        let (version, reason) = update.in_use();
        assert!(version == built_in && reason.as_deref().is_some_and(|reason| reason.contains(expected)), "{reason:?}");
        let check = String::from_utf8(update.doctor(&["check", "--no-load", "--only", "C017"]).stderr).unwrap();
        assert!(check.contains("note: the stored facts are not used: ") && check.contains(expected), "{check}");
    };
    assert_eq!(update.update(&[]), "");
    let (file, dir) = (update.stored(), update.dir.path().join("data/cudnn-doctor"));
    for path in [&file, &dir] {
        let before = path.metadata().unwrap().permissions();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
        ignored("it is writable by other users (mode 0777)");
        std::fs::set_permissions(path, before).unwrap();
    }
    assert_eq!(update.in_use(), (4_000_000_000, None));
    if cudnn_os::rights::is_root() {
        for path in [&file, &dir] {
            std::os::unix::fs::chown(path, Some(65534), None).unwrap();
            ignored("it belongs to user 65534");
            std::os::unix::fs::chown(path, Some(0), None).unwrap();
        }
    }
    std::fs::write(&file, &facts(4_000_000_000)[..100]).unwrap();
    ignored("these are no facts: EOF");
    std::fs::write(&file, facts(0)).unwrap();
    ignored("its version 0 is not newer than the built-in facts");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(update.file(), &file).unwrap();
    ignored("it is not a regular file");
}
