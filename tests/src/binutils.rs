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
