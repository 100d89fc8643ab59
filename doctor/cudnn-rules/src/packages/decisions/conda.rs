//! What the user has decided about a conda environment: its pins, and the manifest of pixi.

use std::path::Path;

use cudnn_probe::facts::PathFacts;

use super::decision::{Decision, DecisionKind};
use super::requirements_file::decisions_in;
use crate::packages::pixi::Pixi;
use crate::packages::requirement::package_name;

/// Returns the decisions about the environment at this root.
pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    let pins = Some(root.join("conda-meta/pinned")).filter(|file| file.leads_to_file());
    let pinned = pins.into_iter().flat_map(|file| decisions_in(&file));
    let dependencies: Vec<_> = Pixi::of(root).into_iter().flat_map(|pixi| pixi.dependencies()).collect();
    let in_versions =
        dependencies.iter().map(|one| Decision::constraint(&one.file, format!("{} {}", one.package, one.versions)));
    let of_conda = |pin: Decision| Decision { requirement: of_conda(&pin.requirement), ..pin };
    let others = dependencies.iter().filter(|one| !one.others.is_empty());
    let others = others.map(|one| Decision {
        file: one.file.clone(),
        requirement: format!("{} @ {}", one.package, one.others.join(", ")),
        kind: DecisionKind::Manifest,
    });
    pinned.chain(in_versions).map(of_conda).chain(others).collect()
}

/// Returns the name and the versions in a specification of conda, without the build: `cudnn 8.9.*` for `cudnn=8.9=h1_0`.
fn of_conda(specification: &str) -> String {
    let name = package_name(specification);
    let rest = specification.split_once(name).map_or("", |(_, rest)| rest).trim();
    let in_brackets = rest
        .split_once("version=")
        .and_then(|(_, version)| version.split(['"', '\'', ',', ']']).find(|part| !part.is_empty()));
    let version = match (in_brackets, rest.strip_prefix("==")) {
        (Some(version), _) => version.to_owned(),
        (None, Some(exact)) => format!("=={}", exact.split([' ', '=']).next().unwrap_or_default()),
        (None, None) => match rest.strip_prefix('=') {
            Some(start) => format!("{}.*", start.split([' ', '=']).next().unwrap_or_default().trim_end_matches(".*")),
            None => rest.split(' ').next().unwrap_or_default().to_owned(),
        },
    };
    format!("{name} {version}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::forbidding;
    use super::*;
    use crate::packages::{PackageChange, Site};

    /// `pixi add` would lose everything but the versions.
    #[test]
    #[cfg_attr(miri, ignore = "it writes files")]
    fn a_manifest_of_pixi_decides_what_it_states_besides_versions() {
        let workspace = tempfile::tempdir().unwrap();
        let root = workspace.path().join(".pixi/envs/default");
        std::fs::create_dir_all(root.join("conda-meta")).unwrap();
        std::fs::write(root.join("conda-meta/pixi"), "{}").unwrap();
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
                let newer = change().install(["libcudnn>=9.18.0".to_owned()]);
                assert_eq!(forbidding(&newer).is_some(), is_excluded, "{value}");
                // To install it again, no manifest is edited.
                let again = change().reinstall(["libcudnn".to_owned()]);
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
            ("cudnn >=8,<9", "cudnn >=8,<9"),
            ("cudnn", "cudnn "),
            ("cudnn 7.*|8.*", "cudnn 7.*|8.*"),
        ] {
            assert_eq!(of_conda(pin), expected);
        }
    }
}
