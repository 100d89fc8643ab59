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
    let with_variable = |settings: &[u8], name: &str, value: &str| {
        std::fs::write(&file, settings).unwrap();
        let mut changes = Changes::default();
        changes.set_variable(name, Some(value.into()));
        Facts::recorder().after(changes).within(|| forbidding(&change))
    };
    let forbidding = |settings: &[u8], pins: &str| with_variable(settings, "CONDA_PINNED_PACKAGES", pins);
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
                "{} has `offline: True`, so that conda would change only what was downloaded before",
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
    let offline = "CONDA_OFFLINE has `1`, so that conda would change only what was downloaded before";
    assert_eq!(with_variable(b"", "CONDA_OFFLINE", "1").as_deref(), Some(offline));
    assert_eq!(with_variable(b"", "CONDA_DRY_RUN", "no"), None);
    let frozen = dir.path().join("envs/x").join("conda-meta/frozen");
    std::fs::write(&frozen, "").unwrap();
    let refused = format!("{} freezes the environment, so that conda would fail", frozen.display());
    assert_eq!(forbidding(b"", ""), Some(refused));
    std::fs::remove_file(frozen).unwrap();
    let refused = format!("{} is not UTF-8, so that conda would fail", file.display());
    assert_eq!(forbidding(b"x: \xff\n", ""), Some(refused));
}

/// The versions of CUDA's packages follow the CUDA release that a change selects.
#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn pins_of_other_cuda_packages_are_decisions() {
    let dir = tempfile::tempdir().unwrap();
    let (workspace, of_pixi) = pixi_workspace();
    std::fs::create_dir(dir.path().join("conda-meta")).unwrap();
    let cudart = r#"{"name": "cuda-cudart", "version": "11.8.89", "files": [], "depends": []}"#;
    std::fs::write(dir.path().join("conda-meta/cuda-cudart-11.8.89-0.json"), cudart).unwrap();
    for (install, package, versions, is_forbidden) in [
        (&["cudnn", "cuda-version=12"][..], "libcublas", "11.*", true),
        (&["cudnn", "cuda-version=12"], "cuda-nvrtc", "<12", true),
        (&["cudnn", "cuda-version=12"], "libcublas", "12.4.*", false),
        (&["cudnn", "cuda-version=11"], "libcublas", "12.*", false),
        (&["cudnn", "cuda-version=11"], "cudatoolkit", "10.*", true),
        (&["libcublas", "cuda-version=12"], "libcublas", "11.*", true),
        (&["libcublas", "cuda-version=12"], "cuda-nvrtc", "11.*", false),
        (&["libcublas", "cuda-version=12"], "cuda-cudart", "11.8.*", true),
        (&["libcublas", "cuda-version=12"], "cuda-version", "11.8", true),
        (&["libcublas"], "cuda-cudart", "11.8.*", false),
        // conda installs no package because of a pin.
        (&["cudnn", "cuda-version=12"], "cuda-toolkit", "11.*", false),
    ] {
        let change = |root: &Path| PackageChange::of(Site::Conda(root.to_owned())).install(install.iter().copied());
        std::fs::write(dir.path().join("conda-meta/pinned"), format!("{package} {versions}\n")).unwrap();
        let found = forbidding(&change(dir.path()));
        assert_eq!(found.is_some(), is_forbidden, "{install:?} {package} {versions}: {found:?}");
        let manifest = format!("[dependencies]\n{package} = '{versions}'\n");
        std::fs::write(workspace.path().join("pixi.toml"), manifest).unwrap();
        if package != "cuda-cudart" {
            assert_eq!(forbidding(&change(&of_pixi)).is_some(), is_forbidden, "{install:?} {package} {versions}");
        }
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
