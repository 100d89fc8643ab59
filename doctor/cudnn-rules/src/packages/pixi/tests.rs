use super::*;

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn pixi_changes_its_own_environments() {
    let workspace = tempfile::tempdir().unwrap();
    for (name, manifest, expected) in [
        ("default", "", Some("pixi add --manifest-path $ 'cudnn>=9.3' cuda-version=12 b")),
        ("gpu", "", None),
        (
            "default",
            "cudnn = '>=9.1,<10'\ncuda-version = { version = '12.6|12.9' }\nb = '1.*'",
            Some("pixi add --manifest-path $ 'cudnn>=9.3,>=9.1,<10' 'cuda-version=12,(12.6|12.9)' 'b 1.*'"),
        ),
        (
            "default",
            "cudnn = '*'\nb = { path = 'b' }",
            Some("pixi add --manifest-path $ 'cudnn>=9.3' cuda-version=12 b"),
        ),
        (
            "default",
            "[pypi-dependencies]\ncudnn = '~=9.1'\n[build-dependencies]\ncuda-version = '11.*'\n[host-dependencies]\nb = '1.*'",
            Some("pixi add --manifest-path $ 'cudnn>=9.3' cuda-version=12 b"),
        ),
    ] {
        std::fs::write(workspace.path().join("pixi.toml"), format!("[dependencies]\n{manifest}\n")).unwrap();
        let root = workspace.path().join(".pixi/envs").join(name);
        std::fs::create_dir_all(root.join("conda-meta")).unwrap();
        std::fs::write(root.join("conda-meta/pixi"), format!(r#"{{"environment_name": "{name}"}}"#)).unwrap();
        let command = Pixi::of(&root).unwrap().add(["cudnn>=9.3", "cuda-version=12", "b"].map(str::to_owned).into());
        let line = command.map(|command| command.to_string().replace(workspace.path().to_str().unwrap(), "$"));
        let line = line.map(|line| line.replace('"', "'"));
        assert_eq!(line.as_deref(), expected, "{name} {manifest}");
    }
}
