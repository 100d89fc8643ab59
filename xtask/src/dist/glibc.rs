//! Stand-ins for the machine's glibc to link with, which have only what an old glibc has. What is linked with them runs
//! there, and everywhere newer.
//!
//! A newer glibc keeps the old versions of its symbols, so the machine's own states what the old one has. It knows
//! nothing of what is linked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::elf::SHT_DYNSYM;
use object::read::elf::{ElfFile64, Sym as _};
use object::{Endianness, Object as _};

use super::run;
use crate::error::Result;

/// The oldest glibc that the binaries run with: that of RHEL 8 and Debian 10, and of PyTorch's wheels.
pub(crate) const OLDEST: [u32; 2] = [2, 28];

/// Functions that glibc had in a static library until 2.33, or that work otherwise before.
const STATIC_PART: &str = include_str!("glibc.c");

/// The libraries in which glibc 2.28 had what libc.so.6 has since 2.34, and the symbols that were there.
const PTHREAD: &str = "libpthread.so.0";
const DL: &str = "libdl.so.2";
const OF_DL: [&str; 6] = ["dladdr", "dlclose", "dlerror", "dlinfo", "dlopen", "dlsym"];

/// The library that had a symbol of today's libc.so.6. `None` for one of librt and others, which nothing here needs.
fn home(name: &str) -> Option<&'static str> {
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if OF_DL.contains(&name) {
        Some(DL)
    } else if starts_with(&["pthread_", "sem_"]) {
        Some(PTHREAD)
    } else {
        (!starts_with(&["aio_", "lio_", "mq_", "shm_", "timer_"])).then_some("libc.so.6")
    }
}

/// A symbol of a library.
struct Symbol {
    version: Vec<u32>,
    is_function: bool,
    size: u64,
}

/// Writes the stand-ins into a directory. `compiler` is the target's C compiler, `ld_so` the name
/// of its dynamic loader. Replaces each file in one step, because
/// another process may link with the old one.
pub(crate) fn write_stand_ins(compiler: &str, ld_so: &str, dir: &Path) -> Result<()> {
    let unfinished = dir.join(std::process::id().to_string());
    std::fs::create_dir_all(&unfinished)?;
    let libc = symbols(&library(compiler, "libc.so.6")?)?;
    for soname in ["libc.so.6", PTHREAD, DL] {
        let symbols = libc.iter().filter(|(name, _)| home(name) == Some(soname));
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
    // The names by which compilers ask for them.
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

/// A file that the compiler links with.
fn library(compiler: &str, name: &str) -> Result<PathBuf> {
    let output = Command::new(compiler).arg(format!("-print-file-name={name}")).output();
    let output = output.map_err(|error| format!("cannot start {compiler}, the C compiler: {error}"))?;
    let file = PathBuf::from(String::from_utf8(output.stdout)?.trim());
    // It repeats a name that it does not find.
    if file.is_absolute() {
        Ok(file)
    } else {
        Err(format!("{compiler} has no {name}: install glibc's libc6-dev").into())
    }
}

/// The symbols of a library in the newest version that the oldest glibc has.
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
        // The names of versions are absolute symbols.
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

/// The numbers of `GLIBC_2.2.5`. `None` for `GLIBC_PRIVATE`.
fn parse(version: &[u8]) -> Option<Vec<u32>> {
    let numbers = str::from_utf8(version).ok()?.strip_prefix("GLIBC_")?;
    numbers.split('.').map(|number| number.parse().ok()).collect()
}

/// Links a library that has these symbols, and no code.
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
