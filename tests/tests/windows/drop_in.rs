//! Tests the drop-in `cudnn64_9.dll`: the file's structure, and C and C++ programs that use it in place of NVIDIA's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Child, Library, TempDir, lib_dir, load_and_jump, windows};

const RELEASE: &str = windows::RELEASE;

const MAX_SIZE: u64 = 640 << 10;

fn library() -> PathBuf {
    windows::drop_in().join("bin/cudnn64_9.dll")
}

fn objdump(options: &[&str], file: &Path) -> String {
    let output = Command::new("x86_64-w64-mingw32-objdump").args(options).arg(file).output().expect("objdump starts");
    assert!(output.status.success(), "{file:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the name in a DLL's header, and the exports with their addresses relative to the start.
fn exports(file: &Path) -> (String, BTreeMap<String, u64>) {
    let text = objdump(&["-p"], file);
    let table = text.lines().skip_while(|line| !line.starts_with("The Export Tables"));
    let name = table.clone().find_map(|line| line.strip_prefix("Name ")?.split_whitespace().nth(1));
    // `       [   0] +base[   1] 5c8fc Export RVA`, then `    [   0] +base[   1]  0000 cudnnAddTensor` or without the
    // number.
    let mut addresses = BTreeMap::new();
    let mut found = BTreeMap::new();
    for line in table {
        let Some((index, rest)) = line.trim().strip_prefix('[').and_then(|line| line.split_once(']')) else { continue };
        let Ok(index) = index.trim().parse::<u64>() else { continue };
        let words: Vec<&str> = rest.split_whitespace().collect();
        if let [.., address, "Export", "RVA"] = words[..] {
            // The base of the ordinals precedes it.
            addresses.insert(index, u64::from_str_radix(address.rsplit(']').next().unwrap(), 16).unwrap());
        } else if let Some(name) = words.last().filter(|name| name.starts_with("cudnn")) {
            found.insert((*name).to_owned(), addresses[&index]);
        }
    }
    (name.unwrap_or_default().to_owned(), found)
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn it_has_nvidias_exports_and_name_and_only_depends_on_windows() {
    let Some(real) = lib_dir(RELEASE) else { return };
    let (their_name, theirs) = exports(&real.join("cudnn64_9.dll"));
    let (name, ours) = exports(&library());
    assert_eq!((name.as_str(), their_name.as_str()), ("cudnn64_9.dll", "cudnn64_9.dll"));
    let names = |exports: &BTreeMap<String, u64>| exports.keys().cloned().collect::<BTreeSet<String>>();
    assert_eq!(theirs.len(), 243);
    assert_eq!(names(&theirs).difference(&names(&ours)).count(), 0);
    let more: Vec<String> = names(&ours).difference(&names(&theirs)).cloned().collect();
    assert!(more.len() == 7 && more.iter().all(|name| name.starts_with("cudnnShim")), "{more:?}");
    let system = ["kernel32.dll", "ntdll.dll", "msvcrt.dll", "api-ms-win-core-synch-l1-2-0.dll"];
    for imported in windows::imports(&library()) {
        assert!(system.contains(&imported.to_ascii_lowercase().as_str()), "{imported}");
    }
    let length = std::fs::metadata(library()).unwrap().len();
    assert!(length <= MAX_SIZE, "{length} bytes");
    let header = objdump(&["-p"], &library());
    for flag in ["DYNAMIC_BASE", "NX_COMPAT", "HIGH_ENTROPY_VA"] {
        assert!(header.contains(flag), "{flag}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn every_export_is_a_load_and_a_jump() {
    let text = objdump(&["--disassemble", "--no-show-raw-insn"], &library());
    let header = objdump(&["-p"], &library());
    let base = header.lines().find_map(|line| line.strip_prefix("ImageBase")).unwrap();
    let base = u64::from_str_radix(base.trim(), 16).unwrap();
    let instructions: BTreeMap<u64, &str> = text
        .lines()
        .filter_map(|line| line.trim().split_once(":\t"))
        .filter_map(|(address, text)| Some((u64::from_str_radix(address, 16).ok()?, text.trim())))
        .collect();
    let (_, exports) = exports(&library());
    for (name, address) in exports.iter().filter(|(name, _)| !name.starts_with("cudnnShim")) {
        let first: Vec<&str> = instructions.range(base + address..).take(2).map(|(_, text)| *text).collect();
        assert_eq!(load_and_jump(&first), Some(2), "{name}: {first:?}");
    }
}

fn client(source: &str, flags: &[&str]) -> Option<(TempDir, PathBuf)> {
    let real = lib_dir(RELEASE)?;
    let dir = TempDir::new();
    windows::client(source, &real.join("../include"), flags, &dir.path().join("program.exe"));
    std::fs::copy(library(), dir.path().join("cudnn64_9.dll")).unwrap();
    Some((dir, real))
}

fn run(dir: &TempDir, cudnn: &Path) -> Child {
    windows::child(&dir.path().join("program.exe")).env("CUDNN_LOADER_DIR", windows::path(cudnn))
}

fn link_all(from: &Path, to: &Path, without: &[Library]) {
    for library in Library::ALL.iter().filter(|library| !without.contains(library)) {
        let name = library.windows_name();
        std::os::unix::fs::symlink(from.join(name), to.join(name)).unwrap();
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn a_c_program_runs_the_same_with_nvidias_dll_and_with_the_drop_in() {
    let Some((dir, real)) = client("client.c", &["-lpsapi"]) else { return };
    let program = dir.path().join("program.exe");
    let args = ["cudnnGetVersion", "plain", "cudnnDestroyRNNDescriptor"];
    let named = run(&dir, &real).run(&args);
    assert_eq!(named.code, Some(0), "{named:?}");
    assert!(named.stdout.contains(&windows::fill_in_release("cudnnGetVersion = NUMBER")), "{named:?}");
    // All of NVIDIA's DLLs are copied next to the program, as the installation guide recommends.
    std::fs::remove_file(dir.path().join("cudnn64_9.dll")).unwrap();
    link_all(&real, dir.path(), &[]);
    let theirs = windows::child(&program).run(&args);
    assert_eq!(theirs.stdout, named.stdout, "{theirs:?}");
    // The drop-in replaces NVIDIA's shim.
    std::fs::remove_file(dir.path().join("cudnn64_9.dll")).unwrap();
    std::fs::copy(library(), dir.path().join("cudnn64_9.dll")).unwrap();
    let replaced = windows::child(&program).run(&[&args[..], &["report", "maps"]].concat());
    assert!(replaced.stdout.starts_with(&named.stdout), "{replaced:?}");
    assert!(replaced.stdout.contains("next to the library that loads cuDNN"), "{replaced:?}");
    // Graph opens these libraries by name, so they are opened by path from the same directory.
    for library in Library::OPENED_BY_GRAPH {
        let file = windows::path(&dir.path().join(library.windows_name()));
        assert!(replaced.stdout.contains(&format!("mapped {file}\r\n")), "{replaced:?}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn exceptions_pass_through_first_and_later_calls() {
    let Some((dir, real)) = client("throws.cpp", &[]) else { return };
    let output = run(&dir, &real).run_successfully(&[]);
    assert_eq!(output.stdout.matches("caught, from the callback").count(), 3, "{output:?}");
}

/// Replaces NVIDIA's cnn, because a convolution needs a GPU. Prints the arguments.
const CNN: &str = r#"#include <stdio.h>
typedef const void *P;
__declspec(dllexport) int cudnnConvolutionForward(P handle, const float *alpha, P a, P b, P c, P d, P e, int algorithm,
                                                  P f, size_t size, const float *beta, P g, P h) {
    printf("got %p %g %p %p %p %p %p %d %p %zu %g %p %p\n", handle, *alpha, a, b, c, d, e, algorithm, f, size, *beta, g, h);
    return 0;
}
"#;

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn integers_floating_point_numbers_and_arguments_on_the_stack_arrive() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let cudnn = TempDir::new();
    link_all(&real, cudnn.path(), &[Library::Cnn]);
    windows::compile(CNN, &["-shared"], &cudnn.path().join("cudnn_cnn64_9.dll"));
    let output = run(&dir, cudnn.path()).run_successfully(&["arguments"]);
    let p = "1122334455667788";
    let null = "0000000000000000";
    for line in [
        "tensor = 0 0: 2 3 4 5 60 20 5 1".to_owned(),
        "lrn = 0 0: 5 1.5 2.25 3.125".to_owned(),
        "activation = 0 0: 3 1 6.5".to_owned(),
        format!("got {null} 1 {p} {null:.15}3 {p} {null:.15}5 {p} 2 {null:.15}8 9 0 {p} {null:.15}c"),
        "convolution = 0".to_owned(),
    ] {
        let count = output.stdout.lines().filter(|found| found.to_ascii_lowercase() == line).count();
        assert_eq!(count, 2, "{line}: {output:?}");
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn first_calls_of_64_threads_at_once_succeed() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let output = run(&dir, &real).run(&["threads"]);
    assert_eq!((output.code, output.stdout.trim()), (Some(0), "good = 64"), "{output:?}");
}

/// DllMain runs under the system's loader lock, which other threads need.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn first_calls_and_preloads_in_dllmain_neither_deadlock_nor_abort() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let plugin = dir.path().join("plugin.dll");
    windows::client("windows.c", &real.join("../include"), &["-shared", "-DPLUGIN"], &plugin);
    for mode in ["", "waits", "preloads", "starts"] {
        let output = run(&dir, &real).env("PLUGIN_MODE", mode).run(&["plugin", &windows::path(&plugin)]);
        assert_eq!(output.code, Some(0), "{mode}: {output:?}");
        assert!(output.stdout.contains("in DllMain = 1"), "{mode}: {output:?}");
        assert!(output.stdout.contains("loaded = 1, thread = 1, soon = 1"), "{mode}: {output:?}");
        if mode == "preloads" {
            assert!(output.stdout.contains("preload in DllMain = 0"), "{output:?}");
            assert!(output.stdout.contains("wait in DllMain = 0"), "{output:?}");
            let busy = "skipped: this thread holds the lock of Windows' loader, as in DllMain";
            assert!(output.stdout.contains(busy) && !output.stdout.contains("ld.so"), "{output:?}");
        }
    }
}

/// Windows notifies the program before a preload's threads start and after they exit. A preload in such a notification
/// has no effect, and does not affect the program's own preload.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn preloads_in_callbacks_of_the_threads_of_a_preload_do_nothing() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    for _ in 0..3 {
        let output = run(&dir, &real).run_successfully(&["attach"]);
        assert!(output.stdout.contains("start = 0, wait = 0"), "{output:?}");
        assert!(output.stdout.contains("preload = 0, good = 1, called = 1"), "{output:?}");
        for step in ["load cudnn_ext64_9.dll", "read cudnn_graph64_9.dll"] {
            let done =
                output.stdout.lines().find(|line| line.contains(step)).is_some_and(|line| line.ends_with("done"));
            assert!(done, "{step}: {output:?}");
        }
    }
}

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn an_exit_during_a_preload_ends_the_program_at_once_with_its_code() {
    let Some((dir, real)) = client("windows.c", &[]) else { return };
    let start = std::time::Instant::now();
    for mode in ["exit", "exit-in-thread"] {
        for milliseconds in ["0", "2", "10", "20", "40", "80", "300"] {
            let output = run(&dir, &real).run(&[mode, milliseconds]);
            assert_eq!(output.code, Some(3), "{mode} {milliseconds}: {output:?}");
        }
    }
    assert!(start.elapsed().as_secs() < 60);
}

/// A DLL without calls can be freed completely. After the first call it stays loaded, because freeing it would leak.
#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn it_can_be_loaded_and_freed_a_thousand_times() {
    let Some((dir, real)) = client("windows.c", &["-DUNLOAD"]) else { return };
    let file = windows::path(&dir.path().join("cudnn64_9.dll"));
    let unused = run(&dir, &real).run(&[&file]);
    assert_eq!((unused.code, unused.stdout.trim()), (Some(0), "good = 0, stays = 0"), "{unused:?}");
    let used = run(&dir, &real).run(&[&file, "calls"]);
    assert_eq!((used.code, used.stdout.trim()), (Some(0), "good = 10, stays = 1"), "{used:?}");
}
