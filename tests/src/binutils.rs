//! The tools of binutils, which show what is in a library or program.

use std::path::Path;
use std::process::Command;

/// The output of a tool (`nm`, `readelf`, `objdump`) for a file.
///
/// # Panics
/// When the tool is missing or fails.
#[must_use]
pub fn binutils(tool: &str, args: &[&str], file: &Path) -> String {
    let output = Command::new(tool).args(args).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{tool} of binutils does not start: {error}"));
    assert!(output.status.success(), "{tool} {file:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Are these two instructions of x86-64, as objdump prints them, a load of an address relative to the instruction pointer
/// into a register, and a jump to the address in that register?
#[must_use]
pub fn is_load_and_jump(instructions: &[&str]) -> bool {
    let [load, jump] = instructions else { return false };
    // `mov    0x2f3a1(%rip),%rax        # 5a2e8` and `jmp    *%rax`.
    let load = load.split('#').next().unwrap_or_default().trim_end();
    let load = load.strip_prefix("mov ").map(str::trim_start).and_then(|operands| operands.split_once("(%rip),%"));
    let jump = jump.strip_prefix("jmp ").map(str::trim_start).and_then(|target| target.strip_prefix("*%"));
    load.is_some_and(|(offset, register)| offset.starts_with(['0', '-']) && Some(register) == jump)
}

/// The exported symbols of a library: the letter that `nm` gives the kind, and the name with its version.
#[must_use]
pub fn exported_symbols(file: &Path) -> Vec<(String, String)> {
    let symbol = |line: &str| {
        let mut columns = line.split_whitespace().skip(1).map(str::to_owned);
        Some((columns.next()?, columns.next()?))
    };
    binutils("nm", &["-D", "--defined-only"], file).lines().filter_map(symbol).collect()
}

/// The names in the entries of the dynamic section with this tag, as `NEEDED` or `SONAME`.
#[must_use]
pub fn dynamic_entries(file: &Path, tag: &str) -> Vec<String> {
    let tag = format!("({tag})");
    let name = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
    let text = binutils("readelf", &["-d", "-W"], file);
    text.lines().filter(|line| line.contains(&tag)).filter_map(name).collect()
}
