//! Whether a framework was built for AMD's ROCm, in place of CUDA: the name or the version of its package, its version file
//! or a library shows it.

use std::path::Path;

use super::statements::Statements;
use super::{Source, Stated};
use crate::distribution::Distribution;
use crate::kind::{Kind, first_matching};

/// The release, or an empty text where none is stated.
pub(super) fn read(
    kind: &Kind,
    of: &Distribution,
    dir: Option<&Path>,
    statements: &Statements,
) -> Option<Stated<String>> {
    let stated = || {
        let value = statements.rocm.clone()?;
        Some(Stated { value, source: Source::File(statements.file.clone()?) })
    };
    let metadata = || Source::File(of.info_dir.join("METADATA"));
    let local = || {
        let (_, local) = of.version.split_once('+')?;
        let value = local.split('.').map_while(release_part).collect::<Vec<_>>().join(".");
        local.starts_with("rocm").then(|| Stated { value, source: metadata() })
    };
    let package = || kind.is_rocm_package(&of.name).then(|| Stated { value: String::new(), source: metadata() });
    let library = || {
        let file = first_matching(dir?, kind.rocm_library?)?;
        Some(Stated { value: String::new(), source: Source::File(file) })
    };
    stated().or_else(local).or_else(package).or_else(library)
}

/// `6` of `rocm6`, and `2` as it is: the parts of `rocm6.2`, but not what may follow (`.git1a2b3c4`).
fn release_part(part: &str) -> Option<&str> {
    let digits = part.strip_prefix("rocm").unwrap_or(part);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}
