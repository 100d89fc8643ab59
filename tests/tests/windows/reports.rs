//! Recreates problems that Windows users have reported, with NVIDIA's DLLs or fake ones in the directories that Windows
//! or Python use. The loader must report the cause, and the doctor must find it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use support::{FakeLibrary, Library, TempDir, Version, copy_fake_dlls, fake_dll, lib_dir, windows};

const RELEASE: &str = windows::RELEASE;
const OLDER: Version = Version::new(9, 19, 0);

/// A function of ops, which imports graph.
const OPS: &str = "@cudnnCreateTensorDescriptor";
/// A function of cnn, which imports graph and ops.
const CNN: &str = "@cudnnCreateConvolutionDescriptor";

fn driver() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| windows::build("cudnn-tests", "driver", &[])).clone()
}

fn doctor() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| windows::build("cudnn-doctor", "cudnn-doctor", &[])).clone()
}

/// The files of a situation, and the directories in `PATH`.
struct World {
    root: TempDir,
    path: Vec<PathBuf>,
}

impl World {
    fn new() -> World {
        World { root: TempDir::new(), path: Vec::new() }
    }

    /// Creates a directory and appends it to `PATH`.
    fn on_path(&mut self, below: &str) -> PathBuf {
        let dir = self.root.path().join(below);
        std::fs::create_dir_all(&dir).unwrap();
        self.path.push(dir.clone());
        dir
    }

    /// Returns the output of a program, with the root's name replaced.
    fn run(&self, program: &Path, args: &[&str]) -> String {
        let path: Vec<&Path> = self.path.iter().map(PathBuf::as_path).collect();
        let output = windows::child(program).env("WINEPATH", windows::path_list(&path)).run(args);
        let text = format!("{}{}[{:?}]\n", output.stdout, output.stderr, output.code);
        let root = windows::path(self.root.path());
        text.replace(&root.replace('\\', "\\\\"), "ROOT")
            .replace(&root, "ROOT")
            .replace(&windows::fill_in_release("VERSION"), "VERSION")
    }
}

fn install_without(dir: &Path, missing: &[Library]) {
    let real = lib_dir(RELEASE).unwrap();
    for library in Library::ALL.iter().filter(|library| !missing.contains(library)) {
        std::os::unix::fs::symlink(real.join(library.windows_name()), dir.join(library.windows_name())).unwrap();
    }
}

fn ops_is_missing(world: &mut World) {
    install_without(&world.on_path("bin"), &[Library::Ops]);
}

fn only_the_shim_is_there(world: &mut World) {
    install_without(&world.on_path("bin"), &Library::ALL[1..]);
}

fn cudnn_8(world: &mut World) {
    let dir = world.on_path("bin");
    for name in ["cudnn64_8.dll", "cudnn_ops_infer64_8.dll", "cudnn_cnn_infer64_8.dll"] {
        windows::compile("unsigned long long cudnnGetVersion(void) { return 8907; }", &["-shared"], &dir.join(name));
    }
}

fn two_releases(world: &mut World) {
    copy_fake_dlls(OLDER, 8, &world.on_path("older"));
    install_without(&world.on_path("newer"), &[]);
}

/// Installs a release with a cnn that imports from a missing DLL.
fn needing(world: &mut World, dll: &str) {
    let dir = world.on_path("bin");
    copy_fake_dlls(OLDER, 8, &dir);
    let file = dir.join(Library::Cnn.windows_name());
    std::fs::remove_file(&file).unwrap();
    fake_dll(Library::Cnn, OLDER).importing("a_function", dll).build(&file);
}

fn no_zlib(world: &mut World) {
    needing(world, "zlibwapi.dll");
}

fn no_cublas(world: &mut World) {
    needing(world, "cublasLt64_12.dll");
}

fn no_c_run_time(world: &mut World) {
    needing(world, "VCRUNTIME140_9.dll");
}

fn two_cuda_majors(world: &mut World) {
    let dir = world.on_path("bin");
    copy_fake_dlls(OLDER, 8, &dir);
    let file = dir.join(Library::Cnn.windows_name());
    std::fs::remove_file(&file).unwrap();
    fake_dll(Library::Cnn, OLDER).with_ptx(9).build(&file);
}

fn other_version(world: &mut World) {
    let dir = world.on_path("bin");
    copy_fake_dlls(OLDER, 8, &dir);
    let file = dir.join(Library::Ops.windows_name());
    std::fs::remove_file(&file).unwrap();
    FakeLibrary::new(Library::Ops, Version::new(9, 10, 2)).for_windows().build(&file);
}

fn for_processor(world: &mut World, machine: u16) {
    let dir = world.on_path("bin");
    copy_fake_dlls(OLDER, 8, &dir);
    let file = dir.join(Library::Graph.windows_name());
    let mut bytes = std::fs::read(&file).unwrap();
    let header = u32::from_le_bytes(bytes[0x3c..0x40].try_into().unwrap()) as usize;
    bytes[header + 4..header + 6].copy_from_slice(&machine.to_le_bytes());
    std::fs::write(file, bytes).unwrap();
}

fn for_32_bits(world: &mut World) {
    for_processor(world, 0x14c);
}

fn for_arm64(world: &mut World) {
    for_processor(world, 0xaa64);
}

fn a_space_in_the_path(world: &mut World) {
    install_without(&world.on_path("Program Files (x86)/my cuDNN & more/bin"), &[]);
}

fn beyond_ascii(world: &mut World) {
    install_without(&world.on_path("Größe/пользователь/バイナリ"), &[]);
}

fn beyond_260_characters(world: &mut World) {
    install_without(&world.on_path(&["d".repeat(90).as_str(); 4].join("/")), &[]);
}

/// The setup of a situation, the driver's arguments, and the expected output of the loader and the doctor.
type Row = (fn(&mut World), &'static [&'static str], &'static [&'static str], &'static [&'static str]);

/// The driver's output if a function of ops can be called.
const RESOLVED: &str = "@cudnnCreateTensorDescriptor = resolved";

fn check(rows: &[Row]) {
    if lib_dir(RELEASE).is_none() {
        return;
    }
    let mut wrong = String::new();
    for (make, calls, report, findings) in rows {
        let mut world = World::new();
        make(&mut world);
        for (program, args, fragments) in [(driver(), *calls, *report), (doctor(), &["check", "--verbose"], *findings)]
        {
            let output = world.run(&program, args);
            for fragment in fragments.iter().filter(|fragment| !output.contains(**fragment)) {
                wrong.push_str(&format!("{fragment:?} is missing:\n{output}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_file_that_is_missing_is_named() {
    check(&[
        (
            ops_is_missing,
            &[OPS],
            &[r#"cuDNN VERSION in "ROOT\bin" does not include cudnn_ops64_9.dll"#, "[Some(0)]"],
            &[r"in ROOT\bin (below: <cudnn>)", "error[C012]: cudnn_ops64_9.dll is missing in <cudnn>"],
        ),
        (
            only_the_shim_is_there,
            &[OPS],
            &[r#""ROOT\bin" (PATH) contains no cudnn_graph64_9.dll"#, "[Some(0)]"],
            &["error[C010]: no usable cuDNN 9 was found"],
        ),
        (
            cudnn_8,
            &[OPS],
            &[r#""ROOT\bin" (PATH) contains cuDNN 8, but cuDNN 9 is required"#, "help: Run `cudnn-doctor check`"],
            &["error[C010]", r"ROOT\bin contains cuDNN 8, but cuDNN 9 is required"],
        ),
    ]);
}

/// Windows reports all of these as error 126, without a name.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_dll_that_cudnn_imports_and_that_is_missing_is_named() {
    check(&[
        (no_zlib, &[CNN], &["zlibwapi.dll", "[Some(0)]"], &["zlibwapi.dll"]),
        (no_cublas, &[CNN], &["cublasLt64_12.dll", "[Some(0)]"], &["cublasLt64_12.dll"]),
        (no_c_run_time, &[CNN], &["VCRUNTIME140_9.dll", "[Some(0)]"], &["VCRUNTIME140_9.dll"]),
    ]);
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn files_that_do_not_belong_together_are_named() {
    check(&[
        (
            two_releases,
            &["load:", OPS, "maps"],
            &[r#"load = 9.19.0 "ROOT\\older" (PATH)"#, r"mapped ROOT\older\cudnn_ops64_9.dll"],
            &["note[C016]: 2 cuDNN installations were found", r"VERSION in ROOT\newer (PATH)"],
        ),
        (
            two_cuda_majors,
            &[CNN],
            &[r#"cudnn_cnn64_9.dll" is built for CUDA 13, but the libraries next to it are for CUDA 12"#],
            &["cudnn_cnn64_9.dll", "CUDA 13"],
        ),
        (
            other_version,
            &[OPS],
            &[r#"cudnn_ops64_9.dll" is cuDNN 9.10.2, but the cudnn_graph64_9.dll next to it is 9.19.0"#],
            &["cudnn_ops64_9.dll", "9.10.2"],
        ),
    ]);
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_dll_for_another_processor_is_named() {
    check(&[
        (
            for_32_bits,
            &[OPS],
            &[r#"cudnn_graph64_9.dll" is built for 32-bit x86, but x86-64 is required"#],
            &["error[C010]", "is built for 32-bit x86, but x86-64 is required"],
        ),
        (
            for_arm64,
            &[OPS],
            &[r#"cudnn_graph64_9.dll" is built for aarch64, but x86-64 is required"#],
            &["error[C010]", "is built for aarch64, but x86-64 is required"],
        ),
    ]);
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn cudnn_is_loaded_from_a_path_that_other_programs_cannot_use() {
    check(&[
        (
            a_space_in_the_path,
            &[OPS, "maps"],
            &[RESOLVED, r"mapped ROOT\Program Files (x86)\my cuDNN & more\bin\cudnn_ops64_9.dll"],
            &[r"in ROOT\Program Files (x86)\my cuDNN & more\bin"],
        ),
        (
            beyond_ascii,
            &[OPS, "maps"],
            &[RESOLVED, r"mapped ROOT\Größe\пользователь\バイナリ\cudnn_ops64_9.dll"],
            &[r"in ROOT\Größe\пользователь\バイナリ"],
        ),
        (beyond_260_characters, &[OPS], &[RESOLVED], &["cuDNN   VERSION for CUDA 13"]),
    ]);
}
