//! Runs the tools of binutils, which show the contents of a library or program.

use std::path::Path;
use std::process::Command;

/// Returns the output of a tool (`nm`, `readelf`, `objdump`) for a file.
pub fn binutils(tool: &str, args: &[&str], file: &Path) -> String {
    let prefix = if cfg!(target_arch = "aarch64") && !env!("HOST_TRIPLE").starts_with("aarch64") {
        "aarch64-linux-gnu-"
    } else {
        ""
    };
    let tool = format!("{prefix}{tool}");
    let output = Command::new(&tool).args(args).arg(file).output();
    let output = output.unwrap_or_else(|error| panic!("{tool} of binutils does not start: {error}"));
    assert!(output.status.success(), "{tool} {file:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the number of instructions at the start of objdump's output that load an address relative to the instruction
/// pointer and jump to it: two on x86-64, and four on aarch64.
pub fn load_and_jump(instructions: &[&str]) -> Option<usize> {
    if cfg!(target_arch = "aarch64") {
        load_and_jump_of_aarch64(instructions)
    } else {
        load_and_jump_of_x86_64(instructions)
    }
}

fn load_and_jump_of_aarch64(instructions: &[&str]) -> Option<usize> {
    let [first, second, load, jump, ..] = instructions else { return None };
    // `adrp   x8, 5a000`, `add        x8, x8, #0x2e8`, `ldar  x0, [x8]` and `br       x0`. If the slot is near, the
    // linker replaces the first two with `nop` and `adr x8, 5a2e8`. A plain `ldr` would not acquire.
    let base = if *first == "nop" {
        second.strip_prefix("adr")?.trim_start().split_once(',')?.0
    } else {
        let page = first.strip_prefix("adrp")?.trim_start().split_once(',')?.0;
        let (base, from) = second.strip_prefix("add")?.trim_start().split_once(", ")?;
        (from.split(',').next() == Some(page)).then_some(base)?
    };
    let (register, address) = load.strip_prefix("ldar")?.trim_start().split_once(", ")?;
    let jump = jump.strip_prefix("br")?.trim_start();
    (address.strip_prefix('[')?.strip_suffix(']')? == base && register == jump).then_some(4)
}

fn load_and_jump_of_x86_64(instructions: &[&str]) -> Option<usize> {
    let [load, jump, ..] = instructions else { return None };
    // `mov    0x2f3a1(%rip),%rax        # 5a2e8` and `jmp    *%rax`.
    let load = load.split('#').next().unwrap_or_default().trim_end();
    let load = load.strip_prefix("mov ").map(str::trim_start).and_then(|operands| operands.split_once("(%rip),%"));
    let jump = jump.strip_prefix("jmp ").map(str::trim_start).and_then(|target| target.strip_prefix("*%"));
    load.is_some_and(|(offset, register)| offset.starts_with(['0', '-']) && Some(register) == jump).then_some(2)
}

/// Returns the exported symbols of a library: the letter that `nm` prints for the kind, and the name with the version.
pub fn exported_symbols(file: &Path) -> Vec<(String, String)> {
    let symbol = |line: &str| {
        let mut columns = line.split_whitespace().skip(1).map(str::to_owned);
        Some((columns.next()?, columns.next()?))
    };
    binutils("nm", &["-D", "--defined-only"], file).lines().filter_map(symbol).collect()
}

/// Returns the names in the entries of the dynamic section with this tag, such as `NEEDED` or `SONAME`.
pub fn dynamic_entries(file: &Path, tag: &str) -> Vec<String> {
    let tag = format!("({tag})");
    let name = |line: &str| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned());
    let text = binutils("readelf", &["-d", "-W"], file);
    text.lines().filter(|line| line.contains(&tag)).filter_map(name).collect()
}
