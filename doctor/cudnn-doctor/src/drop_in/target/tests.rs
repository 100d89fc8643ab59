use cudnn_probe::Host;
use support::{TempDir, Version, copy_fake_set};

use super::*;

/// `install` refuses a directory owned by the system's package manager.
#[test]
fn a_directory_of_the_system_is_not_recommended() {
    let (root, environment) = (TempDir::new(), TempDir::new());
    let dir = root.path().join("usr/lib/x86_64-linux-gnu");
    let info = root.path().join("var/lib/dpkg/info");
    for dir in [&dir, &info] {
        std::fs::create_dir_all(dir).unwrap_or_default();
    }
    copy_fake_set(Version::new(9, 19, 0), &dir);
    let context = || Context::from_host(Host::sandbox(root.path()).env("LD_LIBRARY_PATH", &dir));
    let refusal = || nothing(environment.path(), DropInCommand::Install { from: None }, &context()).to_string();
    assert!(refusal().contains("to use that directory:"), "{}", refusal());
    let list = "/usr/lib/x86_64-linux-gnu/libcudnn_graph.so.9\n";
    std::fs::write(info.join("libcudnn9-cuda-12.list"), list).unwrap_or_default();
    assert!(refusal().contains(" run -- PROGRAM`") && !refusal().contains("to use that directory:"), "{}", refusal());
}
