use super::*;

#[test]
fn the_installer_is_the_program_that_is_executed() {
    for (program, arguments, expected) in [
        ("uv", &["pip", "install", "x"][..], Some(PackageManager::Uv)),
        ("env", &["-u", "PIP_TARGET", "/e/bin/python3", "-I", "-m", "pip", "install", "x"], Some(PackageManager::Pip)),
        ("env", &["PYTHONPATH=/x", "/opt/uv", "pip", "install", "x"], Some(PackageManager::Uv)),
        ("/e/bin/python3", &["-E", "/e/lib/python3.12/site-packages/pip", "install", "x"], Some(PackageManager::Pip)),
        ("/usr/bin/python3.12", &["-I", "-m", "pip", "install", "--target", "/srv/uv", "x"], Some(PackageManager::Pip)),
        ("pip3", &["install", "--target", "/srv/uv", "x"], Some(PackageManager::Pip)),
        ("env", &["CONDA_PKGS_DIRS=/e/p", "/opt/conda/bin/conda", "install", "uv"], Some(PackageManager::Conda)),
        ("pixi", &["add", "--manifest-path", "/srv/conda", "cudnn"], Some(PackageManager::Pixi)),
        ("apt-get", &["install", "-y", "x"], None),
        ("/e/bin/python3", &["-I", "-m", "ensurepip"], None),
    ] {
        let command = Command::new(program, arguments.iter().copied());
        assert_eq!(PackageManager::of(&command), expected, "{command}");
    }
}

#[test]
#[cfg(all(test, unix))]
fn programs_of_root_search_no_directory_that_another_user_can_change() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let path = std::env::join_paths([dir.path(), Path::new("bin"), Path::new(""), Path::new("/usr/bin")]).unwrap();
    assert_eq!(only_of_root(&path), "/usr/bin");
}

#[test]
fn the_constraints_of_root_are_those_of_the_working_directory() {
    let name = std::env::current_dir().unwrap().join("Cargo.toml");
    for variable in ["PIP_CONSTRAINT", "UV_CONSTRAINT", "UV_EXCLUDE", "UV_OVERRIDE"] {
        let value = adapted(variable.as_ref(), "Cargo.toml nothing.txt https://x/y".as_ref());
        assert_eq!(value.to_str().unwrap(), format!("{} nothing.txt https://x/y", name.display()), "{variable}");
    }
}

#[test]
fn programs_of_root_get_only_variables_that_name_no_unchecked_files() {
    for (variable, of_pip, of_conda) in [
        ("PATH", true, true),
        ("HTTPS_PROXY", true, true),
        ("https_proxy", true, true),
        ("LC_ALL", true, true),
        ("PIP_INDEX_URL", true, false),
        ("PIP_CACHE_DIR", false, false),
        ("UV_INDEX", false, false),
        ("UV_PROJECT", false, false),
        ("CONDA_PKGS_DIRS", false, true),
        ("CONDARC", false, true),
        ("CONDA_EXE", false, false),
        ("CONDA_PREFIX_1", false, false),
        ("LD_LIBRARY_PATH", false, false),
        ("LD_PRELOAD", false, false),
        ("LOCPATH", false, false),
        ("OPENSSL_CONF", false, false),
        ("GCONV_PATH", false, false),
        ("PYTHONHOME", false, false),
        ("APT_CONFIG", false, false),
    ] {
        assert_eq!(is_passed(variable, "/x".as_ref(), Some(PackageManager::Pip)), of_pip, "{variable}");
        assert_eq!(is_passed(variable, "/x".as_ref(), Some(PackageManager::Conda)), of_conda, "{variable}");
        assert_eq!(is_passed(variable, "/x".as_ref(), None), of_pip && of_conda, "{variable}");
    }
}

/// Otherwise, pip would install the user's packages elsewhere than planned.
#[test]
fn programs_of_root_know_the_directory_of_the_users_packages() {
    for (value, expected) in [("/x", true), ("x", false)] {
        assert_eq!(is_passed("PYTHONUSERBASE", value.as_ref(), Some(PackageManager::Pip)), expected, "{value}");
    }
}
