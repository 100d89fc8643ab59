//! Checks the probe's report about an installation: version, CUDA, variant, package, missing and conflicting files.

use std::path::Path;

use cudnn_frameworks::installation::{
    InstallationReport, Installer, Variant, deleted_packages, deleted_system_packages, inventory,
};
use cudnn_probe::{Host, Library, Os, Search, Version, missing_symbols};
use support::{FakeLibrary, TempDir, lib_dir};

const VERSION: Version = Version::new(9, 19, 0);

fn report(dir: &Path) -> InstallationReport {
    InstallationReport::read(dir, &Host::sandbox("/nowhere")).expect("the directory must contain a cuDNN")
}

fn fake_libraries(dir: &Path, libraries: &[Library]) {
    std::fs::create_dir_all(dir).unwrap();
    for library in libraries {
        FakeLibrary::new(*library, VERSION).build(&dir.join(library.file_name()));
    }
}

fn all() -> Vec<Library> {
    let later = [Library::Ext, Library::EnginesTensorIr];
    Library::ALL.iter().copied().filter(|library| !later.contains(library)).collect()
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, text).unwrap();
}

#[test]
fn a_real_jit_wheel_is_reported_in_full() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let report = report(&dir);
    assert_eq!((report.major, report.version), (9, Some(VERSION)));
    assert_eq!(report.cuda().as_deref(), Some("12.9"));
    assert_eq!(report.variant, Variant::JitOnly);
    assert_eq!(report.missing, []);
    assert_eq!(report.conflicts().len(), 0);
    let package = report.package.as_ref().unwrap();
    assert_eq!(
        (package.installer, package.to_string().as_str()),
        (Installer::Pip, "pip nvidia-cudnn-jit-cu12 9.19.0.56")
    );
    let evidence: Vec<String> = report.evidence.iter().map(|one| format!("{}: {}", one.value, one.source)).collect();
    for fragment in ["cuDNN 9.19.0: cudnn_graph_version in", "CUDA 12.9: GPU code in", "include/cudnn_version.h"] {
        assert!(evidence.iter().any(|text| text.contains(fragment)), "{fragment}: {evidence:#?}");
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn real_full_releases_are_complete() {
    for release in support::full_releases() {
        let id = release.id;
        let Some(dir) = lib_dir(id) else { return };
        let report = report(&dir);
        assert_eq!((report.variant, report.missing.as_slice()), (Variant::Full, &[][..]), "{id}");
        let major = release.line().and_then(|line| line.strip_prefix("cu")).unwrap();
        assert!(report.cuda().is_some_and(|cuda| cuda.starts_with(&format!("{major}."))), "{id}: {:?}", report.cuda());
        assert_eq!(report.conflicts().len(), 0, "{id}");
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn real_libraries_need_symbols_of_their_own_release() {
    let ids: Vec<&str> =
        support::full_releases().map(|release| release.id).chain(["jit-cu12-9.19.0", "jit-cu13-9.27.0"]).collect();
    let dirs: Vec<_> = ids.iter().filter_map(|id| lib_dir(id)).collect();
    let missing = |library: Library, of: &Path, beside: &Path| {
        let needs = library.dependencies().iter().map(|other| beside.join(other.file_name())).collect::<Vec<_>>();
        missing_symbols(&of.join(library.file_name()), &needs).ok().map(|missing| missing.len())
    };
    for (id, dir) in ids.iter().zip(&dirs) {
        let report = report(dir);
        for part in &report.libraries {
            assert_eq!(part.missing_symbols, [""; 0], "{id} {}", part.library);
        }
        for (other_id, other) in ids.iter().zip(&dirs) {
            let is_same = |id: &str| id.rsplit('-').next().map(str::to_owned);
            if is_same(id) == is_same(other_id) {
                // The symbols are the same for every CUDA major version.
                let all = Library::ALL.iter().filter_map(|library| missing(*library, other, dir));
                assert!(all.clone().count() > 2 && all.sum::<usize>() == 0, "{id} {other_id}");
                continue;
            }
            for library in [Library::Heuristic, Library::EnginesPrecompiled, Library::EnginesRuntimeCompiled] {
                // Engines of close releases may fit (9.28.0 in 9.26.1), but their sizes differ from the wheel's record.
                let fits = support::version(id).minor.abs_diff(support::version(other_id).minor) < 5;
                let missing = missing(library, other, dir);
                assert!(missing.is_none_or(|missing| fits || (1..100).contains(&missing)), "{id} {other_id} {library}");
            }
        }
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn the_doctor_reports_real_engines_of_another_release() {
    let [Some(release), Some(other), Some(jit)] = ["cu12-9.28.0", "cu12-9.10.2", "jit-cu13-9.27.0"].map(lib_dir) else {
        return;
    };
    let mixed = TempDir::links_to(&release);
    let engine = other.join(Library::EnginesPrecompiled.file_name());
    std::os::unix::fs::symlink(engine, mixed.cleared(Library::EnginesPrecompiled)).unwrap();
    for (dir, options, count) in
        [(release.as_path(), &[][..], 0), (jit.as_path(), &["--verify"], 0), (mixed.path(), &[], 1)]
    {
        let output = std::process::Command::new(support::doctor())
            .args(["check", "--json", "--no-load"])
            .args(options)
            .env_clear()
            .env("CUDNN_LOADER_DIR", dir)
            .output()
            .unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout);
        let found = |code: &str| stdout.matches(&format!("\"code\": \"{code}\"")).count();
        assert_eq!((found("C014"), found("C024")), (count, 0), "{stdout}");
    }
}

#[test]
#[ignore = "downloads cuDNN for Windows"]
fn a_real_release_for_windows_is_reported_in_full() {
    let Some(dir) = lib_dir("windows-cu13") else { return };
    let report = report(&dir);
    let version = support::version("windows-cu13");
    assert_eq!((report.os, report.version, report.variant), (Os::Windows, Some(version), Variant::Full));
    assert!(report.cuda().is_some_and(|cuda| cuda.starts_with("13.")), "{:?}", report.cuda());
    assert_eq!(report.conflicts().len(), 0, "{:?}", report.conflicts());
    let package = report.package.as_ref().map(ToString::to_string);
    let pinned = cudnn_fetch::release("windows-cu13").unwrap();
    assert_eq!(package, Some(format!("pip {} {}", pinned.package, pinned.version)));
    for library in &report.libraries {
        let recorded = library.recorded.first().map(|recorded| recorded.len);
        assert_eq!(recorded, std::fs::metadata(&library.path).ok().map(|file| file.len()), "{}", library.library);
    }
    // If graph does not export symbols that the others need, it belongs to a different release.
    let mixed = TempDir::new();
    for library in Library::ALL.iter().filter(|library| **library != Library::Graph) {
        std::os::unix::fs::symlink(dir.join(library.windows_name()), mixed.path().join(library.windows_name()))
            .unwrap();
    }
    let graph = mixed.path().join(Library::Graph.windows_name());
    let number = version.major << 16 | version.minor << 8 | version.patch;
    let exports = format!("int cudnn_graph_version __attribute__((section(\".data\"))) = {number};\n");
    if std::process::Command::new("x86_64-w64-mingw32-gcc").arg("--version").output().is_ok() {
        support::windows::compile(&exports, &["-shared", "-nostdlib", "-w", "-Wl,-e,0"], &graph);
        let report = self::report(mixed.path());
        let ops = report.conflicts().into_iter().find(|(library, _)| library.library == Library::Ops);
        assert!(ops.is_some_and(|(_, error)| error.to_string().contains("from a different release")), "{report:#?}");
    }
}

#[test]
fn a_library_that_needs_missing_symbols_is_a_conflict() {
    let dir = TempDir::new();
    fake_libraries(dir.path(), &all());
    FakeLibrary::new(Library::Heuristic, VERSION)
        .with_undefined("cudnn_of_another_release")
        .build(&dir.file(Library::Heuristic));
    FakeLibrary::new(Library::EnginesPrecompiled, VERSION)
        .with_undefined("of_another_vendor")
        .with_code("extern int cudnn_optional(void) __attribute__((weak)); int use(void) { return cudnn_optional(); }")
        .build(&dir.file(Library::EnginesPrecompiled));
    let conflicts = |dir: &TempDir| -> Vec<String> {
        report(dir.path()).conflicts().iter().map(|(part, error)| format!("{} {error}", part.library)).collect()
    };
    let expected = "libcudnn_heuristic.so.9 is from a different release than the libraries next to it, which lack 1 \
                    of the symbols that it needs, such as \"cudnn_of_another_release\"";
    assert_eq!(conflicts(&dir), [expected]);
    // A symbol of ops that cnn may need, but engines may not.
    let code = "int cudnn_of_another_release(void) { return 0; }";
    FakeLibrary::new(Library::Ops, VERSION).with_code(code).build(&dir.file(Library::Ops));
    FakeLibrary::new(Library::Cnn, VERSION).with_undefined("cudnn_of_another_release").build(&dir.file(Library::Cnn));
    assert_eq!(conflicts(&dir), [expected]);
    FakeLibrary::new(Library::Graph, VERSION).with_code(code).build(&dir.file(Library::Graph));
    assert_eq!(conflicts(&dir), [""; 0]);
}

#[test]
fn the_record_of_a_wheel_gives_the_size_and_the_hash_of_each_library() {
    let world = TempDir::new();
    let site_packages = world.path().join("lib/python3.12/site-packages");
    let dir = site_packages.join("nvidia/cudnn/lib");
    fake_libraries(&dir, &[Library::Graph, Library::Ops]);
    let record = |name: &str, text: &str| write(&site_packages.join(format!("{name}.dist-info/RECORD")), text);
    record(
        "nvidia_cudnn_cu12-9.19.0.56",
        "nvidia/cudnn/lib/libcudnn_graph.so.9,sha256=abc-_,123\nnvidia/cudnn/lib/libcudnn_ops.so.9,,\n",
    );
    record("nvidia_cudnn_cu13-9.28.0.42", "nvidia/cudnn/lib/libcudnn_graph.so.9,,456\n");
    let report = report(&dir);
    let recorded = |library| -> Vec<_> {
        let recorded = report.library(library).unwrap().recorded.iter();
        recorded.map(|one| (one.package.to_string(), one.len, one.sha256.as_deref())).collect()
    };
    let of = |name: &str| format!("pip nvidia-cudnn-{name}");
    assert_eq!(
        recorded(Library::Graph),
        [(of("cu12 9.19.0.56"), 123, Some("abc-_")), (of("cu13 9.28.0.42"), 456, None)]
    );
    assert_eq!(recorded(Library::Ops), []);
}

#[test]
fn an_incomplete_set_is_partial_and_the_missing_libraries_are_named() {
    let dir = TempDir::new();
    fake_libraries(dir.path(), &[Library::Shim, Library::Graph, Library::Ops]);
    let report = report(dir.path());
    assert_eq!(report.variant, Variant::Partial);
    let missing: Vec<&str> = report.missing.iter().map(|library| library.file_name()).collect();
    assert_eq!(
        missing,
        [
            "libcudnn_cnn.so.9",
            "libcudnn_adv.so.9",
            "libcudnn_heuristic.so.9",
            "libcudnn_engines_precompiled.so.9",
            "libcudnn_engines_runtime_compiled.so.9"
        ]
    );
}

#[test]
fn libraries_of_two_releases_or_cuda_majors_are_a_conflict() {
    let dir = TempDir::new();
    fake_libraries(dir.path(), &all());
    FakeLibrary::new(Library::Ops, Version::new(9, 10, 2)).build(&dir.file(Library::Ops));
    FakeLibrary::new(Library::Cnn, VERSION).with_ptx(8).build(&dir.file(Library::Cnn));
    FakeLibrary::new(Library::Adv, VERSION).with_ptx(9).build(&dir.file(Library::Adv));
    let report = report(dir.path());
    assert_eq!(report.variant, Variant::Full);
    let text: Vec<String> =
        report.conflicts().iter().map(|(part, refusal)| format!("{} {refusal}", part.library)).collect();
    assert_eq!(
        text,
        [
            "libcudnn_ops.so.9 is cuDNN 9.10.2, but the libcudnn_graph.so.9 next to it is 9.19.0",
            "libcudnn_adv.so.9 is built for CUDA 13, but the libraries next to it are for CUDA 12"
        ]
    );
}

#[test]
fn the_records_of_all_package_managers_are_read() {
    let world = TempDir::new();
    let root = world.path();
    let environment = Host::sandbox(root);
    let package =
        |dir: &Path| InstallationReport::read(dir, &environment).unwrap().package.map(|package| package.to_string());
    let libraries = [Library::Graph];

    let conda = root.join("conda");
    fake_libraries(&conda.join("lib"), &libraries);
    write(
        &conda.join("conda-meta/libcudnn-9.19.0.56-h1234.json"),
        "{\"name\": \"libcudnn\", \"files\": [\"lib/libcudnn_graph.so.9\"]}",
    );
    write(&conda.join("conda-meta/cuda-version-12.9-0.json"), "{}");
    assert_eq!(package(&conda.join("lib")).as_deref(), Some("conda libcudnn 9.19.0.56"));

    let debian = root.join("usr/lib/x86_64-linux-gnu");
    fake_libraries(&debian, &libraries);
    let info = root.join("var/lib/dpkg/info");
    write(&info.join("libcudnn9-cuda-13.list"), "/.\n/usr\n/usr/lib/x86_64-linux-gnu/libcudnn_graph.so.9\n");
    write(&info.join("libcudnn9-dev-cuda-13.list"), "/usr/include/cudnn.h\n");
    write(
        &root.join("var/lib/dpkg/status"),
        "Package: libcudnn9-dev-cuda-13\nVersion: 1\n\nPackage: libcudnn9-cuda-13\nStatus: ok\nVersion: 9.19.0.56-1\n",
    );
    assert_eq!(package(&debian).as_deref(), Some("dpkg libcudnn9-cuda-13 9.19.0.56-1"));
    let is_held = || InstallationReport::read(&debian, &environment).unwrap().package.unwrap().is_held;
    assert!(!is_held());
    write(
        &root.join("var/lib/dpkg/status"),
        "Package: libcudnn9-cuda-13\nStatus: hold ok installed\nVersion: 9.19.0.56-1\n",
    );
    assert!(is_held());

    let archive = root.join("opt/cudnn-linux-x86_64-9.19.0.56_cuda12-archive/lib");
    fake_libraries(&archive, &libraries);
    let expected = "archive cudnn-linux-x86_64-9.19.0.56_cuda12-archive 9.19.0.56";
    assert_eq!(package(&archive).as_deref(), Some(expected));

    let toolkit = root.join("usr/local/cuda-12.9");
    fake_libraries(&toolkit.join("lib64"), &libraries);
    write(&toolkit.join("version.json"), "{}");
    write(&toolkit.join("lib64/libcudart.so.12"), "");
    assert_eq!(package(&toolkit.join("lib64")).as_deref(), Some("CUDA toolkit directory cuda-12.9"));

    let bundle = root.join("opt/application/lib");
    fake_libraries(&bundle, &libraries);
    assert_eq!(package(&bundle), None);
    write(&root.join("opt/application/README"), "");
    let program = root.join("opt/application/koharu");
    let absolute = format!("-Wl,-rpath,{}", bundle.display());
    // A program that is built in a directory above the libraries is not their package.
    for (flags, expected) in [
        (&[][..], None),
        (&[absolute.as_str()], None),
        (&["-Wl,-rpath,$ORIGIN/other"], None),
        (&["-Wl,-rpath,/opt/other:$ORIGIN/lib"], Some("application koharu")),
    ] {
        support::compile("int main(void) { return 0; }", flags, &program);
        assert_eq!(package(&bundle).as_deref(), expected, "{flags:?}");
    }

    let framework = root.join("venv/lib/python3.12/site-packages/torch/lib");
    fake_libraries(&framework, &libraries);
    let records = root.join("venv/lib/python3.12/site-packages");
    write(&records.join("torch-2.2.0.dist-info/RECORD"), "torch/lib/libcudnn_graph.so.9,sha256=x,1\n");
    assert_eq!(package(&framework).as_deref(), Some("pip torch 2.2.0"));
}

#[test]
fn the_rpm_database_is_read_in_every_format() {
    let world = TempDir::new();
    let root = world.path();
    let environment = Host::sandbox(root);
    let dir = root.join("usr/lib64");
    fake_libraries(&dir, &[Library::Graph]);
    let package = || InstallationReport::read(&dir, &environment).unwrap().package.map(|package| package.to_string());
    assert_eq!(package(), None);
    let database = root.join("var/lib/rpm/rpmdb.sqlite");
    // The strings of an rpm header start like this, but other places also contain the package name.
    let others = "libcudnn9-cuda-12 = 9.19.0.56-1|C|libcudnn9-devel-cuda-12|9.19.0.56|1|cuDNN development|";
    let with_zeros = |text: &str| text.replace('|', "\0");
    write(&database, &with_zeros(others));
    assert_eq!(package(), None);
    let record = format!("{others}C|libcudnn9-cuda-12|9.19.0.56|1|cuDNN runtime|{}", "x".repeat(200));
    write(&database, &with_zeros(&record));
    assert_eq!(package().as_deref(), Some("rpm libcudnn9-cuda-12 9.19.0.56-1"));
}

/// With arbitrary directory contents, the inventory finishes and lists the intact installations.
#[test]
fn an_inventory_survives_strange_directories_and_files() {
    use std::os::unix::ffi::OsStringExt;
    let world = TempDir::new();
    let root = world.path();
    let named = |name: &[u8]| root.join("named").join(std::ffi::OsString::from_vec(name.to_vec()));
    let good = [named(b"new\nline"), named(b"no \xff\xfe utf-8"), named(b"\x1b[31mred"), named(b"a:b;c $ORIGIN")];
    for dir in &good {
        fake_libraries(dir, &[Library::Graph]);
    }
    let pipe = root.join("pipe");
    std::fs::create_dir(&pipe).unwrap();
    let file = pipe.join("libcudnn_graph.so.9");
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.is_ok_and(|status| status.success()));
    let huge = root.join("huge");
    std::fs::create_dir(&huge).unwrap();
    std::fs::File::create(huge.join("libcudnn_graph.so.9")).unwrap().set_len(1 << 40).unwrap();
    let around = root.join("around");
    std::fs::create_dir(&around).unwrap();
    std::os::unix::fs::symlink("libcudnn_graph.so.9", around.join("libcudnn_graph.so.9")).unwrap();
    std::os::unix::fs::symlink(".", around.join("lib")).unwrap();
    let closed = root.join("closed");
    fake_libraries(&closed, &[Library::Graph]);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o000)).unwrap();

    let environment = Host::sandbox(root.join("world"));
    let mut roots = good.to_vec();
    roots.extend([pipe, huge, around, closed.clone(), root.join("nowhere")]);
    let found = inventory(&Search::new(environment.clone()), &environment, &roots);
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o755)).unwrap();
    let usable: Vec<&Path> = found
        .iter()
        .filter(|one| one.report.version == Some(Version::new(9, 19, 0)))
        .map(|one| one.report.dir.as_path())
        .collect();
    for dir in &good {
        assert!(usable.contains(&dir.as_path()), "{dir:?}: {found:#?}");
    }
    for one in &found {
        let broken = |name: &str| one.report.dir.ends_with(name);
        if broken("pipe") || broken("huge") || broken("around") {
            assert!(one.report.libraries.iter().all(|part| part.identity.is_err()), "{one:#?}");
        }
    }
}

#[test]
fn an_older_cudnn_is_recognized_by_its_major_version() {
    let dir = TempDir::new();
    std::fs::write(dir.path().join("libcudnn.so.8.9.7"), "").unwrap();
    std::os::unix::fs::symlink("libcudnn.so.8.9.7", dir.path().join("libcudnn.so.8")).unwrap();
    let report = report(dir.path());
    assert_eq!((report.major, report.version), (8, Some(Version::new(8, 9, 7))));
    assert!(InstallationReport::read(Path::new("/etc"), &Host::sandbox("/nowhere")).is_none());
}

#[test]
fn an_installation_is_listed_once_with_every_origin() {
    let world = TempDir::new();
    let root = world.path();
    fake_libraries(&root.join("real"), &[Library::Graph]);
    std::os::unix::fs::symlink(root.join("real"), root.join("link")).unwrap();
    std::fs::create_dir(root.join("tree")).unwrap();
    std::os::unix::fs::symlink(root.join("real"), root.join("tree/lib")).unwrap();
    let path = format!("{0}/real:{0}/link:{0}/real/../real", root.display());
    let environment = Host::sandbox(root.join("world")).env("LD_LIBRARY_PATH", path);
    let found = inventory(&Search::new(environment.clone()), &environment, &[root.join("tree")]);
    let [one] = found.as_slice() else { panic!("{found:#?}") };
    let ways: Vec<String> =
        one.found_via.iter().map(|way| way.dir.strip_prefix(root).unwrap().display().to_string()).collect();
    assert_eq!(ways, ["real", "link", "real/../real", "tree/lib"]);
}

#[test]
fn all_packages_that_own_a_directory_are_reported() {
    let env = TempDir::new();
    let packages = env.path().join("lib/python3.12/site-packages");
    fake_libraries(&packages.join("nvidia/cudnn/lib"), &[Library::Graph]);
    for record in ["nvidia_cudnn_cu12-9.10.2.21", "nvidia_cudnn_cu13-9.19.0.56", "torch-2.2.0"] {
        let lists =
            if record.starts_with("torch") { "torch/lib/libtorch.so" } else { "nvidia/cudnn/lib/libcudnn_graph.so.9" };
        write(&packages.join(format!("{record}.dist-info/RECORD")), &format!("{lists},sha256=x,1\n"));
    }
    let report = report(&packages.join("nvidia/cudnn/lib"));
    let names: Vec<String> = report.package.iter().chain(&report.other_packages).map(ToString::to_string).collect();
    assert_eq!(names, ["pip nvidia-cudnn-cu12 9.10.2.21", "pip nvidia-cudnn-cu13 9.19.0.56"]);
}

#[test]
fn a_library_for_another_cuda_version_is_a_conflict() {
    for foreign in [Library::Ops, Library::Adv] {
        let dir = TempDir::new();
        fake_libraries(dir.path(), &all());
        for library in [Library::Ops, Library::Cnn, Library::Adv] {
            let ptx = if library == foreign { 9 } else { 8 };
            FakeLibrary::new(library, VERSION).with_ptx(ptx).build(&dir.file(library));
        }
        let report = report(dir.path());
        assert_eq!(report.cuda_major, Some(12));
        let conflicts: Vec<Library> = report.conflicts().iter().map(|(report, _)| report.library).collect();
        assert_eq!(conflicts, [foreign]);
    }
}

/// NVIDIA's run paths from 9.17.
const RUN_PATH_12: &str = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib";
const RUN_PATH_13: &str = "$ORIGIN:$ORIGIN/../../cublas/lib:$ORIGIN/../../cuda_nvrtc/lib:$ORIGIN/../../cu13/lib";

/// Graph contains no GPU code, so the run path indicates the CUDA version.
#[test]
fn a_graph_for_another_cuda_major_is_a_conflict() {
    for (run_path, ptx, expected) in [
        (RUN_PATH_13, 8, Some("is built for CUDA 13, but the libraries next to it are for CUDA 12")),
        (RUN_PATH_12, 9, Some("is built for CUDA 12, but the libraries next to it are for CUDA 13")),
        (RUN_PATH_12, 8, None),
        (RUN_PATH_13, 9, None),
        ("$ORIGIN", 9, None),
    ] {
        let dir = TempDir::new();
        for library in all() {
            FakeLibrary::new(library, VERSION).with_ptx(ptx).build(&dir.file(library));
        }
        let graph = FakeLibrary::new(Library::Graph, VERSION).with_run_path(run_path);
        graph.build(&dir.cleared(Library::Graph));
        let report = report(dir.path());
        assert_eq!(report.cuda_major, Some(u32::from(ptx) + 4), "{run_path}");
        let conflicts: Vec<(Library, String)> =
            report.conflicts().iter().map(|(part, error)| (part.library, error.to_string())).collect();
        let expected: Vec<_> = expected.map(|text| (Library::Graph, text.to_owned())).into_iter().collect();
        assert_eq!(conflicts, expected, "{run_path} {ptx}");
    }
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn a_real_graph_for_another_cuda_major_is_a_conflict() {
    let [Some(cu12), Some(cu13)] = ["cu12-9.28.0", "cu13-9.28.0"].map(lib_dir) else { return };
    for (of, graph) in [(&cu12, &cu13), (&cu13, &cu12)] {
        let mixed = TempDir::links_to(of);
        // A copy, because a link would lead to the wheel's record.
        std::fs::copy(graph.join(Library::Graph.file_name()), mixed.cleared(Library::Graph)).unwrap();
        let report = report(mixed.path());
        let conflicts: Vec<Library> = report.conflicts().iter().map(|(part, _)| part.library).collect();
        assert_eq!(conflicts, [Library::Graph], "{report:#?}");
    }
}

/// Symbols that are hidden by a damaged table must not suggest a different release.
#[test]
fn a_damaged_symbol_table_is_not_reported_as_another_release() {
    let dir = TempDir::new();
    fake_libraries(dir.path(), &all());
    let code = "int cudnn_of_this_release(void) { return 0; }";
    FakeLibrary::new(Library::Graph, VERSION).with_code(code).build(&dir.cleared(Library::Graph));
    let engine = FakeLibrary::new(Library::Heuristic, VERSION).with_undefined("cudnn_of_this_release");
    engine.build(&dir.cleared(Library::Heuristic));
    assert!(report(dir.path()).conflicts().is_empty());
    let file = dir.file(Library::Graph);
    let mut bytes = std::fs::read(&file).unwrap();
    let name = b"cudnn_of_this_release";
    let places: Vec<usize> = (0..bytes.len() - name.len()).filter(|at| bytes[*at..].starts_with(name)).collect();
    for at in places {
        bytes[at + 10] = b'X';
    }
    std::fs::write(&file, bytes).unwrap();
    let report = report(dir.path());
    assert!(report.conflicts().is_empty(), "{:?}", report.conflicts());
    let error = report.library(Library::Graph).unwrap().identity.as_ref().unwrap_err().to_string();
    assert!(error.contains("is damaged: the symbol table"), "{error}");
}

/// The records of conda and Debian list the deleted libraries.
#[test]
fn a_jit_only_set_with_the_record_of_a_full_cudnn_is_partial() {
    let jit = [Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled];
    let world = TempDir::new();
    let root = world.path();
    for (dir, record, text) in [
        (
            "env/lib",
            "env/conda-meta/libcudnn-9.19.0.56-h1.json",
            r#"{"files": ["lib/libcudnn_graph.so.9", "lib/libcudnn_ops.so.9"]}"#,
        ),
        (
            "usr/lib",
            "var/lib/dpkg/info/libcudnn9-cuda-12.list",
            "/usr/lib/libcudnn_graph.so.9\n/usr/lib/libcudnn_cnn.so.9\n",
        ),
    ] {
        let dir = root.join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        fake_libraries(&dir, &jit);
        let variant = || InstallationReport::read(&dir, &Host::sandbox(root)).unwrap().variant;
        assert_eq!(variant(), Variant::JitOnly);
        write(&root.join(record), text);
        assert_eq!(variant(), Variant::Partial, "{record}");
    }
}

/// Programs are linked to the shim. Without it, a JIT-only set is incomplete, however it was installed.
#[test]
fn a_jit_only_set_without_its_shim_is_partial() {
    let dir = TempDir::new();
    fake_libraries(dir.path(), &[Library::Shim, Library::Graph, Library::EnginesRuntimeCompiled]);
    assert_eq!((report(dir.path()).variant, report(dir.path()).missing), (Variant::JitOnly, vec![]));
    let _ = dir.cleared(Library::Shim);
    assert_eq!((report(dir.path()).variant, report(dir.path()).missing), (Variant::Partial, vec![Library::Shim]));
}

#[test]
fn a_package_of_cudnn_without_its_main_library_is_deleted() {
    let world = TempDir::new();
    let packages = world.path().join("lib/python3.12/site-packages");
    for (record, files) in [
        ("nvidia_cudnn_cu13-9.28.0.42", "nvidia/cudnn/lib/libcudnn_graph.so.9,sha256=x,1\nnvidia/x.py,,\n"),
        ("nvidia_cudnn_cu11-8.9.7.29", "nvidia/cudnn8/lib/libcudnn.so.8,sha256=x,1\n"),
        // The main library exists, but another one is missing.
        ("nvidia_cudnn_cu12-9.10.2.21", "there/libcudnn_graph.so.9,,\nthere/libcudnn_ops.so.9,,\n"),
        ("torch-2.2.0", "torch/lib/libcudnn_graph.so.9,,\n"),
        ("~vidia_cudnn_cu12-9.1.0.70", "gone/libcudnn_graph.so.9,,\n"),
    ] {
        write(&packages.join(format!("{record}.dist-info/RECORD")), files);
    }
    write(&packages.join("there/libcudnn_graph.so.9"), "");
    for (record, file) in [
        ("libcudnn-9.10.1.4-h1", "lib/libcudnn_graph.so.9"),
        ("libcudnn-jit-9.19.0.56-h1", "lib/there/libcudnn_graph.so.9"),
        ("libcudnn-dev-9.10.1.4-h1", "lib/libcudnn_graph.so"),
    ] {
        write(&world.path().join(format!("conda-meta/{record}.json")), &format!("{{\"files\": [\n  \"{file}\"\n]}}"));
    }
    write(&world.path().join("lib/there/libcudnn_graph.so.9"), "");
    let mut found: Vec<String> = deleted_packages(world.path()).iter().map(ToString::to_string).collect();
    found.sort();
    let expected = ["conda libcudnn 9.10.1.4", "pip nvidia-cudnn-cu11 8.9.7.29", "pip nvidia-cudnn-cu13 9.28.0.42"];
    assert_eq!(found, expected);
    let system = |list: &str| {
        let name = "libcudnn9-cuda-12";
        write(&world.path().join(format!("var/lib/dpkg/info/{name}.list")), list);
        let status = format!("Package: {name}\nStatus: install ok installed\nVersion: 9.19.0.56-1\n");
        write(&world.path().join("var/lib/dpkg/status"), &status);
        let found = deleted_system_packages(&Host::sandbox(world.path()));
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(system("/usr/lib/libcudnn_graph.so.9\n"), ["dpkg libcudnn9-cuda-12 9.19.0.56-1"]);
    assert_eq!(system("/lib/there/libcudnn_graph.so.9\n"), [""; 0]);
}
