//! Writes fake DLLs of frameworks without a compiler. Only their imports matter.

use std::path::Path;

/// Writes a Windows DLL with one section after a header of 1,024 bytes. It imports the symbol `f` from all of these
/// DLLs, exports `f`, and contains a text.
pub fn extension_dll(file: &Path, imports: &[&str], text: &str) {
    const SECTION: u32 = 0x400;
    let mut section: Vec<u8> = Vec::new();
    let mut add = |bytes: &[u8]| {
        let at = SECTION + u32::try_from(section.len()).unwrap();
        section.extend(bytes);
        section.resize(section.len().next_multiple_of(8), 0);
        at
    };
    let own = add(b"x.dll\0");
    let function = add(&[0xc3]);
    let name = add(b"f\0");
    let (functions, names, ordinals) = (add(&function.to_le_bytes()), add(&name.to_le_bytes()), add(&[0, 0]));
    let numbers = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let exports = add(&numbers(&[0, 0, 0, own, 1, 1, 1, functions, names, ordinals]));
    let mut directory = Vec::new();
    for dll in imports {
        let symbol = u64::from(add(b"\0\0f\0"));
        let table = add(&[symbol.to_le_bytes(), [0; 8]].concat());
        directory.extend(numbers(&[table, 0, 0, add(format!("{dll}\0").as_bytes()), table]));
    }
    directory.extend([0; 20]);
    let length = u32::try_from(directory.len()).unwrap();
    let imports = add(&directory);
    add(format!("{text}\0").as_bytes());
    let size = u32::try_from(section.len()).unwrap();
    let mut bytes = vec![0; SECTION as usize];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"MZ");
    put(60, &0x80u32.to_le_bytes());
    put(0x80, b"PE\0\0");
    put(0x84, &[0x64, 0x86, 1, 0]);
    put(0x94, &[240, 0, 0x22, 0x20]);
    let optional = 0x98;
    put(optional, &[0x0b, 0x02]);
    put(optional + 24, &0x1_8000_0000u64.to_le_bytes());
    put(optional + 32, &numbers(&[0x1000, 0x200]));
    put(optional + 108, &numbers(&[16, exports, 40, imports, length]));
    put(optional + 240, b".rdata");
    put(optional + 248, &numbers(&[size, SECTION, size, SECTION]));
    bytes.extend(section);
    std::fs::write(file, bytes).unwrap();
}
