//! Writes stub libraries with only the symbols of an old glibc. Programs that are linked with them run with that glibc
//! or any newer one.
//!
//! Newer releases of glibc still export old versions of symbols, so the stubs are derived from the host's glibc.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Result, output, run};
use object::elf::SHT_DYNSYM;
use object::read::elf::{ElfFile64, Sym as _};
use object::{Endianness, Object as _};

/// The oldest supported glibc, which RHEL 8, Debian 10 and PyTorch's wheels use.
pub(crate) const OLDEST: [u32; 2] = [2, 28];

/// Functions that were in a static library before glibc 2.33, or behaved differently.
const STATIC_PART: &str = include_str!("glibc.c");

/// Libraries that have been part of libc.so.6 since glibc 2.34, with their symbols.
const PTHREAD: &str = "libpthread.so.0";
const DL: &str = "libdl.so.2";
const OF_DL: [&str; 6] = ["dladdr", "dlclose", "dlerror", "dlinfo", "dlopen", "dlsym"];

/// Returns the library that contained a symbol of today's libc.so.6. Returns `None` for librt and others, which the
/// binaries do not need.
fn original_library(name: &str) -> Option<&'static str> {
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if OF_DL.contains(&name) {
        Some(DL)
    } else if starts_with(&["pthread_", "sem_"]) {
        Some(PTHREAD)
    } else {
        (!starts_with(&["aio_", "lio_", "mq_", "shm_", "timer_"])).then_some("libc.so.6")
    }
}

struct Symbol {
    version: Vec<u32>,
    is_function: bool,
    size: u64,
}

/// Writes the stubs into a directory, for the target's C compiler and dynamic loader. Each file is replaced in one
/// step, because another process may use the old one.
pub(crate) fn write_stubs(compiler: &str, ld_so: &str, dir: &Path) -> Result<()> {
    let unfinished = dir.join(std::process::id().to_string());
    std::fs::create_dir_all(&unfinished)?;
    let libc = symbols(&library(compiler, "libc.so.6")?)?;
    for soname in ["libc.so.6", PTHREAD, DL] {
        let symbols = libc.iter().filter(|(name, _)| original_library(name) == Some(soname));
        write_library(compiler, &unfinished, soname, &symbols.collect())?;
    }
    for soname in ["libm.so.6", ld_so] {
        let symbols = symbols(&library(compiler, soname)?)?;
        write_library(compiler, &unfinished, soname, &symbols.iter().collect())?;
    }
    let source = unfinished.join("static.c");
    std::fs::write(&source, STATIC_PART)?;
    let mut to_compile = Command::new(compiler);
    to_compile.args(["-c", "-Os", "-fPIC", "-ffunction-sections", "-fvisibility=hidden", "-o"]);
    run(to_compile.arg(unfinished.join("static.o")).arg(source))?;
    // Compilers search for these names.
    let nonshared = library(compiler, "libc_nonshared.a")?;
    let libc = format!("static.o libc.so.6 \"{}\" AS_NEEDED ( {ld_so} )", nonshared.display());
    for (name, libraries) in
        [("libc.so", libc.as_str()), ("libm.so", "libm.so.6"), ("libpthread.so", PTHREAD), ("libdl.so", DL)]
    {
        std::fs::write(unfinished.join(name), format!("GROUP ( {libraries} )\n"))?;
    }
    for entry in std::fs::read_dir(&unfinished)? {
        let file = entry?;
        std::fs::rename(file.path(), dir.join(file.file_name()))?;
    }
    Ok(std::fs::remove_dir(unfinished)?)
}

fn library(compiler: &str, name: &str) -> Result<PathBuf> {
    let file = PathBuf::from(output(Command::new(compiler).arg(format!("-print-file-name={name}")))?.trim());
    // For a missing file, the compiler prints the name unchanged.
    if file.is_absolute() {
        Ok(file)
    } else {
        Err(format!("{compiler} cannot find {name}: install glibc's libc6-dev").into())
    }
}

/// Returns the symbols of a library in the newest version that [`OLDEST`] supports.
fn symbols(file: &Path) -> Result<BTreeMap<String, Symbol>> {
    let data = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let data = data.as_slice();
    let elf = ElfFile64::<Endianness>::parse(data)?;
    let endian = elf.endianness();
    let sections = elf.elf_section_table();
    let table = sections.symbols(endian, data, SHT_DYNSYM)?;
    let versions = sections.versions(endian, data)?.ok_or_else(|| format!("{}: no versions", file.display()))?;
    let mut symbols = BTreeMap::<String, Symbol>::new();
    for (index, symbol) in table.enumerate() {
        // Names of versions are absolute symbols.
        if symbol.is_undefined(endian) || symbol.is_absolute(endian) {
            continue;
        }
        let version = versions.version(versions.version_index(endian, index).index())?;
        let Some(version) = version.and_then(|version| parse(version.name())) else { continue };
        if version.as_slice() > OLDEST.as_slice() {
            continue;
        }
        let name = String::from_utf8(symbol.name(endian, table.strings())?.to_owned())?;
        if symbols.get(&name).is_none_or(|other| other.version < version) {
            let is_function = symbol.st_type() != object::elf::STT_OBJECT;
            symbols.insert(name, Symbol { version, is_function, size: symbol.st_size(endian) });
        }
    }
    Ok(symbols)
}

/// Parses the numbers of a version such as `GLIBC_2.2.5`. Returns `None` for `GLIBC_PRIVATE`.
fn parse(version: &[u8]) -> Option<Vec<u32>> {
    let numbers = str::from_utf8(version).ok()?.strip_prefix("GLIBC_")?;
    numbers.split('.').map(|number| number.parse().ok()).collect()
}

fn write_library(compiler: &str, dir: &Path, soname: &str, symbols: &BTreeMap<&String, &Symbol>) -> Result<()> {
    let mut code = String::new();
    let mut nodes = BTreeMap::<&[u32], String>::new();
    for (name, symbol) in symbols {
        let (section, kind) = if symbol.is_function { (".text", "function") } else { (".data", "object") };
        writeln!(code, "{section}\n.globl {name}\n.type {name}, %{kind}\n.size {name}, {}", symbol.size)?;
        writeln!(code, "{name}: .zero {}", symbol.size.max(1))?;
        write!(nodes.entry(&symbol.version).or_default(), " {name};")?;
    }
    let mut script = String::new();
    for (version, names) in nodes {
        let version: Vec<String> = version.iter().map(u32::to_string).collect();
        writeln!(script, "GLIBC_{} {{ global:{names} }};", version.join("."))?;
    }
    let (source, map) = (dir.join(format!("{soname}.s")), dir.join(format!("{soname}.map")));
    std::fs::write(&source, code)?;
    std::fs::write(&map, script)?;
    let mut linker = Command::new(compiler);
    linker.args(["-shared", "-nostdlib", "-x", "assembler"]).arg(&source).arg(format!("-Wl,-soname,{soname}"));
    run(linker.arg(format!("-Wl,--version-script={}", map.display())).arg("-o").arg(dir.join(soname)))
}
