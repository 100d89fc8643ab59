//! Tests environments that try to mislead, crash or delay the reader, and environments of any size.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::fmt::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cudnn_frameworks::{Depth, Environment, Repair, Survey, survey, survey_to};
use cudnn_probe::Host;
use support::{ExtensionLibrary, PythonEnvironment, TempDir};

const NAMES: Depth = Depth { kernels: false, unlisted: false, metadata: false };

fn read(root: &Path) -> Survey {
    let host = Host::sandbox(root.join("none"));
    let start = Instant::now();
    let found = survey(&Environment::at(root, &host), &host);
    let duration = start.elapsed();
    assert!(duration < Duration::from_secs(5), "{duration:?}");
    found
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn metadata_may_be_anything() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str); 9] = [
        ("a pipe", |file| fifo(file), "METADATA is a pipe"),
        ("a directory", |file| std::fs::create_dir(file).unwrap(), "METADATA is a directory"),
        (
            "a gigabyte",
            |file| std::fs::File::create(file).unwrap().set_len(1 << 30).unwrap(),
            "METADATA has 1073741824",
        ),
        ("binary", |file| std::fs::write(file, [0x7f, 0, 0xff]).unwrap(), "METADATA is not text"),
        ("nothing", |_| {}, "METADATA cannot be read: "),
        ("empty", |file| std::fs::write(file, "").unwrap(), "has metadata without a name"),
        ("a link to itself", |file| symlink(file, file).unwrap(), "METADATA cannot be read: "),
        ("a device", |file| symlink("/dev/zero", file).unwrap(), "METADATA is a pipe, a socket or a device"),
        ("invalid text", |file| std::fs::write(file, b"Name: \xff\xfe\nVersion: 1\n").unwrap(), "has a METADATA that"),
    ];
    for (name, make, expected) in cases {
        let world = TempDir::new();
        let venv = PythonEnvironment::venv(&world.path().join("venv"));
        let file = venv.package("torch", "2.9.1").info_dir().join("METADATA");
        std::fs::remove_file(&file).unwrap();
        make(&file);
        let found = read(venv.root());
        assert_eq!(found.frameworks[0].version, "2.9.1", "{name}");
        let reasons: Vec<&String> = found.unreadable.iter().map(|unreadable| &unreadable.reason).collect();
        assert!(reasons.len() == 1 && reasons[0].starts_with(expected), "{name}: {reasons:?}");
    }
}

#[test]
fn requirements_may_be_anything() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let mut text = String::from("Name: torch\nVersion: 2.9.1\n");
    let pairs: Vec<String> = (0..8).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
    for requirement in [
        format!("nvidia-a==1; {}", pairs.join(" or ")),
        format!("nvidia-b==1; {}os_name == 'x'", "(".repeat(16)),
        format!("nvidia-c=={}", "9".repeat(4000)),
        format!("nvidia-d[{}]", "x,".repeat(1500)),
        format!("nvidia-e=={}", "1.".repeat(1500)),
        "nvidia-\u{1b}[31m==1".into(),
        "nvidia-g[a-]==1".into(),
        "nvidia-h[-]".into(),
        "nvidia-f @ file:///dev/zero".into(),
    ] {
        let _ = writeln!(text, "Requires-Dist: {requirement}");
    }
    while text.len() < 1_000_000 {
        let _ = writeln!(text, "Requires-Dist: nvidia-x{}==1; python_version in '{}'", text.len(), text.len());
    }
    venv.package("torch", "2.9.1").info("METADATA", &text);
    let found = read(venv.root());
    assert!((4..=256).contains(&found.frameworks[0].pins.len()), "{}", found.frameworks[0].pins.len());
    let reasons: Vec<&str> = found.unreadable.iter().map(|unreadable| unreadable.reason.as_str()).collect();
    for start in ["nvidia-c==999", "nvidia-d[x,x", "nvidia-g[a-]==1: the requirement does not name a package"] {
        let expected = format!("has a requirement that was not compared: {start}");
        assert!(reasons.iter().any(|reason| reason.starts_with(&expected)), "{start}: {reasons:#?}");
    }
    assert!(reasons.iter().all(|reason| reason.len() < 300), "{reasons:#?}");
}

#[test]
fn names_may_be_anything() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let names = [
        "torch-2.9\u{1b}[31m.dist-info",
        "tor\nch-2.9.dist-info",
        "torch-\u{202e}2.9.dist-info",
        "-.dist-info",
        ".dist-info",
    ];
    for name in names {
        std::fs::create_dir(venv.import_dir().join(name)).unwrap();
    }
    symlink("loop", venv.import_dir().join("loop")).unwrap();
    symlink("loop-1.dist-info", venv.import_dir().join("loop-1.dist-info")).unwrap();
    symlink(".", venv.import_dir().join("nvidia_x-1.dist-info")).unwrap();
    let found = read(venv.root());
    assert!(found.frameworks.is_empty());
    assert!(found.unreadable.len() >= names.len(), "{:?}", found.unreadable);
}

#[test]
fn reports_are_bounded() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    for number in 0..1000 {
        std::fs::write(venv.import_dir().join(format!("nvidia_x{number}-1.dist-info")), "").unwrap();
    }
    let found = read(venv.root());
    assert!(found.is_truncated && found.unreadable.len() <= 64);
}

#[test]
fn path_files_may_be_anything() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let venv = venv.with_package("torch", "2.9.1");
    let venv = venv.with_pth("a.pth", &".\n".repeat(1_000_000)).with_pth("b.pth", &"below\n".repeat(100_000));
    fifo(&venv.import_dir().join("c.pth"));
    std::fs::create_dir(venv.import_dir().join("below")).unwrap();
    symlink("d", venv.import_dir().join("d")).unwrap();
    let venv = venv.with_pth("d.pth", "d\n\0\n\u{1b}[31m\n").with_pth("e.pth", &"x".repeat(100_000));
    let start = Instant::now();
    let environment = Environment::at(venv.root(), &Host::sandbox(world.path()));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(environment.import_dirs.len(), 2, "{:?}", environment.import_dirs);
    assert_eq!(read(venv.root()).frameworks.len(), 1);
    assert!(read(venv.root()).unreadable.len() >= 2);
}

#[test]
fn directories_may_be_closed() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv")).with_package("torch", "2.9.1");
    std::fs::set_permissions(venv.import_dir(), std::fs::Permissions::from_mode(0o0)).unwrap();
    let is_closed = std::fs::read_dir(venv.import_dir()).is_err();
    let found = read(venv.root());
    std::fs::set_permissions(venv.import_dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Root can read everything.
    assert_eq!(found.unreadable.len(), usize::from(is_closed), "{:?}", found.unreadable);
    // An unreadable directory must not count as damage.
    let package = venv.package("torch", "2.9.1");
    package.library("torch/lib/libtorch_cuda.so", &ExtensionLibrary::new().needing("libcudnn.so.9"));
    let lib = venv.import_dir().join("torch/lib");
    std::fs::set_permissions(&lib, std::fs::Permissions::from_mode(0o0)).unwrap();
    let found = read(venv.root());
    std::fs::set_permissions(&lib, std::fs::Permissions::from_mode(0o755)).unwrap();
    let closed: Vec<_> = found.unreadable.iter().filter(|one| one.repair == Some(Repair::Allow)).collect();
    assert_eq!(closed.len(), usize::from(is_closed), "{:?}", found.unreadable);
    assert!(closed.iter().all(|one| one.path == lib && one.reason.contains("Permission denied")), "{closed:?}");
}

/// `jax-cuda12-pjrt` contains the library of `jax-cuda12-plugin`.
#[test]
fn a_part_of_a_framework_is_not_listed_as_another_package() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let library = ExtensionLibrary::new().needing("libcudnn.so.9");
    venv.package("jax-cuda12-plugin", "0.12.0.1");
    venv.package("jax-cuda12-pjrt", "0.12.0.1").library("jax_plugins/xla_cuda12/xla_cuda_plugin.so", &library);
    let found = read(venv.root());
    assert!(found.frameworks.len() == 1 && found.unlisted.is_empty(), "{:?}", found.unlisted);
}

#[test]
fn a_large_library_does_not_hide_the_others() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let library = ExtensionLibrary::new().needing("libcudart.so.12").with_text("libcudnn.so.9");
    let large = library.clone().with_padding((256 << 20) + 1);
    venv.package("a-large-one", "1.0").library("large/_C.so", &large);
    venv.package("another", "1.0").library("another/_C.so", &library);
    let found = read(venv.root());
    let names: Vec<&str> = found.unlisted.iter().map(|unlisted| unlisted.distribution.name.as_str()).collect();
    assert_eq!((names, found.is_truncated), (vec!["another"], false));
    assert_eq!(found.unsearched, [venv.import_dir().join("large/_C.so")]);
}

/// The package's record names the extension library. Entries that lead outside or name other files are harmless.
#[test]
fn libraries_that_use_cudnn_are_found() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let linked = ExtensionLibrary::new().needing("libcudnn.so.9");
    let named = ExtensionLibrary::new().needing("libcudart.so.12").with_padding(3 << 20).with_text("libcudnn.so.8");
    let with_gpu_code = ExtensionLibrary::new().with_gpu_code(1, &["9.0"]).with_text("xlibcudnn.so");
    venv.package("linked", "1.0").library("linked/_C.so", &linked);
    venv.package("named", "1.0").library("named/_C.cpython-312-x86_64-linux-gnu.so", &named);
    venv.package("with-gpu-code", "1.0").library("with_gpu_code/_C.so", &with_gpu_code);
    venv.package("only-a-path", "1.0").library("a/_C.so", &ExtensionLibrary::new().with_runpath("$ORIGIN/libcudnn"));
    venv.package("only-cuda", "1.0").library("b/_C.so", &ExtensionLibrary::new().needing("libcudart.so.12"));
    venv.package("nvidia-cudnn-frontend", "1.0").library("cudnn/_C.so", &linked);
    let hostile = venv.package("hostile", "1.0").file("hostile/text.so", "libcudnn").file("hostile/empty.so", "");
    fifo(&venv.import_dir().join("hostile/pipe.so"));
    symlink("loop.so", venv.import_dir().join("hostile/loop.so")).unwrap();
    linked.build(&world.path().join("outside.so"));
    let record =
        "hostile/pipe.so,,\nhostile/loop.so,,\nhostile/none.so,,\n../../../../outside.so,,\nhostile/text.so,,\n";
    hostile.info("RECORD", record);
    let found = read(venv.root());
    let names: Vec<&str> = found.unlisted.iter().map(|unlisted| unlisted.distribution.name.as_str()).collect();
    assert_eq!(names, ["linked", "named", "with-gpu-code"]);
    let [linked, named, _] = &found.unlisted[..] else { unreachable!() };
    assert_eq!(linked.opens.name.as_deref(), Some("libcudnn.so.9"));
    assert_eq!(linked.opens.missing, ["libcudnn.so.9"]);
    assert_eq!(linked.opens.users, [venv.import_dir().join("linked/_C.so")]);
    assert!(named.opens.is_optional && named.opens.users.len() == 1);
}

/// The time limits allow for a debug build on a busy machine.
#[test]
fn environments_may_have_thousands_of_packages() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    for number in 0..5000 {
        let info_dir = venv.import_dir().join(format!("package_{number}-1.{number}.dist-info"));
        std::fs::create_dir(info_dir).unwrap();
    }
    venv.package("torch", "2.9.1").requires("nvidia-cudnn-cu12==9.10.2.21");
    let host = Host::sandbox(world.path());
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let start = Instant::now();
        let found = survey_to(&Environment::at(venv.root(), &host), &host, NAMES);
        best = best.min(start.elapsed());
        assert!(found.frameworks.len() == 1 && !found.is_truncated && found.unreadable.is_empty());
    }
    println!("5000 packages: {best:?}");
    assert!(best < Duration::from_secs(3), "{best:?}");
}

#[test]
fn environments_may_have_thousands_of_libraries() {
    let world = TempDir::new();
    let venv = PythonEnvironment::venv(&world.path().join("venv"));
    let library = ExtensionLibrary::new().needing("libc.so.6").with_padding(4_000);
    for number in 0..300 {
        let mut package = venv.package(&format!("package-{number}"), "1.0");
        for part in 0..7 {
            package = package.library(&format!("package_{number}/part{part}.so"), &library);
        }
    }
    let host = Host::sandbox(world.path());
    let (mut all, mut known) = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let start = Instant::now();
        let environment = Environment::at(venv.root(), &host);
        assert!(survey_to(&environment, &host, NAMES).frameworks.is_empty());
        known = known.min(start.elapsed());
        let start = Instant::now();
        let found = survey(&environment, &host);
        all = all.min(start.elapsed());
        assert!(found.unlisted.is_empty() && !found.is_truncated);
    }
    println!("300 packages: {known:?}, with 2100 libraries {all:?}");
    assert!(all < Duration::from_secs(4), "{all:?}");
}
