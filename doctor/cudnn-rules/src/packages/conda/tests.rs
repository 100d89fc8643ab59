#![allow(clippy::disallowed_methods, reason = "a test writes the files that the rules read")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn pixi_changes_its_own_environments() {
    let workspace = tempfile::tempdir().unwrap();
    for (name, expected) in [("default", Some("pixi add --manifest-path $ 'cudnn>=9.3'")), ("gpu", None)] {
        let root = workspace.path().join(".pixi/envs").join(name);
        std::fs::create_dir_all(root.join("conda-meta")).unwrap();
        std::fs::write(root.join("conda-meta/pixi"), format!(r#"{{"environment_name": "{name}"}}"#)).unwrap();
        let command = install(&root, vec!["cudnn>=9.3".to_owned()]);
        let line = command.map(|command| command.to_string().replace(workspace.path().to_str().unwrap(), "$"));
        let line = line.map(|line| line.replace('"', "'"));
        assert_eq!(line.as_deref(), expected, "{name}");
    }
}
