use cudnn_probe::Host;

use super::*;
use crate::plan::advice_of;
use crate::shell::quoted_path;

fn commands(remedy: &Remedy) -> String {
    let commands = advice_of(remedy).commands.into_iter().filter(|line| !line.ends_with(" update"));
    commands.collect::<Vec<_>>().join("\n").replace("sudo ", "")
}

#[test]
fn a_leftover_next_to_a_system_package_is_removed() {
    use support::{FakeLibrary, TempDir};
    let root = TempDir::new();
    let dir = root.path().join("usr/lib/x86_64-linux-gnu");
    let info = root.path().join("var/lib/dpkg/info");
    for dir in [&dir, &info] {
        std::fs::create_dir_all(dir).unwrap_or_default();
    }
    let mut list = String::new();
    for library in [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled] {
        let name = library.file_name();
        let file = dir.join(format!("{name}.19.0"));
        FakeLibrary::new(library, support::Version::new(9, 19, 0)).build(&file);
        cudnn_os::files::symlink(&file, &dir.join(name)).unwrap_or_default();
        list += &format!("/usr/lib/x86_64-linux-gnu/{name}\n/usr/lib/x86_64-linux-gnu/{name}.19.0\n");
    }
    std::fs::write(info.join("libcudnn9-jit-cuda-12.list"), list).unwrap_or_default();
    let host = Host::sandbox(root.path());
    let help =
        || InstallationReport::read(&dir, &host).map(|report| reinstall(&report)).unwrap_or_else(|| Remedy::new(""));
    assert_eq!(commands(&help()), "apt-get install -y --reinstall libcudnn9-jit-cuda-12");
    // ldconfig prefers this copy because the version is higher than the package's.
    let file = dir.join("libcudnn_graph.so.9.28.0");
    FakeLibrary::new(Library::Graph, support::Version::new(9, 28, 0)).build(&file);
    let link = dir.join("libcudnn_graph.so.9");
    std::fs::remove_file(&link).unwrap_or_default();
    cudnn_os::files::symlink(&file, &link).unwrap_or_default();
    let help = help();
    assert!(help.text.contains("libcudnn_graph.so.9.28.0, left over"), "{help:?}");
    let expected = format!("rm {}\nldconfig", quoted_path(&dir.join("libcudnn_graph.so.9.28.0")));
    assert_eq!(commands(&help), expected);
}
