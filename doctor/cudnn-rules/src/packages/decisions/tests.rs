use super::*;
use cudnn_probe::facts::{Changes, Facts};
use tempfile::TempDir;

#[test]
fn the_settings_of_uv_come_from_the_projects_of_the_environment_and_of_the_working_directory() {
    let settings = |version: &str| {
        format!(
            "[project]\nconstraint-dependencies = [\"{NVRTC}==1\"]\n[tool.uv]\n# constraint-dependencies = [\"b\"]\n\
             constraint-dependencies = [\n  'z', # ]\n  \"{NVRTC}=={version}\",\n]\n[tool.uv.x]\n"
        )
    };
    let decides = |place: &str| Some(format!("{place}/pyproject.toml decides {NVRTC}==12.4.127"));
    for (of_owner, of_working_dir, expected) in [
        (settings("12.4.127"), String::new(), decides("DIR")),
        (settings("12.9.86"), settings("12.4.127"), decides("DIR/elsewhere")),
        (settings("12.9.86"), "[tool.other]\n".to_owned(), None),
        (format!("[tool]\nuv = {{ override-dependencies = ['{NVRTC}==12.4.127'] }}\n"), String::new(), decides("DIR")),
        ("[tool.uv".to_owned(), String::new(), None),
    ] {
        let dir = project(&of_owner);
        let elsewhere = dir.path().join("elsewhere");
        std::fs::create_dir_all(elsewhere.join("src")).unwrap();
        std::fs::write(elsewhere.join("pyproject.toml"), &of_working_dir).unwrap();
        // A directory without a table of uv uses the settings of the directory above.
        std::fs::write(elsewhere.join("src/pyproject.toml"), "[project]\n").unwrap();
        let mut changes = Changes::default();
        changes.set_answer("working directory", "", &Ok::<_, std::io::Error>(elsewhere.join("src")));
        let change = change(&dir).install([format!("{NVRTC}==12.9.86")]);
        assert_eq!(forbidden_after(changes, &dir, change, &[]), expected, "{of_owner}{of_working_dir}");
    }
    let dir = project(&settings("12.4.127"));
    let file = dir.path().join("mine.toml");
    for (version, expected) in
        [("12.4.126", Some(format!("DIR/mine.toml decides {NVRTC}==12.4.126"))), ("12.9.86", None)]
    {
        std::fs::write(&file, format!("override-dependencies = ['{NVRTC}=={version}']\n")).unwrap();
        let change = change(&dir).install([format!("{NVRTC}==12.9.86")]);
        assert_eq!(forbidden(&dir, change, &[("UV_CONFIG_FILE", &file)]), expected);
    }
}

#[test]
fn a_constraint_excludes_all_versions_of_a_wheel() {
    for (wanted, constraint, is_forbidden) in [
        (NVRTC, "<12", true),
        (NVRTC, "<12.9", false),
        (NVRTC, ">=13", true),
        ("nvidia-cublas-cu12", "==11.*", true),
        ("nvidia-cudnn-cu12", "<9", true),
        ("nvidia-cudnn-cu12", ">=10", true),
        ("nvidia-cudnn-cu12", "<9.19", false),
        ("nvidia-cufft-cu12", "<12", false),
        // cuDNN's wheels require it.
        ("nvidia-cudnn-cu12", "\nnvidia-cublas-cu12<12", true),
        ("nvidia-cudnn-cu13", "\nnvidia-cublas==12.0", true),
        ("nvidia-cudnn-cu13", "\nnvidia-cublas==13.1.0.3", false),
        // pip can only install this file.
        ("nvidia-cudnn-cu12", " @ file:///x.tar.gz", true),
        ("nvidia-cudnn-cu12", " @ file:///u@x/nvidia_cudnn_cu12-8.9.7.29-py3-none-any.whl?a=b/c#d", true),
        ("nvidia-cudnn-cu12", " @ file:///nvidia_cudnn_cu12-9.19.0.56-py3-none-any.whl", false),
        ("nvidia-cudnn-cu12", " @ file:///x.whl ; python_version < '3'", false),
    ] {
        let dir = project("");
        let constraints = dir.path().join("constraints.txt");
        std::fs::write(&constraints, format!("{wanted}{constraint}\n")).unwrap();
        let change = PackageChange::of(Site::OnPath).install([wanted]);
        let found = forbidden(&dir, change, &[("PIP_CONSTRAINT", &constraints)]);
        assert_eq!(found.is_some(), is_forbidden, "{wanted}{constraint}: {found:?}");
    }
}

/// Returns a directory with a Python 3.12 environment of uv, in a project with these settings.
fn project(settings: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in ["bin/uv", "env/bin/python3.12", "env/lib/python3.12/site-packages/x"] {
        let file = dir.path().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::write(dir.path().join("env/pyvenv.cfg"), "uv = 0.9.0\nversion = 3.12.1\n").unwrap();
    std::fs::write(dir.path().join("pyproject.toml"), settings).unwrap();
    dir
}

fn change(dir: &TempDir) -> PackageChange {
    PackageChange::of(Site::Environment(dir.path().join("env")))
}

/// Returns the decision that forbids this change in the project, if these variables are set and uv is on `PATH`.
fn forbidden(dir: &TempDir, change: PackageChange, variables: &[(&str, &Path)]) -> Option<String> {
    forbidden_after(Changes::default(), dir, change, variables)
}

fn forbidden_after(
    mut changes: Changes,
    dir: &TempDir,
    change: PackageChange,
    variables: &[(&str, &Path)],
) -> Option<String> {
    for name in [
        "UV_OVERRIDE",
        "UV_CONSTRAINT",
        "UV_EXCLUDE",
        "UV_CONFIG_FILE",
        "UV_NO_CONFIG",
        "UV_PROJECT",
        "UV_REQUIRE_HASHES",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
        "PIP_CONSTRAINT",
        "PIP_CONFIG_FILE",
    ] {
        changes.set_variable(name, None);
    }
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"] {
        changes.set_variable(name, Some(dir.path().join("nothing").into()));
    }
    changes.set_variable("PATH", Some(dir.path().join("bin").into()));
    variables.iter().for_each(|(name, value)| changes.set_variable(name, Some((*value).into())));
    let names: Vec<String> = variables.iter().map(|(name, _)| (*name).to_owned()).collect();
    changes.set_answer("names of variables", "PIP_", &names);
    let reason = Facts::recorder().after(changes).within(|| forbidding(&change))?;
    Some(reason.replace(dir.path().to_str().unwrap(), "DIR"))
}

const NVRTC: &str = "nvidia-cuda-nvrtc-cu12";

#[test]
fn decisions_forbid_first_and_repeated_installations_alike() {
    for (list, requirement, expected) in [
        ("override", "==12.4.127", Some("decides nvidia-cuda-nvrtc-cu12==12.4.127")),
        ("constraint", "<12.9", Some("decides nvidia-cuda-nvrtc-cu12<12.9")),
        ("override", "==12.9.86", None),
        ("override", "==12.9.86; python_version < '3.9'", Some("decides nvidia-cuda-nvrtc-cu12==12.9.86; python_v")),
        ("override", "; sys_platform == 'never'", Some("decides nvidia-cuda-nvrtc-cu12; sys_platform == 'never'")),
        ("constraint", "==12.4.127; python_version < '3.9'", None),
        ("constraint", "==12.4.127; extra == 'x'", None),
        (
            "constraint",
            "==12.4.127; python_full_version >= '3.12.1'",
            Some("decides nvidia-cuda-nvrtc-cu12==12.4.127;"),
        ),
        ("constraint", "==12.4.127; python_full_version > '3.12.1'", None),
        ("exclude", "", Some("excludes nvidia-cuda-nvrtc-cu12")),
        ("constraint", "==12.4.127; python_version == '3.12'", Some("decides nvidia-cuda-nvrtc-cu12==12.4.127; py")),
    ] {
        let dir = project(&format!("[tool.uv]\n{list}-dependencies = [\"{NVRTC}{requirement}\"]\n"));
        let wanted = || [format!("{NVRTC}==12.9.86")];
        for change in [change(&dir).install(wanted()), change(&dir).reinstall(wanted())] {
            let found = forbidden(&dir, change, &[]);
            assert_eq!(found.is_some(), expected.is_some(), "{list} {requirement}: {found:?}");
            assert!(expected.is_none_or(|expected| found.unwrap().contains(expected)), "{list} {requirement}");
        }
        assert_eq!(forbidden(&dir, change(&dir).remove([NVRTC]), &[]), None);
    }
}

#[test]
fn the_manifest_of_pixi_is_not_edited_against_a_version_in_it() {
    for (name, manifest, expected) in [
        ("pixi.toml", "[dependencies]\npython = \"3.12.*\"\nlibcudnn = \"9.10.*\"\n", Some("libcudnn 9.10.*")),
        ("pixi.toml", "[dependencies]\nlibcudnn = { version = '<9.18', channel = 'y' }\n", Some("libcudnn <9.18")),
        ("pixi.toml", "[dependencies]\ncudnn = '<9.18'\n", Some("cudnn <9.18")),
        ("pixi.toml", "[feature.x.dependencies]\nlibcudnn = '<9.18'\n", None),
        (
            "pixi.toml",
            "environments = { default = ['x'], other = ['y'] }\n[feature.x.dependencies]\nlibcudnn = '<9.18'\n",
            Some("libcudnn <9.18"),
        ),
        (
            "pixi.toml",
            "[environments]\ndefault = { features = ['x'], no-default-feature = true }\n[dependencies]\nlibcudnn = '<9.18'\n",
            None,
        ),
        ("pixi.toml", "[constraints]\nlibcudnn = '<9.18'\n", Some("libcudnn <9.18")),
        ("pixi.toml", "[feature.x.constraints]\nlibcudnn = '<9.18'\n", None),
        ("pixi.toml", "[target.linux.constraints]\nlibcudnn = '<9.18'\n", Some("libcudnn <9.18")),
        ("pixi.toml", "[target.win-64.dependencies]\nlibcudnn = '<9.18'\n", None),
        ("pixi.toml", "[target.linux.dependencies]\nlibcudnn = '<9.18'\n", Some("libcudnn <9.18")),
        ("pixi.toml", "[dependencies.libcudnn]\nversion = \"9.10.*\"\n", Some("libcudnn 9.10.*")),
        ("pixi.toml", "[dependencies]\nlibcudnn = \">=9.1\"\n", None),
        ("pixi.toml", "[dependencies]\nlibcudnn = \"*\"\n[tasks]\nlibcudnn = \"9.10.*\"\n", None),
        ("pyproject.toml", "[tool.pixi.dependencies]\nlibcudnn = \"9.10.*\"\n", Some("libcudnn 9.10.*")),
        ("pyproject.toml", "[tool.pixi]\n[tool.other.dependencies]\nlibcudnn = \"9.10.*\"\n", None),
    ] {
        let dir = project("");
        let root = dir.path().join(".pixi/envs/default");
        std::fs::create_dir_all(root.join("conda-meta")).unwrap();
        std::fs::write(root.join("conda-meta/pixi"), "{}").unwrap();
        std::fs::write(dir.path().join(name), manifest).unwrap();
        let change = PackageChange::of(Site::Conda(root)).install(["libcudnn>=9.18"]);
        let expected = expected.map(|expected| format!("DIR/{name} decides {expected}"));
        assert_eq!(forbidden(&dir, change, &[]), expected, "{manifest}");
    }
}

#[test]
fn all_places_that_pip_fills_obey_its_constraints() {
    let dir = project("");
    let constraints = dir.path().join("constraints.txt");
    std::fs::write(&constraints, format!("{NVRTC}==12.4.127 --hash=sha256:00 # of the image\n")).unwrap();
    let configuration = dir.path().join("pip.conf");
    std::fs::write(&configuration, format!("[install]\nconstraint =\n  {}\n", constraints.display())).unwrap();
    let python = dir.path().join("env/bin/python3.12");
    let place = |pip: Pip| Site::Directory { dir: "/opt/x".into(), pip, options: Vec::new() };
    for site in [
        Site::OnPath,
        Site::Interpreter { program: python.clone(), root: dir.path().join("env") },
        Site::NewEnvironment { dir: "/opt/x".into(), program: python.clone() },
        place(Pip::Any),
        place(Pip::Interpreter(python)),
    ] {
        let change = PackageChange::of(site).reinstall([format!("{NVRTC}==12.9.86")]);
        for (name, file) in [("PIP_CONSTRAINT", &constraints), ("PIP_CONFIG_FILE", &configuration)] {
            let expected = format!("DIR/constraints.txt decides {NVRTC}==12.4.127");
            assert_eq!(forbidden(&dir, change.clone(), &[(name, file)]), Some(expected), "{change:?}");
        }
        assert_eq!(forbidden(&dir, change, &[]), None);
    }
}

#[test]
fn options_that_redirect_pip_forbid_all_changes() {
    let change = || PackageChange::of(Site::Environment("/opt/env".into())).install([NVRTC]);
    for (settings, expected) in [
        ("[global]\n--target=/x/t\n", Some("has `target = /x/t`, so that pip would change another place")),
        ("[DEFAULT]\ntarget=/x/t\n[install]\n", Some("has `target = /x/t`, so that pip would change another place")),
        ("[DEFAULT]\ntarget=/x/t\n[list]\n", None),
        ("[uninstall]\nrequirement=/x/t\n", None),
        ("[install]\ndry_run = true\n", Some("has `dry-run = true`, so that pip would change nothing")),
        ("[install]\ndry-run = Off\n", None),
        ("[global]\ntarget = /x/t\n[install]\ntarget =\n dir\n", Some("has `target = dir`")),
        ("[install]\nignore-installed = true\n", Some("would change no installed package")),
        ("[global]\nrequire-hashes = true\n", Some("would change nothing, because the commands contain no hashes")),
        ("[global]\nno-binary = :none:\n", None),
        ("[global]\nno-binary = numpy\n", None),
        (
            "[global]\nno-binary = numpy,NVIDIA_cuda-nvrtc-cu12\n",
            Some("has `no-binary = numpy,NVIDIA_cuda-nvrtc-cu12`"),
        ),
        ("[global]\nno-binary = :all:\n", Some("because there are only wheels")),
        ("[global]\nno-binary = :all:\nonly-binary = nvidia_cuda-nvrtc-cu12\n", None),
        ("[install]\nno-binary = :all:\n[global]\nonly-binary = nvidia-cuda-nvrtc-cu12\n", Some("only wheels")),
        ("[install]\nonly-binary = :all:\n[global]\nno-binary = :all:\n", None),
        ("[install]\nno-binary = -x\n", Some("has the invalid `no-binary = -x`, so that pip would fail")),
        ("[global]\nversion = true\n", Some("has `version = true`, so that pip would change nothing")),
        ("[install]\nversion = true\npython = /x\n", None),
        ("[global]\nversion = true\n[install]\nversion = false\n", Some("has `version = true`")),
        ("[install]\nversion = x\n", Some("has the invalid `version = x`, so that pip would fail")),
        ("[global]\nprogress-bar = on off\n", Some("has the invalid `progress-bar = on off`")),
        (
            "[global]\nno-binary = nvidia-cuda-nvrtc-cu12\n[install]\nno-binary = numpy\n",
            Some("has `no-binary = nvidia-cuda-nvrtc-cu12`, so"),
        ),
        ("[global]\nversion = x\n", Some("has the invalid `version = x`, so that pip would fail")),
        ("[global]\nprogress-bar = nonsense\n", Some("has the invalid `progress-bar = nonsense`")),
        ("[global]\nprogress-bar = raw\n", None),
        ("[global]\nexists-action = i w\n", None),
        ("[global]\nexists-action = i x\n", Some("has the invalid `exists-action = i x`")),
        ("[uninstall]\nroot-user-action = x\n", None),
        ("[global]\ntimeout = -1\n", Some("has the invalid `timeout = -1`")),
        ("[global]\ntimeout = nan\n", Some("has the invalid `timeout = nan`")),
        ("[global]\ntimeout = 0\n", None),
        ("[global]\nno-dependencies = 1\n", Some("would change only the named packages")),
        ("[global]\nuse-feature = fast-deps truststore\nuse-deprecated = legacy-resolver\n", None),
        ("[global]\nuse-feature = fast-deps nonsense\n", Some("has the invalid `use-feature = fast-deps nonsense`")),
        ("[global]\nuse-deprecated = nonsense\n", Some("has the invalid `use-deprecated = nonsense`")),
        ("[global]\nconfig-settings = key\n", Some("has the invalid `config-settings = key`")),
        ("[global]\nconfig-settings = key=\n", None),
        ("[global]\ndisable-pip-version-check = maybe\n", Some("has the invalid `disable-pip-version-check = maybe`")),
        ("[global]\nresume-retries = x\n", Some("has the invalid `resume-retries = x`")),
        ("[install]\nonly-deps = 1\n", Some("would change only dependencies")),
        ("[install]\nupgrade = true\n", None),
    ] {
        let dir = project("");
        let file = dir.path().join("pip.conf");
        std::fs::write(&file, settings).unwrap();
        let found = forbidden(&dir, change(), &[("PIP_CONFIG_FILE", &file)]);
        assert_eq!(found.is_some(), expected.is_some(), "{settings}: {found:?}");
        assert!(expected.is_none_or(|expected| found.unwrap().contains(expected)), "{settings}");
    }
    let dir = project("");
    let file = dir.path().join("pip.conf");
    std::fs::write(&file, "[install]\nupgrade = true\n").unwrap();
    // The wheel of cuDNN requires that of cuBLAS.
    let cudnn = PackageChange::of(Site::Environment("/opt/env".into())).install(["nvidia-cudnn-cu12"]);
    for (packages, is_forbidden) in [("nvidia-cudnn-cu12", true), ("nvidia-cudnn-cu12,nvidia-cublas-cu12", false)] {
        std::fs::write(&file, format!("[global]\nno-binary = :all:\nonly-binary = {packages}\n")).unwrap();
        let found = forbidden(&dir, cudnn.clone(), &[("PIP_CONFIG_FILE", &file)]);
        assert_eq!(found.is_some(), is_forbidden, "{packages}: {found:?}");
    }
    // These options concern only installations.
    let removal = PackageChange::of(Site::Environment("/opt/env".into())).remove([NVRTC]);
    for (settings, is_forbidden) in [
        ("progress-bar = x\ntimeout = -1\nconfig-settings = x", false),
        ("use-feature = x", true),
        ("version = 1", true),
    ] {
        std::fs::write(&file, format!("[global]\n{settings}\n")).unwrap();
        let found = forbidden(&dir, removal.clone(), &[("PIP_CONFIG_FILE", &file)]);
        assert_eq!(found.is_some(), is_forbidden, "{settings}: {found:?}");
    }
    std::fs::write(&file, "[install]\nupgrade = true\n").unwrap();
    let apart = Site::Directory { dir: "/opt/x".into(), pip: Pip::Any, options: vec!["--no-deps"] };
    let change = PackageChange::of(apart).install([NVRTC]);
    let found = forbidden(&dir, change, &[("PIP_CONFIG_FILE", &file)]);
    assert!(found.as_ref().is_some_and(|found| found.contains("would change other packages, too")), "{found:?}");
}

#[test]
fn no_step_changes_packages_on_a_read_only_file_system() {
    let dir = project("");
    let change = change(&dir).install([NVRTC]);
    let recorder = Facts::recorder();
    assert_eq!(recorder.within(|| forbidding(&change)), None);
    let mut answers = recorder.to_value();
    let site = dir.path().join("env/lib/python3.12/site-packages").display().to_string();
    answers["on a read-only file system"][&site] = true.into();
    let found = Facts::from_value(answers).unwrap().within(|| forbidding(&change));
    let expected =
        format!("{site} is on a read-only file system: make it writable, or change the packages in its image");
    assert_eq!(found, Some(expected));
}

/// pip installs in a directory that it can write to, such as `/usr/local` instead of `/usr`.
#[test]
fn a_step_may_change_another_directory_than_the_read_only_one() {
    let dir = project("");
    let [site, local] = ["env/lib/python3.12/site-packages", "env/local"].map(|name| dir.path().join(name));
    std::fs::create_dir(&local).unwrap();
    std::fs::remove_file(dir.path().join("env/pyvenv.cfg")).unwrap();
    std::fs::create_dir(site.join("nvidia_cuda_nvrtc_cu12-12.8.93.dist-info")).unwrap();
    for (change, is_forbidden) in [(change(&dir).install([NVRTC]), false), (change(&dir).remove([NVRTC]), true)] {
        let recorder = Facts::recorder();
        assert_eq!(recorder.within(|| forbidding(&change)), None);
        let mut answers = recorder.to_value();
        for (dir, is_read_only) in [(&site, true), (&local, false)] {
            answers["on a read-only file system"][dir.to_str().unwrap()] = is_read_only.into();
        }
        let found = Facts::from_value(answers).unwrap().within(|| forbidding(&change));
        assert_eq!(found.is_some(), is_forbidden, "{found:?}");
    }
}

#[test]
fn requirements_of_a_wheel_are_constrained_only_if_they_are_installed() {
    let install = || PackageChange::of(Site::Environment("/x".into())).install(["nvidia-cudnn-cu12"]);
    for (settings, is_forbidden) in [
        ("constraint-dependencies = ['nvidia-cublas-cu12<12']", true),
        ("override-dependencies = ['nvidia-cublas-cu12<12']", true),
        // uv installs cuDNN without it.
        ("override-dependencies = [\"nvidia-cublas-cu12; sys_platform == 'never'\"]", false),
        ("exclude-dependencies = ['nvidia-cublas-cu12']", false),
    ] {
        let dir = project(&format!("[tool.uv]\n{settings}\n"));
        let site = || Site::Environment(dir.path().join("env"));
        let found = forbidden(&dir, PackageChange { site: site(), ..install() }, &[]);
        assert_eq!(found.is_some(), is_forbidden, "{settings}: {found:?}");
        // This installs no dependencies.
        let again = PackageChange::of(site()).reinstall(["nvidia-cudnn-cu12"]);
        assert_eq!(forbidden(&dir, again, &[]), None, "{settings}");
    }
}

#[test]
fn the_last_constraint_of_pip_replaces_the_others() {
    let dir = project("");
    let place = dir.path().display();
    std::fs::write(dir.path().join("old.txt"), format!("{NVRTC}<12\n")).unwrap();
    std::fs::write(dir.path().join("new.txt"), format!("{NVRTC}<13\n")).unwrap();
    let [old, new, file] = ["old.txt", "new.txt", "pip.conf"].map(|name| dir.path().join(name));
    for (settings, variable, is_forbidden) in [
        (format!("[global]\n--constraint = {place}/old.txt\n"), None, true),
        (format!("[DEFAULT]\nconstraint={place}/old.txt\n[global]\n"), None, true),
        (format!("[install]\nconstraint={place}/new.txt\n[global]\nconstraint={place}/old.txt\n"), None, false),
        (format!("[global]\nconstraint={place}/old.txt\n"), Some(&new), false),
        (String::new(), Some(&old), true),
    ] {
        std::fs::write(&file, &settings).unwrap();
        let variable = variable.map(|value| ("PIP_Constraint", value.as_path()));
        let variables: Vec<_> = [("PIP_CONFIG_FILE", file.as_path())].into_iter().chain(variable).collect();
        let change = PackageChange::of(Site::OnPath).install([NVRTC]);
        assert_eq!(forbidden(&dir, change, &variables).is_some(), is_forbidden, "{settings}");
    }
}

#[test]
fn settings_that_redirect_uv_forbid_all_changes() {
    let change = |dir: &TempDir| change(dir).install([NVRTC]);
    let expected =
        |key: &str| Some(format!("DIR/pyproject.toml has `pip.{key}`, so that uv would change another place"));
    let policy = |setting: &str, changed: &str| {
        Some(format!("DIR/pyproject.toml has `{setting}`, so that uv would change {changed}"))
    };
    for (settings, expected) in [
        ("[tool.uv.pip]\ntarget = \"t\"\n", expected("target")),
        ("[tool.uv]\npip = { prefix = '/x' }\n", expected("prefix")),
        ("[tool.uv.pip]\nlink-mode = 'copy'\nrequire-hashes = false\n", None),
        ("[tool.uv]\noffline = true\n", policy("offline = true", "nothing without the network")),
        ("[tool.uv]\noffline = false\nno-binary-package = ['x']\n", None),
        ("[tool.uv]\nno-binary = true\n", policy("no-binary = true", "nothing, because there are only wheels")),
        ("[tool.uv.pip]\nno-index = true\n", policy("pip.no-index = true", "nothing, because it uses no index")),
        ("[tool.uv]\nno-index = true\noffline = true\nfind-links = ['/wheels']\n", None),
        ("[tool.uv]\nno-index = true\n[tool.uv.pip]\nno-index = false\noffline = true\n", None),
        ("[tool.uv]\nrequire-hashes = true\n", None),
    ] {
        let dir = project(settings);
        assert_eq!(forbidden(&dir, change(&dir), &[]), expected);
        for (value, is_read) in [("TRUE", false), ("yes", false), ("0", true)] {
            let found = forbidden(&dir, change(&dir), &[("UV_NO_CONFIG", Path::new(value))]);
            assert_eq!(found, expected.clone().filter(|_| is_read), "{value}");
        }
    }
    let dir = project("");
    let found = forbidden(&dir, change(&dir), &[("UV_REQUIRE_HASHES", Path::new("1"))]);
    assert!(
        found.is_some_and(|found| found.contains("uv would change nothing, because the commands contain no hashes"))
    );
}

#[test]
fn a_missing_file_of_constraints_forbids_installations() {
    let dir = project("");
    let [file, missing] = ["constraints.txt", "missing.txt"].map(|name| dir.path().join(name));
    let expected = Some(
        "DIR/missing.txt does not exist, but a setting of pip or uv names it, so that nothing can be installed"
            .to_owned(),
    );
    let change = || PackageChange::of(Site::OnPath);
    let found = |change, file: &Path| forbidden(&dir, change, &[("PIP_CONSTRAINT", file)]);
    assert_eq!(found(change().install([NVRTC]), &missing), expected);
    assert_eq!(found(change().remove([NVRTC]), &missing), None);
    for (line, expected) in [("-c missing.txt", expected), ("-c https://x/missing.txt", None)] {
        std::fs::write(&file, line).unwrap();
        assert_eq!(found(change().reinstall([NVRTC]), &file), expected, "{line}");
    }
}

/// uv 0.13 fails with some of these, and only warns about the others.
#[test]
fn settings_that_uv_refuses_forbid_all_changes() {
    let forbidden = |file: &str, text: &str, variables: &[(&str, &Path)]| {
        let dir = project("");
        std::fs::write(dir.path().join(file), text).unwrap();
        let mut changes = Changes::default();
        changes.set_answer("working directory", "", &Ok::<_, std::io::Error>(dir.path().to_owned()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, dir.path().join(value))).collect();
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_path())).collect();
        let removal = change(&dir).remove([NVRTC]);
        forbidden_after(changes, &dir, removal, &variables)
    };
    let refused = |file: &str, reason: &str| Some(format!("DIR/{file} {reason}, so that uv would fail"));
    let is_invalid = "is invalid: TOML parse error at line 1, column 3";
    assert_eq!(forbidden("uv.toml", "[a\n", &[]), refused("uv.toml", is_invalid));
    assert_eq!(forbidden("pyproject.toml", "[a\n", &[]), None);
    let config = [("UV_CONFIG_FILE", Path::new("x.toml"))];
    assert_eq!(forbidden("x.toml", "[a\n", &config), refused("x.toml", is_invalid));
    assert_eq!(forbidden("other", "", &config), refused("x.toml", "does not exist"));
    for name in UV_DIRS {
        let reason = "is not a directory, but a variable names it";
        assert_eq!(forbidden("file", "", &[(name, Path::new("file"))]), refused("file", reason));
    }
}

#[test]
fn variables_move_uv_to_another_project() {
    let settings = format!("[tool.uv]\noverride-dependencies = ['{NVRTC}==12.4.127']\n");
    for (variables, is_forbidden) in [
        (&[("UV_PROJECT", "other")][..], true),
        (&[("UV_WORKING_DIR", "other")], true),
        (&[("UV_WORKING_DIRECTORY", "other")], true),
        (&[("UV_WORKING_DIR", "other"), ("UV_PROJECT", "../env")], false),
        (&[("UV_WORKING_DIR", "env"), ("UV_PROJECT", "../other")], true),
        (&[("UV_WORKING_DIR", "env"), ("UV_WORKING_DIRECTORY", "other")], false),
        (&[("UV_WORKING_DIR", "other"), ("UV_PROJECT", "../env"), ("UV_CONSTRAINT", "c.txt")], true),
    ] {
        let dir = project("");
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::fs::write(dir.path().join("other/pyproject.toml"), &settings).unwrap();
        std::fs::write(dir.path().join("other/c.txt"), format!("{NVRTC}<12.9\n")).unwrap();
        let mut changes = Changes::default();
        changes.set_answer("working directory", "", &Ok::<_, std::io::Error>(dir.path().to_owned()));
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, Path::new(value))).collect();
        let change = change(&dir).install([format!("{NVRTC}==12.9.86")]);
        let found = forbidden_after(changes, &dir, change, &variables);
        assert_eq!(found.is_some(), is_forbidden, "{variables:?}: {found:?}");
    }
}

/// uv omits the package only if no override applies.
#[test]
fn overrides_may_differ_by_platform() {
    for (overrides, is_forbidden) in [
        (["<12; sys_platform == 'win32'", ">=12; sys_platform == 'linux'"], false),
        (["<12; sys_platform == 'linux'", ">=12; sys_platform == 'win32'"], true),
        (["<12; sys_platform == 'win32'", ">=12; sys_platform == 'darwin'"], true),
    ] {
        let [one, other] = overrides.map(|one| format!("\"{NVRTC}{one}\""));
        let dir = project(&format!("[tool.uv]\noverride-dependencies = [{one}, {other}]\n"));
        let change = change(&dir).install([format!("{NVRTC}==12.9.86")]);
        assert_eq!(forbidden(&dir, change, &[]).is_some(), is_forbidden, "{overrides:?}");
    }
}

#[test]
fn options_of_pip_concern_the_commands_that_know_them() {
    let install = |site: &Site| PackageChange::of(site.clone()).install([NVRTC]);
    let remove = |site: &Site| PackageChange::of(site.clone()).remove([NVRTC]);
    let dir = project("");
    let file = dir.path().join("pip.conf");
    let place = dir.path().join("place");
    std::fs::create_dir_all(place.join("lib")).unwrap();
    let (plain, own) = (Site::Environment(place), Site::Environment(dir.path().join("env")));
    std::fs::remove_file(dir.path().join("bin/uv")).unwrap();
    let new = Site::NewEnvironment { dir: dir.path().join("new"), program: "/usr/bin/python3".into() };
    for (settings, change, is_forbidden) in [
        ("[install]\ntarget=/x\n", install(&plain), true),
        ("[install]\ntarget=/x\n", remove(&plain), false),
        ("[install]\nrequirement=/x\n", remove(&plain), false),
        ("[global]\nrequirement=/x\n", remove(&plain), true),
        ("[global]\nrequire-virtualenv=1\n", remove(&plain), true),
        ("[global]\nrequire-venv=1\n", install(&plain), true),
        ("[global]\nrequire-virtualenv=0\n", install(&plain), false),
        ("[global]\nrequire-virtualenv=1\n", install(&own), false),
        ("[global]\nrequire-virtualenv=1\n", install(&new), false),
        ("[global]\nrequire-virtualenv=1\n", install(&Site::OnPath), true),
        // pip 23.2 and 26.3 refuse these values.
        ("[global]\ntimeout=fast\n", remove(&own), true),
        ("[global]\nretries=3\ntimeout=1.5\nverbose=2\nquiet=no\n", remove(&own), false),
        ("[install]\nretries=many\n", install(&own), true),
        ("[install]\nretries=many\n", remove(&own), false),
        ("[global]\nno-color=perhaps\n", remove(&own), true),
        ("[global]\nquiet=-1\n", remove(&own), true),
        ("[global]\npre=perhaps\n", install(&own), true),
        ("[global]\npre=perhaps\n", remove(&own), false),
        ("[global]\npre=ON\n", install(&own), false),
        ("[global]\nunknown=perhaps\n", install(&own), false),
        ("[global]\nno-index=yes\n", install(&own), true),
        ("[global]\nno-index=yes\n", remove(&own), false),
        ("[global]\nno-index=yes\nfind-links=/wheels\n", install(&own), false),
        ("[global]\nno-index=perhaps\nfind-links=/wheels\n", install(&own), true),
        ("[global\n", remove(&own), true),
        ("a=1\n", install(&own), true),
    ] {
        std::fs::write(&file, settings).unwrap();
        let found = forbidden(&dir, change.clone(), &[("PIP_CONFIG_FILE", &file)]);
        assert_eq!(found.is_some(), is_forbidden, "{settings} {change:?}: {found:?}");
    }
    let variable = [("PIP_Require_Virtualenv", Path::new("1"))];
    assert!(forbidden(&dir, install(&plain), &variable).is_some());
}

#[test]
fn links_to_other_places_forbid_all_changes() {
    use std::os::unix::fs::symlink;
    let dir = project("");
    let (site, outside) = (dir.path().join("env/lib/python3.12/site-packages"), dir.path().join("outside"));
    let change = change(&dir).remove([NVRTC]);
    std::fs::create_dir_all(outside.join("cuda_nvrtc/lib")).unwrap();
    for (link, target, expected) in [
        ("nvidia", &outside, Some("/nvidia leads out of the environment, to DIR/outside")),
        ("nvidia/cuda_nvrtc", &outside, Some("/nvidia/cuda_nvrtc leads out of the environment, to DIR/outside")),
        ("nvidia/x/lib", &site, None),
        ("", &dir.path().join("lost"), Some(" leads nowhere")),
    ] {
        let _ = std::fs::remove_dir_all(site.join("nvidia")).or_else(|_| std::fs::remove_file(site.join("nvidia")));
        let link = if link.is_empty() { site.clone() } else { site.join(link) };
        if link == site {
            std::fs::remove_dir_all(&site).unwrap();
        }
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(target, &link).unwrap();
        let start = "the link DIR/env/lib/python3.12/site-packages";
        let expected = expected.map(|end| format!("{start}{end}"));
        assert_eq!(forbidden(&dir, change.clone(), &[]), expected, "{link:?}");
        // A part of an environment may be on a different disk, where pip can add packages.
        let addition = PackageChange::of(change.site.clone()).install([NVRTC]);
        let expected = expected.filter(|_| link == site);
        assert_eq!(forbidden(&dir, addition, &[]), expected, "{link:?}");
    }
}
