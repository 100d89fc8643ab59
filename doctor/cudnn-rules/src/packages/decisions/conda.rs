//! What the user has decided about a conda environment: its pins, and the manifest of pixi.

use std::path::Path;

use cudnn_probe::facts::PathFacts;

use super::decision::Decision;
use super::requirements_file::decisions_in;
use crate::packages::pixi::Pixi;
use crate::packages::requirement::package_name;

/// Returns the decisions about the environment at this root.
pub(super) fn decisions(root: &Path) -> Vec<Decision> {
    let pins = Some(root.join("conda-meta/pinned")).filter(|file| file.leads_to_file());
    let pinned = pins.into_iter().flat_map(|file| decisions_in(&file));
    let of_pixi = Pixi::of(root).into_iter().flat_map(|pixi| pixi.dependencies());
    let of_pixi = of_pixi.map(|one| Decision::constraint(&one.file, format!("{} {}", one.package, one.versions)));
    let of_conda = |pin: Decision| Decision { requirement: of_conda(&pin.requirement), ..pin };
    pinned.chain(of_pixi).map(of_conda).collect()
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
    use super::*;

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
