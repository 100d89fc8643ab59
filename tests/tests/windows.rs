//! What this project does on Windows: programs and DLLs for it, under Wine. Wine is not Windows: the README says what
//! was run where.
#![cfg(feature = "windows")]

use support::{TempDir, windows};

#[test]
fn a_program_for_windows_gets_its_arguments_and_returns_its_exit_code() {
    let dir = TempDir::new();
    let program = dir.path().join("program.exe");
    let code = "#include <stdio.h>\nint main(int count, char **arguments) { puts(arguments[1]); return 3; }";
    windows::compile(code, &[], &program);
    let output = windows::child(&program).run(&[r"Z:\a b"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(3), "Z:\\a b\r\n"), "{}", output.stderr);
}
