use super::*;
use cudnn_cli::command::command_line;
use cudnn_os::files::below;

#[test]
#[cfg_attr(not(windows), ignore = "needs the file layout of Windows")]
fn windows_environments_use_their_own_pip() {
    for (files, expected) in [
        (
            &["Scripts/python.exe", "pyvenv.cfg", "Lib/site-packages/pip/x"][..],
            r"$\Scripts\python.exe -I -m pip install x",
        ),
        // ensurepip comes from the base Python.
        (
            &["Scripts/python.exe", "pyvenv.cfg=home = $\\base", "Lib/site-packages/x", "base/Lib/ensurepip/x"],
            r"$\Scripts\python.exe -I -m ensurepip; $\Scripts\python.exe -I -m pip install x",
        ),
        (
            &["Scripts/python.exe", "pyvenv.cfg=uvx = 0.9", "Lib/site-packages/x"],
            r"python -m pip --python $\Scripts\python.exe install x",
        ),
        (
            &["python.exe", "python312.dll", "Lib/site-packages/pip/x"],
            r"$\python.exe -E $\Lib\site-packages\pip install x",
        ),
        // The environment's Python is missing.
        (&["pyvenv.cfg=version = 3.12.4", "Lib/site-packages/x"], r"$\Scripts\python.exe -I -m pip install x"),
        (&["nvidia/cudnn/bin/x"], ""),
    ] {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().to_str().unwrap_or_default();
        for file in files {
            let (name, text) = file.split_once('=').unwrap_or((file, ""));
            let file = below(world.path(), name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text.replace('$', root)).unwrap();
        }
        let commands = pip(world.path(), "install", vec!["x".into()]).unwrap_or_default();
        assert_eq!(command_line(&commands).replace(root, "$"), expected, "{files:?}");
    }
}

/// The directory that a plan names is that of the installed packages.
#[test]
#[cfg(all(test, target_os = "linux"))]
fn packages_of_the_user_are_a_place_of_their_own() {
    use crate::packages::{PackageChange, Site};
    use cudnn_probe::facts::{Changes, Facts};

    let world = tempfile::tempdir().unwrap();
    let at = |name: &str| world.path().join(name);
    let dir = at("user/lib/python3.12/site-packages");
    for file in [
        "env/bin/python3.12",
        "env/lib/python3.12/site-packages/pip/x",
        "env/lib/python3.12/site-packages/torch-2.8.0.dist-info/x",
    ] {
        std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
        std::fs::write(at(file), "").unwrap();
    }
    std::fs::create_dir_all(dir.join("nvidia_cublas_cu12-12.4.5.8.dist-info")).unwrap();
    std::os::unix::fs::symlink("python3.12", at("env/bin/python3")).unwrap();
    let mut changes = Changes::default();
    changes.set_variable("PYTHONUSERBASE", Some(at("user").into()));
    changes.set_variable("PATH", Some(at("nowhere").into()));
    let environment = Site::Environment(at("env"));
    let user = Site::User { program: at("env/bin/python3"), base: at("user"), dir: dir.clone() };
    for (settings, package, expected) in [
        (None, "nvidia-cublas-cu12", &user),
        (None, "other", &environment),
        (Some("include-system-site-packages = true\n"), "nvidia-cublas-cu12", &environment),
    ] {
        settings.into_iter().for_each(|settings| std::fs::write(at("env/pyvenv.cfg"), settings).unwrap());
        Facts::recorder().after(changes.clone()).within(|| {
            let change = PackageChange::of(environment.clone()).install([package]).possible().unwrap();
            assert_eq!(change.site, *expected, "{settings:?} {package}");
            let line = command_line(&change.commands().unwrap());
            let is_for_user = *expected == user;
            assert_eq!(line.contains(" install --user "), is_for_user, "{line}");
            assert_eq!(change.site.user_packages(), is_for_user.then(|| dir.clone()));
            assert!(change.site.package_dirs().contains(&dir) == is_for_user);
        });
    }
}
