//! Lists the files that pip, uv, conda and pixi may read settings from.

use std::path::{Path, PathBuf};

use cudnn_probe::facts::PathFacts;
use cudnn_probe::{Os, facts};

use super::dirs::entries;
use super::pixi;

/// Returns pip's configuration files for the Python with this prefix. Options in later files replace those in earlier
/// ones.
pub fn pip_settings(prefix: Option<&Path>) -> Vec<PathBuf> {
    pip_settings_on(Os::HOST, prefix)
}

fn pip_settings_on(os: Os, prefix: Option<&Path>) -> Vec<PathBuf> {
    let is_windows = os == Os::Windows;
    // With this value, pip reads no files.
    let no_file = if is_windows { "nul" } else { "/dev/null" };
    let named = variable("PIP_CONFIG_FILE");
    if named.as_deref() == Some(Path::new(no_file)) {
        return Vec::new();
    }
    let (name, home, dir) = if is_windows { ("pip.ini", "USERPROFILE", "pip") } else { ("pip.conf", "HOME", ".pip") };
    let in_etc = (!is_windows).then(|| Path::new("/etc").join(name));
    let of_home = variable(home).map(|home| home.join(dir).join(name));
    let in_dir = |dir: PathBuf| dir.join("pip").join(name);
    // pip then ignores the user's files.
    let has_named = named.as_ref().is_some_and(|named| named.target_exists());
    let of_user = of_home.into_iter().chain(user_config_dir(os).map(in_dir)).filter(|_| !has_named);
    let own = prefix.map(|prefix| prefix.join(name));
    system_config_dirs(os).into_iter().map(in_dir).chain(in_etc).chain(of_user).chain(own).chain(named).collect()
}

/// Returns uv's configuration files for a process in the root directory, and the directory of the Pythons that uv has
/// installed.
pub fn uv_settings() -> Vec<PathBuf> {
    let fixed = ["/etc/uv/uv.toml", "/uv.toml", "/pyproject.toml"].map(PathBuf::from);
    let data = variable("XDG_DATA_HOME").or_else(|| Some(variable("HOME")?.join(".local/share")));
    let pythons = data.map(|data| data.join("uv/python"));
    let in_dirs = config_dirs(Os::HOST).into_iter().map(|dir| dir.join("uv/uv.toml"));
    in_dirs.chain(fixed).chain(variable("UV_CONFIG_FILE")).chain(pythons).collect()
}

/// Returns the configuration files of conda and mamba with these roots, and the caches with the packages that they
/// install.
pub fn conda_settings(roots: &[PathBuf]) -> Vec<PathBuf> {
    let home = variable("HOME");
    let of_home = |names: &[&str]| names.iter().filter_map(|name| Some(home.as_ref()?.join(name))).collect::<Vec<_>>();
    let mut with_caches = roots.to_vec();
    with_caches.extend(CONDA_ROOTS.iter().filter_map(|name| variable(name)));
    with_caches.extend(variable("XDG_DATA_HOME").map(|data| data.join("mamba")));
    with_caches.extend(of_home(&[".conda", ".mamba", ".local/share/mamba", "micromamba"]));
    let mut dirs = ["/etc/conda", "/var/lib/conda"].map(PathBuf::from).to_vec();
    dirs.extend(config_dirs(Os::HOST).into_iter().flat_map(|dir| [dir.join("conda"), dir.join("mamba")]));
    dirs.extend(of_home(&["", ".config/conda"]));
    dirs.extend(with_caches.iter().cloned());
    let files = dirs.iter().flat_map(|dir| {
        let named = [".condarc", "condarc", ".mambarc", "mambarc", "condarc.d"].map(|name| dir.join(name));
        named.into_iter().chain(entries(&dir.join("condarc.d"))).collect::<Vec<_>>()
    });
    let caches = with_caches.iter().map(|dir| dir.join("pkgs"));
    files.chain(caches).chain(["CONDARC", "MAMBARC"].into_iter().filter_map(variable)).collect()
}

/// Returns the configuration files of pixi, the manifests and lock files of the environments at these roots, and pixi's
/// cache.
pub fn pixi_settings(roots: &[PathBuf]) -> Vec<PathBuf> {
    let home = variable("HOME");
    let of_home = |name: &str| home.iter().map(|home| home.join(name)).collect::<Vec<_>>();
    let own = variable("PIXI_HOME").into_iter().chain(of_home(".pixi"));
    let in_dirs = config_dirs(Os::HOST).into_iter().map(|dir| dir.join("pixi")).chain(["/etc/pixi".into()]);
    let configs = own.chain(in_dirs).map(|dir| dir.join("config.toml"));
    let workspaces = roots.iter().filter_map(|root| pixi::workspace_of_pixi(root));
    let of_workspaces = workspaces.flat_map(|dir| {
        let names = pixi::MANIFESTS_OF_PIXI.into_iter().chain(["pixi.lock", ".pixi/config.toml"]);
        names.map(|name| dir.join(name)).collect::<Vec<_>>()
    });
    configs.chain(of_workspaces).chain(of_home(".cache/rattler")).collect()
}

/// The variables that name directories with settings of conda and mamba.
pub const CONDA_ROOTS: [&str; 2] = ["CONDA_PREFIX", "MAMBA_ROOT_PREFIX"];

fn config_dirs(os: Os) -> Vec<PathBuf> {
    system_config_dirs(os).into_iter().chain(user_config_dir(os)).collect()
}

fn system_config_dirs(os: Os) -> Vec<PathBuf> {
    if os == Os::Windows {
        return variable("ProgramData").into_iter().collect();
    }
    let dirs = variable("XDG_CONFIG_DIRS").unwrap_or_else(|| "/etc/xdg".into());
    std::env::split_paths(&dirs).collect()
}

fn user_config_dir(os: Os) -> Option<PathBuf> {
    if os == Os::Windows {
        return variable("APPDATA");
    }
    variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))
}

fn variable(name: &str) -> Option<PathBuf> {
    facts::variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudnn_probe::facts::{Changes, Facts};

    fn settings(os: Os, variables: &[(&str, &str)]) -> Vec<PathBuf> {
        let unset = ["XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "HOME", "USERPROFILE", "PIP_CONFIG_FILE"];
        let mut changes = Changes::default();
        unset.iter().for_each(|name| changes.set_variable(name, None));
        variables.iter().for_each(|(name, value)| changes.set_variable(name, Some(value.into())));
        Facts::recorder().after(changes).within(|| pip_settings_on(os, Some(Path::new("/env"))))
    }

    #[test]
    fn each_system_has_its_own_files_of_pip() {
        let windows = [("ProgramData", "/all"), ("APPDATA", "/own"), ("USERPROFILE", "/home"), ("HOME", "/unused")];
        let expected = ["/all/pip/pip.ini", "/home/pip/pip.ini", "/own/pip/pip.ini", "/env/pip.ini"];
        assert_eq!(settings(Os::Windows, &windows), expected.map(PathBuf::from));
        let linux = [("XDG_CONFIG_DIRS", "/all"), ("HOME", "/home"), ("APPDATA", "/unused")];
        let expected = ["/all/pip/pip.conf", "/etc/pip.conf", "/home/.pip/pip.conf", "/home/.config/pip/pip.conf"];
        let expected = expected.into_iter().chain(["/env/pip.conf"]).map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(settings(Os::Linux, &linux), expected);
        for (os, value, is_none) in
            [(Os::Windows, "nul", true), (Os::Linux, "/dev/null", true), (Os::Linux, "nul", false)]
        {
            assert_eq!(settings(os, &[("PIP_CONFIG_FILE", value)]).is_empty(), is_none, "{value}");
        }
    }
}
