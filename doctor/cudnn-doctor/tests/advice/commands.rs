//! Tests the commands of `packages` for every installer.

use cudnn_frameworks::installation::{Installer, Package};
use cudnn_probe::Component;
use cudnn_probe::facts::{Changes, Facts};
use support::{PythonEnvironment, TempDir, not_run, write_program};

use cudnn_cli::command::command_line;
use cudnn_rules::packages::{PackageChange, Pip, Site, install_beside, reinstall, replace, replace_by, upgrade};

fn package(installer: Installer, name: &str, version: &str) -> Package {
    Package::new(installer, name, Some(version), "/env")
}

fn line(change: Option<PackageChange>) -> String {
    change.and_then(|change| change.commands()).map_or(String::new(), |commands| command_line(&commands))
}

#[test]
fn each_installer_changes_its_own_packages() {
    let wheel = |name: &str, version: &str| package(Installer::Pip, name, version);
    let (conda, debian) = (
        package(Installer::Conda, "libcudnn", "9.28.0.42"),
        package(Installer::Dpkg, "libcudnn9-cuda-13", "9.28.0.42-1"),
    );
    let two = [wheel("nvidia-cudnn-cu12", "9.10"), wheel("nvidia-cudnn-cu13", "9.28")];
    // An interrupted upgrade leaves the older record behind.
    let twice = [wheel("nvidia-cudnn-cu12", "9.10"), wheel("nvidia-cudnn-cu12", "9.28")];
    let jit = [wheel("nvidia-cudnn-jit-cu12", "9.19")];
    let cases = || {
        [
            (
                reinstall(&wheel("nvidia-cudnn-cu12", "9.28.0.42")),
                "PIP install --force-reinstall --no-deps nvidia-cudnn-cu12==9.28.0.42",
            ),
            (
                reinstall(&conda),
                "env CONDA_PKGS_DIRS=/env/cudnn-doctor-pkgs conda install --yes --prefix /env --channel conda-forge \
             --force-reinstall --copy libcudnn=9.28.0.42 && rm -rf /env/cudnn-doctor-pkgs",
            ),
            (reinstall(&debian), "apt-get install -y --reinstall libcudnn9-cuda-13=9.28.0.42-1"),
            (reinstall(&package(Installer::Rpm, "libcudnn9-cuda-12", "9")), ""),
            (reinstall(&package(Installer::Archive, "cudnn-linux-x86_64-9.28.0.42_cuda12-archive", "9")), ""),
            (reinstall(&wheel("torch", "2.2.0+cu121")), ""),
            (
                replace(&two, Component::Cudnn, 13),
                "PIP uninstall --yes nvidia-cudnn-cu12 nvidia-cudnn-cu13 && PIP install nvidia-cudnn-cu13==9.28",
            ),
            (
                replace(&twice, Component::Cudnn, 12),
                "PIP uninstall --yes nvidia-cudnn-cu12 && PIP uninstall --yes nvidia-cudnn-cu12 && \
             PIP install nvidia-cudnn-cu12==9.28",
            ),
            (
                replace(&jit, Component::Cudnn, 11),
                "PIP install nvidia-cudnn-cu11 && PIP uninstall --yes nvidia-cudnn-jit-cu12",
            ),
            // NVIDIA publishes no such packages.
            (replace(&jit, Component::CudnnJit, 11), ""),
            (replace(&jit, Component::Cudnn, 14), ""),
            (replace(&[wheel("torch", "2.2.0")], Component::Cudnn, 13), ""),
            (replace(&[], Component::Cudnn, 13), ""),
            (
                replace_by(std::slice::from_ref(&debian), Component::Cudnn, 12, Some("9.10.2.21")),
                "apt-get remove -y libcudnn9-cuda-13 && apt-get install -y libcudnn9-cuda-12=9.10.2.21-1",
            ),
            (
                install_beside(&conda, Component::Cublas, 12, None),
                "conda install --yes --prefix /env --channel conda-forge libcublas cuda-version=12",
            ),
            (install_beside(&debian, Component::Nvrtc, 12, None), ""),
            (install_beside(&debian, Component::Nvrtc, 12, Some(9)), "apt-get install -y --reinstall cuda-nvrtc-12-9"),
            (upgrade(&conda, "9.12"), "conda install --yes --prefix /env --channel conda-forge 'libcudnn>=9.12'"),
            (upgrade(&wheel("torch", "2.2.0"), "9.12"), ""),
        ]
    };
    let mut changes = Changes::default();
    for file in ["/env/pyvenv.cfg", "/env/bin/python3", "/env/lib/python3.12/site-packages/pip/x"] {
        changes.write(file.as_ref(), "");
    }
    Facts::recorder().after(changes).within(|| {
        for (change, expected) in cases() {
            assert_eq!(line(change.clone()), expected.replace("PIP", "/env/bin/python3 -I -m pip"), "{change:?}");
        }
    });
    // Otherwise the pip of a different Python would run.
    assert_eq!(reinstall(&wheel("nvidia-cudnn-cu12", "9.28.0.42")), None);
}

#[test]
fn a_hostile_record_never_leads_to_a_command() {
    for (name, version) in [
        ("nvidia-cudnn-cu12;touch X;#", "9"),
        ("--index-url=http://x", "9"),
        ("nvidia-cudnn-cu12", "9 --index-url=x"),
        ("", "9"),
    ] {
        let package = package(Installer::Pip, name, version);
        assert_eq!(reinstall(&package), None, "{name} {version}");
        let is_plain = name == "nvidia-cudnn-cu12";
        assert!(is_plain || upgrade(&package, "9.12").is_none());
        assert!(is_plain || replace(&[package], Component::Cudnn, 12).is_none());
    }
}

#[test]
fn a_wheel_that_pip_has_recorded_is_reinstalled() {
    let root = TempDir::new();
    let environment = PythonEnvironment::venv(root.path()).pip();
    for record in ["nvidia_cublas_cu12-12.9.1.4", "nvidia_cuda_nvrtc-13.0.48", "nvidia_cuda_runtime_cu12-;x"] {
        let record = environment.import_dir().join(format!("{record}.dist-info"));
        std::fs::create_dir_all(&record).unwrap();
        std::fs::write(record.join("RECORD"), "nvidia/x,,\n").unwrap();
    }
    let owner = Package::new(Installer::Pip, "nvidia-cudnn-cu12", Some("9.28.0.42"), root.path());
    for (component, cuda_major, expected) in [
        (Component::Cublas, 12, "--force-reinstall --no-deps nvidia-cublas-cu12==12.9.1.4"),
        (Component::Cublas, 13, "pip install 'nvidia-cublas==13.*'"),
        (Component::Nvrtc, 13, "--force-reinstall --no-deps nvidia-cuda-nvrtc==13.0.48"),
        (Component::Nvrtc, 14, "pip install 'nvidia-cuda-nvrtc==14.*'"),
        (Component::Cudart, 12, "pip install nvidia-cuda-runtime-cu12"),
    ] {
        let command = line(install_beside(&owner, component, cuda_major, None));
        assert!(command.ends_with(expected), "{component} {cuda_major}: {command}");
    }
}

/// Returns the commands that install a package in an environment of these files: `NAME`, `NAME=TEXT` or `NAME->TARGET`.
/// `$` is the root directory, which contains the environment.
fn commands(files: &[&str], environment: &str) -> String {
    let world = TempDir::new();
    let root = world.path().to_str().unwrap();
    for file in files {
        let (name, text) = file.split_once('=').unwrap_or((file, "#!"));
        match name.split_once("->") {
            Some((name, target)) => std::os::unix::fs::symlink(target, world.path().join(name)).unwrap(),
            None => write_program(world.path().join(name), text.replace('$', root)),
        }
    }
    let dir = if environment.is_empty() { world.path().to_owned() } else { world.path().join(environment) };
    line(Some(PackageChange::of(Site::Environment(dir)).install(["x".to_owned()]))).replace(root, "$")
}

#[test]
fn commands_use_the_pip_of_the_environment() {
    const VENV: [&str; 2] = ["bin/python3", "pyvenv.cfg"];
    const HOME: [&str; 2] = ["bin/python3", "pyvenv.cfg=home = $/base/bin"];
    for (start, files, environment, expected) in [
        (&VENV[..], &["lib/python3.12/site-packages/pip/x"][..], "", "$/bin/python3 -I -m pip install x"),
        (&VENV, &["lib/python3.12/x"], "", "pip --python $/bin/python3 install x"),
        (
            &VENV[..1],
            &["lib/python3.12/EXTERNALLY-MANAGED", "lib/python3.12/site-packages/pip/x"],
            "",
            "$/bin/python3 -E $/lib/python3.12/site-packages/pip install --break-system-packages x",
        ),
        // Virtual environments belong to the user, not to the distribution.
        (
            &VENV,
            &["lib/python3.12/EXTERNALLY-MANAGED", "lib/python3.12/site-packages/pip/x"],
            "",
            "$/bin/python3 -I -m pip install x",
        ),
        // The Python that created the environment has ensurepip.
        (
            &HOME,
            &["lib/python3.12/x", "base/lib/python3.12/ensurepip/x"],
            "",
            "$/bin/python3 -I -m ensurepip && $/bin/python3 -I -m pip install x",
        ),
        // ensurepip is a no-op while a deleted pip is recorded.
        (
            &HOME,
            &["lib/python3.12/site-packages/pip-23.2.dist-info/x", "base/lib/python3.12/ensurepip/x"],
            "",
            "rm -r $/lib/python3.12/site-packages/pip-23.2.dist-info && $/bin/python3 -I -m ensurepip && $/bin/python3 -I \
             -m pip install x",
        ),
        (&HOME, &["lib/python3.12/x", "base/lib/python3.11/ensurepip/x"], "", "pip --python $/bin/python3 install x"),
        (
            &VENV[..1],
            &["lib/python3.12/ensurepip/x", "lib/python3.12/EXTERNALLY-MANAGED"],
            "",
            "pip --python $/bin/python3 install x",
        ),
        (&VENV[..1], &["pyvenv.cfg=uvx = 0.9"], "", "pip --python $/bin/python3 install x"),
        // The packages are in the user's site directory, or belong to a Python elsewhere.
        (&[], &[".local/lib/python3.99/site-packages/x"], ".local", ""),
        (&[], &["lib/python3.99/dist-packages/x"], "", ""),
        (&[], &[".local/lib/python3.99/site-packages/x", "lib/python3.99/x"], "", ""),
        // Debian's pip installs into /usr/local.
        (
            &["usr/bin/python3", "usr/lib/python3/dist-packages/pip/x"],
            &["usr/local/lib/python3.11/dist-packages/x", "usr/lib/python3.11/EXTERNALLY-MANAGED"],
            "usr/local",
            "$/usr/bin/python3 -E $/usr/lib/python3/dist-packages/pip install --break-system-packages x",
        ),
        (
            &["usr/bin/python3", "usr/lib/python3/dist-packages/pip/x", "usr/bin/python3.11"],
            &["usr/local/lib/python3.11/dist-packages/x", "usr/lib/python3.12/x"],
            "usr/local",
            "$/usr/bin/python3.11 -E $/usr/lib/python3/dist-packages/pip install x",
        ),
        // The packages are for a different Python version.
        (
            &["bin/python3.12", "bin/python3->python3.12", "pyvenv.cfg"],
            &["lib/python3.11/site-packages/x"],
            "",
            "$/bin/python3 -I -m pip install x",
        ),
        (&[], &["nvidia/cudnn/lib/x"], "", ""),
        // Only another version has pip, and apt-get installs only in /usr.
        (
            &["usr/bin/python3", "usr/lib/python3/dist-packages/y"],
            &["usr/local/lib/python3.99/dist-packages/x", "usr/lib/python3.99/x"],
            "usr/local",
            "",
        ),
        (
            &["bin/python3.12", "bin/python3->python3.12"],
            &["lib/python3.12/x", "lib/python3.11/site-packages/pip/x", "lib/python3.11/ensurepip/x"],
            "",
            "pip --python $/bin/python3 install x",
        ),
    ] {
        assert_eq!(commands(&[start, files].concat(), environment), expected, "{start:?} {files:?}");
    }
}

fn commands_after(site: Site, changes: Changes) -> String {
    Facts::recorder().after(changes).within(|| line(Some(PackageChange::of(site).install(["nvidia-x".to_owned()]))))
}

#[test]
fn no_command_uses_a_pip_that_is_missing() {
    let world = TempDir::new();
    let at = |name: &str| world.path().join(name);
    let program = |name: &str, text: &str| write_program(at(name), text);
    program("base/bin/python3.12", "\x7fELF");
    program("base/lib/python3.12/x", "");
    program("base/lib/python3.11/site-packages/pip/x", "");
    program("lost/pip", &format!("#!{}/base/bin/python3.12\n", world.path().display()));
    let (root, target) = (at("base"), at("target"));
    let interpreter = || Site::Interpreter { program: at("base/bin/python3.12"), root: root.clone() };
    let directory = |pip| Site::Directory { dir: target.clone(), pip, options: vec!["--no-deps"] };
    let new = || Site::NewEnvironment { dir: target.clone(), program: at("base/bin/python3.12") };
    let of_program = || directory(Pip::Interpreter(at("base/bin/python3.12")));
    for path in ["nowhere", "lost"] {
        for site in [interpreter(), of_program(), new(), Site::OnPath, Site::Environment(at("later"))] {
            let mut changes = Changes::default();
            changes.set_variable("PATH", Some(at(path).into()));
            assert_eq!(commands_after(site.clone(), changes), "", "{site:?}");
        }
    }
    // ensurepip and apt-get install pip. Without a Python on PATH, apt-get also installs Python.
    for (file, site, expected) in [
        (
            "base/lib/python3.12/ensurepip/x",
            interpreter(),
            "-m ensurepip && $/base/bin/python3.12 -E $/base/lib/python3.12/site-packages/pip install nvidia-x",
        ),
        (
            "base/lib/python3.12/ensurepip/x",
            of_program(),
            "-m ensurepip && $/base/bin/python3.12 -I -m pip install --target",
        ),
        (
            "base/lib/python3.12/ensurepip/x",
            new(),
            "-I -m venv $/target && $/target/bin/python3 -I -m pip install nvidia-x",
        ),
        ("/usr/bin/apt-get", directory(Pip::Any), "apt-get install -y python3-venv && python3 -I -m venv "),
    ] {
        let mut changes = Changes::default();
        changes.write(&at(file), "");
        changes.set_variable("PATH", Some(at("nowhere").into()));
        changes.set_variable("HOME", Some(world.path().into()));
        let line = commands_after(site, changes).replace(world.path().to_str().unwrap(), "$");
        assert!(line.contains(expected), "{line}");
    }
    if !std::path::Path::new("/usr/lib/python3/dist-packages").is_dir() {
        return not_run("the commands for Debian's Python without pip", "/usr/bin/python3 is not Debian's");
    }
    let mut changes = Changes::default();
    changes.remove("/usr/lib/python3/dist-packages/pip".as_ref());
    changes.write("/usr/bin/apt-get".as_ref(), "");
    changes.set_variable("PATH", Some(at("nowhere").into()));
    changes.set_variable("HOME", Some(world.path().into()));
    let line = commands_after(Site::Environment("/usr".into()), changes);
    let expected = "apt-get install -y python3-pip && /usr/bin/python3 -E /usr/lib/python3/dist-packages/pip install ";
    assert!(line.contains(expected), "{line}");
}
