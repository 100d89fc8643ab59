//! Checks in a release build that a warm call through the loader consists of a load and a jump. Building the loader
//! also shows that it compiles without the rest of the workspace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use cudnn_loader::Function;
use support::{binutils, load_and_jump};

/// Returns the instructions of all functions in the module of a program or an archive, keyed by the rest of the path.
fn disassemble(program: &Path, module: &str) -> BTreeMap<String, Vec<String>> {
    let text = binutils("objdump", &["--disassemble", "--demangle", "--no-show-raw-insn"], program);
    let mut functions = BTreeMap::<String, Vec<String>>::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(symbol) = line.strip_suffix(">:") {
            current = symbol.split_once(module).map(|(_, rest)| rest.to_owned());
        } else if let (Some(name), Some((_, instruction))) = (&current, line.split_once(":\t")) {
            functions.entry(name.clone()).or_default().push(instruction.trim().to_owned());
        }
    }
    functions
}

fn without_padding(instructions: &[String]) -> Vec<&str> {
    let mut kept: Vec<&str> = instructions.iter().map(String::as_str).collect();
    while kept.last().is_some_and(|last| last.contains("nop") || last.starts_with("int3") || last.starts_with("xchg")) {
        kept.pop();
    }
    kept
}

#[test]
fn every_function_of_a_release_build_is_a_load_and_a_jump() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = root.join("target/disassembly");
    let status = Command::new(env!("CARGO"))
        .current_dir(&root)
        .args(["build", "--quiet", "--release", "--package", "cudnn-loader"])
        // Its functions contain no code of other crates, which take longer to compile.
        .args(["--config", "profile.release.opt-level=0"])
        .args(["--config", "profile.release.package.cudnn-loader.opt-level=3"])
        .args(["--target", support::TARGET, "--target-dir"])
        .arg(&target)
        // Flags, for example for coverage, would add instructions.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .expect("cargo starts");
    assert!(status.success());
    let functions =
        disassemble(&target.join(support::TARGET).join("release/libcudnn_loader.rlib"), "cudnn_loader::dispatch::");
    for function in Function::ALL {
        // libcudnn_graph.so.9 is `graph`.
        let module = function.library().file_name().trim_start_matches("libcudnn_").trim_end_matches(".so.9");
        let path = format!("{module}::{function}");
        let instructions = functions.get(&path).map(|all| without_padding(all)).unwrap_or_default();
        let count = load_and_jump(&instructions);
        assert!(count == Some(instructions.len()), "{function}: {instructions:#?}");
    }
}
