use super::super::forbidding;
use super::*;
use crate::packages::{PackageChange, Site};
use cudnn_probe::facts::{Changes, Facts};
use std::path::PathBuf;
use tempfile::TempDir;

fn pixi_workspace() -> (TempDir, PathBuf) {
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().join(".pixi/envs/default");
    std::fs::create_dir_all(root.join("conda-meta")).unwrap();
    std::fs::write(root.join("conda-meta/pixi"), "{}").unwrap();
    (workspace, root)
}

/// `pixi add` would lose everything but the versions.
#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn a_manifest_of_pixi_decides_what_it_states_besides_versions() {
    let (workspace, root) = pixi_workspace();
    for (value, is_excluded) in [
        ("'9.10.*'", true),
        ("'>=9.1'", false),
        ("{ version = '>=9.1' }", false),
        ("{ version = '>=9.1', channel = 'nvidia' }", true),
        ("{ url = 'https://a.org/libcudnn-9.20-0.conda' }", true),
        ("{ path = 'libcudnn' }", true),
        ("{ build = 'h1_0' }", true),
    ] {
        for name in ["pixi.toml", "mojoproject.toml"] {
            let file = workspace.path().join(name);
            std::fs::write(&file, format!("[dependencies]\nlibcudnn = {value}\n")).unwrap();
            let change = || PackageChange::of(Site::Conda(root.clone()));
            let newer = change().install(["libcudnn>=9.18.0"]);
            assert_eq!(forbidding(&newer).is_some(), is_excluded, "{value}");
            // A reinstallation leaves the manifest unchanged.
            let again = change().reinstall(["libcudnn"]);
            assert_eq!(forbidding(&again), None, "{value}");
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn pins_may_contain_builds() {
    for (pin, expected) in [
        ("cudnn 8.9.7 h1_0", "cudnn 8.9.7"),
        ("cudnn=8.9=h1_0", "cudnn 8.9.*"),
        ("cudnn =8.9.*", "cudnn 8.9.*"),
        ("conda-forge::cudnn==8.9.7=h1_0", "cudnn ==8.9.7"),
        ("cudnn[version='8.*',build=h1]", "cudnn 8.*"),
        ("cudnn[version='>=8,<9',build=h1]", "cudnn >=8,<9"),
        ("cudnn[build=h1,version=8.*]", "cudnn 8.*"),
        ("cudnn >=8,<9", "cudnn >=8,<9"),
        ("cudnn", "cudnn "),
        ("cudnn 7.*|8.*", "cudnn 7.*|8.*"),
    ] {
        assert_eq!(without_build(pin), expected);
    }
}

#[test]
fn settings_and_a_variable_of_conda_pin_packages() {
    let dir = tempfile::tempdir().unwrap();
    let (root, file) = (dir.path().join("envs/x"), dir.path().join(".condarc"));
    std::fs::create_dir_all(root.join("conda-meta")).unwrap();
    let change = PackageChange::of(Site::Conda(root)).install(["libcudnn>=9.18.0"]);
    let forbidding = |settings: &[u8], pins: &str| {
        std::fs::write(&file, settings).unwrap();
        let mut changes = Changes::default();
        changes.set_variable("CONDA_PINNED_PACKAGES", Some(pins.into()));
        Facts::recorder().after(changes).within(|| forbidding(&change))
    };
    let pinned = |source: &Path| Some(format!("{} decides libcudnn <9", source.display()));
    for (settings, expected) in [
        ("channels:\n- x\npinned_packages:  # why\n  # old\n  - numpy\n  - 'libcudnn <9' # why\n", pinned(&file)),
        ("pinned_packages: [numpy 1.*, \"libcudnn[version='<9']\"]\n", pinned(&file)),
        ("pinned_packages: [numpy 1.*, \"libcudnn <9\"]\n", pinned(&file)),
        ("pinned_packages: ['numpy >1,<2',\n  libcudnn <9\n]\n", pinned(&file)),
        ("pinned_packages:\n- numpy\nchannels:\n- libcudnn <9\n", None),
        (
            "offline: True # why\n",
            Some(format!(
                "{} has `offline: true`, so that conda would change only what was downloaded before",
                file.display()
            )),
        ),
        ("offline: false\nchannels:\n  - dry_run: true\n", None),
        // conda installs it in the same version.
        ("pinned_packages: [cudnn <9.18]\n", Some(format!("{} decides cudnn <9.18", file.display()))),
        ("pinned_packages: [cudnn >=9.18]\n", None),
    ] {
        assert_eq!(forbidding(settings.as_bytes(), ""), expected, "{settings}");
    }
    assert_eq!(forbidding(b"", "numpy 1.*&libcudnn <9"), pinned(Path::new("CONDA_PINNED_PACKAGES")));
    let has = |text: &str| Some(format!("{} {text}", file.display()));
    let denied = |name: &str| has(&format!("forbids the channel conda-forge by `{name}`"));
    for (settings, expected) in [
        ("disallowed_packages: [numpy, libcudnn]\n", has("excludes libcudnn")),
        ("disallow: [cudnn]\n", has("excludes cudnn")),
        ("disallowed_packages: [libcudnn 9.1.*]\n", None),
        ("allowlist_channels: [defaults]\n", denied("allowlist_channels")),
        ("whitelist_channels:\n- defaults\n", denied("whitelist_channels")),
        ("allowlist_channels: [x, 'https://conda.anaconda.org/conda-forge/']\n", None),
        ("allowlist_channels: []\n", None),
        ("denylist_channels: [conda-forge]\n", denied("denylist_channels")),
        ("denylist_channels: [defaults]\n", None),
    ] {
        assert_eq!(forbidding(settings.as_bytes(), ""), expected, "{settings}");
    }
    let frozen = dir.path().join("envs/x").join("conda-meta/frozen");
    std::fs::write(&frozen, "").unwrap();
    let refused = format!("{} freezes the environment, so that conda would fail", frozen.display());
    assert_eq!(forbidding(b"", ""), Some(refused));
    std::fs::remove_file(frozen).unwrap();
    let refused = format!("{} is not UTF-8, so that conda would fail", file.display());
    assert_eq!(forbidding(b"x: \xff\n", ""), Some(refused));
}

#[test]
fn variables_are_settings_of_conda() {
    let change = PackageChange::of(Site::Conda("/nowhere".into())).install(["libcudnn>=9.18.0".to_owned()]);
    for (name, value, expected) in [
        ("CONDA_OFFLINE", "1", Some("has `offline: 1`, so that conda would change only what was downloaded before")),
        ("CONDA_OFFLINE", "no", None),
        ("CONDA_DRY_RUN", "True", Some("has `dry_run: True`, so that conda would change nothing")),
        ("CONDA_DISALLOWED_PACKAGES", "numpy & libcudnn", Some("excludes libcudnn")),
        ("CONDA_ALLOWLIST_CHANNELS", "a,b", Some("forbids the channel conda-forge by `allowlist_channels`")),
        ("CONDA_ALLOWLIST_CHANNELS", "a,conda-forge", None),
    ] {
        let mut changes = Changes::default();
        changes.set_variable(name, Some(value.into()));
        let found = Facts::recorder().after(changes).within(|| forbidding(&change));
        assert_eq!(found, expected.map(|expected| format!("{name} {expected}")), "{name}={value}");
    }
}

/// conda 26 ends with an error, or ignores the file.
#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn settings_that_conda_refuses_forbid_all_changes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(".condarc");
    let change = PackageChange::of(Site::Conda(dir.path().join("envs/x"))).install(["libcudnn".to_owned()]);
    for (settings, reason) in [
        ("channels: [a\n", Some("is invalid in line 2: while parsing a flow sequence, expected ',' or ']'")),
        (
            "channels:\n  - a\n - b\n",
            Some("is invalid in line 3: while parsing a block mapping, did not find expected key"),
        ),
        ("  a: 1\nb: 2\n", Some("is invalid in line 2: did not find expected <document start>")),
        ("a: 1\na: 2\n", Some("is invalid in line 2: String(\"a\"): duplicated key in mapping")),
        ("channels:conda-forge\n", Some("has no names of settings")),
        ("- a\n", Some("has no names of settings")),
        ("# nothing\n", None),
        ("a: b: c\n", None),
        ("a: @b\n", None),
        ("a: 'b\n", None),
        ("a:\n\t- b\n", None),
    ] {
        std::fs::write(&file, settings).unwrap();
        let expected = reason.map(|reason| format!("{} {reason}, so that conda would fail", file.display()));
        assert_eq!(forbidding(&change), expected, "{settings}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn an_invalid_or_missing_manifest_forbids_all_changes_by_pixi() {
    let (workspace, root) = pixi_workspace();
    let again = PackageChange::of(Site::Conda(root)).reinstall(["libcudnn"]);
    let missing = forbidding(&again).unwrap();
    assert!(missing.ends_with(" has no manifest of pixi, so that pixi would fail"), "{missing}");
    let manifest = workspace.path().join("pixi.toml");
    std::fs::write(&manifest, "[dependencies\n").unwrap();
    let invalid = forbidding(&again).unwrap();
    assert!(invalid.contains("pixi.toml is invalid: TOML parse error at line 1, column 14"), "{invalid}");
    // pixi prefers the other manifest.
    std::fs::write(manifest, "[dependencies]\n").unwrap();
    for other in ["[tool", "[tool.pixi.dependencies]\nlibcudnn = '<9'\n"] {
        std::fs::write(workspace.path().join("pyproject.toml"), other).unwrap();
        assert_eq!(forbidding(&again), None);
        let newer = PackageChange::of(again.site.clone()).install(["libcudnn>=9.18.0"]);
        assert_eq!(forbidding(&newer), None);
    }
}
