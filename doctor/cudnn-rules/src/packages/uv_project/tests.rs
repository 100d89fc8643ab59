use super::*;
use crate::packages::change::Site;

#[test]
fn a_project_must_require_what_its_lock_file_does_not_contain() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join(".venv");
    std::fs::create_dir(&root).unwrap();
    let lock = "version = 1\n\n[[package]]\nname = \"nvidia-cudnn-cu12\"\nversion = \"9.10.2.21\"\n";
    std::fs::write(dir.path().join("uv.lock"), lock).unwrap();
    let kept = |settings: &str, install: &[&str]| {
        std::fs::write(root.join("pyvenv.cfg"), settings).unwrap();
        let install = install.iter().map(|one| (*one).to_owned());
        let command = keep_in_project(&PackageChange::of(Site::Environment(root.clone())).install(install));
        // Windows' shells need other quotes.
        command.map(|command| command.to_string().replace(dir.path().to_str().unwrap(), "DIR").replace('"', "'"))
    };
    for (install, expected) in [
        (&["nvidia-cudnn-cu12==9.10.2.21"][..], None),
        (&["nvidia-cudnn-cu12>=9.8"], None),
        (&["nvidia-cudnn-cu12>=9.19"], Some("uv add --project DIR 'nvidia-cudnn-cu12>=9.19'")),
        (&["nvidia-cudnn-cu12>=9.8", "nvidia-cuda-nvrtc-cu12"], Some("uv add --project DIR nvidia-cuda-nvrtc-cu12")),
    ] {
        assert_eq!(kept("uv = 0.9.0\n", install).as_deref(), expected, "{install:?}");
    }
    assert_eq!(kept("home = /usr/bin\n", &["nvidia-cuda-nvrtc-cu12"]), None);
}
