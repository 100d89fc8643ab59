//! Generates bindings from unknown headers. Errors must name declarations that the generator cannot place or date.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use cudnn_bindgen::{File, Source, generate};
use support::{TempDir, release};

/// Returns headers of a real release, with this text inserted before the declarations of one of them.
fn headers(include: &Path, name: &str, added: &str) -> TempDir {
    let dir = TempDir::new();
    for entry in std::fs::read_dir(include).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = dir.path().join(name);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("#if defined(__cplusplus)", &format!("{added}\n#if defined(__cplusplus)"), 1))
        .unwrap();
    dir
}

fn run(include: &TempDir, unknown_since: Option<&str>) -> Result<Vec<File>, String> {
    let scratch = TempDir::new();
    let source = Source {
        cudnn_include: include.path().to_owned(),
        description: "headers".into(),
        command: "a test".into(),
        unknown_since: unknown_since.map(str::to_owned),
    };
    generate(&source, scratch.path()).map_err(|error| error.to_string())
}

#[test]
fn unknown_headers_and_undated_functions_are_named_in_errors() {
    let Some(wheel) = release("jit-cu13-9.27.0") else { return };
    let include = wheel.join("nvidia/cudnn_jit/include");
    let with_header = headers(&include, "cudnn_graph.h", "#include \"cudnn_quantum.h\"");
    std::fs::write(with_header.path().join("cudnn_quantum.h"), "").unwrap();
    let error = run(&with_header, None).unwrap_err();
    assert!(error.contains("does not know: cudnn_quantum.h") && error.contains("help: "), "{error}");

    let Some(libclang) = release("libclang") else { return };
    // SAFETY: this is the only test of the process, and no other thread reads the environment.
    unsafe { std::env::set_var("LIBCLANG_PATH", libclang.join("clang/native")) };
    let declaration = "#ifdef __cplusplus\nextern \"C\"\n#endif\ncudnnStatus_t CUDNNWINAPI cudnnQuantum(int qubits);";
    let with_function = headers(&include, "cudnn_cnn.h", declaration);
    let error = run(&with_function, None).unwrap_err();
    assert!(error.contains("the first release with: cudnnQuantum\n") && error.contains("help: "), "{error}");
    let files = run(&with_function, Some("9.29.0")).unwrap();
    let table = &files.iter().find(|file| file.name == "functions.rs").unwrap().text;
    let row = table.lines().find(|line| line.contains("cudnnQuantum")).unwrap();
    assert!(row.contains("since(9, 29, 0)"), "{row}");
}
