//! Stores facts about releases for a user, so that tests do not depend on the doctor's own facts.

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The only known issues in [`own_release_facts`], which affect 9.10.2.
const KNOWN_ISSUES: &str = r#"[
    {
        "name": "conv3d-bfloat16-wrong",
        "releases": [{ "from": "9.8.0", "before": "9.15.1" }],
        "operation": "convolution",
        "effect": "3-d convolutions in bfloat16 can give wrong results",
        "source": "https://github.com/pytorch/pytorch/issues/163539",
        "erratum": "conv3d-bfloat16-wrong"
    },
    {
        "name": "conv3d-tf32-wrong",
        "releases": [{ "from": "9.10.2", "before": "9.15.1" }],
        "operation": "convolution",
        "effect": "3-d convolutions in TF32 can give wrong results",
        "condition": "TF32 is allowed",
        "source": "https://github.com/pytorch/pytorch/pull/167024",
        "erratum": "conv3d-tf32-wrong"
    }
]"#;

const RULES: &str = r#"{ "errata": 1, "rules": [
    { "name": "conv3d-bfloat16-wrong", "reason": "wrong", "operations": ["conv_fwd"] },
    { "name": "conv3d-tf32-wrong", "reason": "wrong", "operations": ["conv_fwd"] }
] }"#;

/// Returns a value of `XDG_DATA_HOME` with stored facts, with two known issues of releases from 9.8.0 to before 9.15.1.
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub fn own_release_facts() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        // Next to the test programs, so that no test has to remove it.
        let dir = std::env::current_exe().unwrap().parent().unwrap().join("release-facts");
        let _ = store_release_facts(&dir, KNOWN_ISSUES);
        dir
    })
}

/// Stores facts with these known issues, a list in JSON, in a directory for `XDG_DATA_HOME`. Returns the file.
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub fn store_release_facts(data_home: &Path, known_issues: &str) -> PathBuf {
    let dir = data_home.join("cudnn-doctor");
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(&dir).unwrap();
    let version = u32::MAX;
    let text = format!(
        r#"{{ "facts": 1, "version": {version}, "date": "2030-01-31", "known_issues": {known_issues}, "errata": {RULES} }}"#
    );
    // Other test programs may read the file at the same time.
    let temporary = dir.join(format!("facts-{}", std::process::id()));
    std::fs::write(&temporary, text).unwrap();
    #[cfg(unix)]
    std::fs::set_permissions(&temporary, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let file = dir.join("facts.json");
    std::fs::rename(&temporary, &file).unwrap();
    file
}
