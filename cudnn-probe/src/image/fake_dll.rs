//! Creates DLL files for tests, with one section for exports, imports, a version and data.

use std::path::Path;

/// The properties of a test DLL.
#[derive(Clone)]
pub(crate) struct FakeDll<'a> {
    /// The name in the export table.
    pub(crate) name: &'a str,
    /// The processor number in the header.
    pub(crate) machine: u16,
    /// Exported variables with their first bytes, sorted by name.
    pub(crate) exports: &'a [(&'a str, [u8; 4])],
    /// Imported DLLs with symbol names.
    pub(crate) imports: &'a [(&'a str, &'a [&'a str])],
    /// The version in the resources: major, minor, patch, build.
    pub(crate) version: Option<[u16; 4]>,
    /// Whether the DLL contains ARM64 code (`CHPEMetadataPointer`).
    pub(crate) is_hybrid: bool,
}

pub(crate) const AMD64: u16 = 0x8664;

/// The address of the section, which is also the file offset.
const SECTION: u32 = 0x400;

impl<'a> FakeDll<'a> {
    pub(crate) fn new(name: &'a str) -> Self {
        FakeDll { name, machine: AMD64, exports: &[], imports: &[], version: None, is_hybrid: false }
    }

    pub(crate) fn write(&self, path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap_or(path)).unwrap_or_default();
        std::fs::write(path, self.bytes()).unwrap_or_default();
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut section = FakeSection(Vec::new());
        let exports = self.write_exports(&mut section);
        let imports = self.write_imports(&mut section);
        let resources = self.version.map(|version| write_version(&mut section, version)).unwrap_or_default();
        let mut load_config = (0, 0);
        if self.is_hybrid {
            let mut bytes = vec![0; 320];
            put(&mut bytes, 0, &320u32.to_le_bytes());
            put(&mut bytes, 200, &0x1_8000_1000u64.to_le_bytes());
            load_config = (section.add(&bytes), 320);
        }
        let size = section.0.len() as u32;
        let mut file = vec![0; SECTION as usize];
        put(&mut file, 0, b"MZ");
        put(&mut file, 60, &0x80u32.to_le_bytes());
        put(&mut file, 0x80, b"PE\0\0");
        put(&mut file, 0x84, &self.machine.to_le_bytes());
        put(&mut file, 0x86, &1u16.to_le_bytes());
        // Set the length of the optional header and the DLL flag.
        put(&mut file, 0x94, &240u16.to_le_bytes());
        put(&mut file, 0x96, &0x2022u16.to_le_bytes());
        let optional = 0x98;
        let magic: u16 = if matches!(self.machine, 0x14c | 0x1c4) { 0x10b } else { 0x20b };
        put(&mut file, optional, &magic.to_le_bytes());
        put(&mut file, optional + 24, &0x1_8000_0000u64.to_le_bytes());
        put(&mut file, optional + 32, &0x1000u32.to_le_bytes());
        put(&mut file, optional + 36, &0x200u32.to_le_bytes());
        put(&mut file, optional + 108, &16u32.to_le_bytes());
        for (index, (address, length)) in [(0, exports), (1, imports), (2, resources), (10, load_config)] {
            put(&mut file, optional + 112 + 8 * index, &address.to_le_bytes());
            put(&mut file, optional + 116 + 8 * index, &length.to_le_bytes());
        }
        let header = optional + 240;
        put(&mut file, header, b".rdata");
        for (at, value) in [(8, size), (12, SECTION), (16, size), (20, SECTION)] {
            put(&mut file, header + at, &value.to_le_bytes());
        }
        file.extend(section.0);
        file
    }

    fn write_exports(&self, section: &mut FakeSection) -> (u32, u32) {
        let name = section.text(self.name);
        let count = self.exports.len() as u32;
        let mut tables = [Vec::new(), Vec::new(), Vec::new()];
        for (index, (name, value)) in self.exports.iter().enumerate() {
            let [functions, names, ordinals] = &mut tables;
            functions.extend(section.add(value).to_le_bytes());
            names.extend(section.text(name).to_le_bytes());
            ordinals.extend((index as u16).to_le_bytes());
        }
        let [functions, names, ordinals] = tables.map(|table| section.add(&table));
        let mut directory = vec![0; 40];
        for (at, value) in [(12, name), (16, 1), (20, count), (24, count), (28, functions), (32, names), (36, ordinals)]
        {
            put(&mut directory, at, &value.to_le_bytes());
        }
        (section.add(&directory), 40)
    }

    fn write_imports(&self, section: &mut FakeSection) -> (u32, u32) {
        if self.imports.is_empty() {
            return (0, 0);
        }
        let mut directory = Vec::new();
        for (dll, symbols) in self.imports {
            let mut table = Vec::new();
            for symbol in *symbols {
                let address = match symbol.strip_prefix('#').and_then(|number| number.parse::<u64>().ok()) {
                    Some(number) => 1 << 63 | number,
                    None => u64::from(section.hint_and_name(symbol)),
                };
                table.extend(address.to_le_bytes());
            }
            table.extend(0u64.to_le_bytes());
            let table = section.add(&table);
            let name = section.text(dll);
            for value in [table, 0, 0, name, table] {
                directory.extend(value.to_le_bytes());
            }
        }
        directory.extend([0; 20]);
        let length = directory.len() as u32;
        (section.add(&directory), length)
    }
}

/// Writes three nested directories with one entry for kind, number and language.
fn write_version(section: &mut FakeSection, [major, minor, patch, build]: [u16; 4]) -> (u32, u32) {
    let mut value = vec![0; 92];
    put(&mut value, 0, &92u16.to_le_bytes());
    put(&mut value, 2, &52u16.to_le_bytes());
    let key: Vec<u8> = "VS_VERSION_INFO".encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(&mut value, 6, &key);
    put(&mut value, 40, &0xfeef_04bd_u32.to_le_bytes());
    for (at, number) in [(48, minor), (50, major), (52, build), (54, patch)] {
        put(&mut value, at, &number.to_le_bytes());
    }
    let value = section.add(&value);
    let mut bytes = vec![0; 3 * 24 + 16];
    for (level, id) in [(0, 16u32), (1, 1), (2, 1033)] {
        let at = 24 * level;
        put(&mut bytes, at + 14, &1u16.to_le_bytes());
        put(&mut bytes, at + 16, &id.to_le_bytes());
        let next = at as u32 + 24;
        put(&mut bytes, at + 20, &(if level == 2 { next } else { next | 1 << 31 }).to_le_bytes());
    }
    put(&mut bytes, 72, &value.to_le_bytes());
    put(&mut bytes, 76, &92u32.to_le_bytes());
    (section.add(&bytes), 88)
}

/// The contents of the section.
struct FakeSection(Vec<u8>);

impl FakeSection {
    /// Appends bytes and returns the address.
    fn add(&mut self, bytes: &[u8]) -> u32 {
        while !self.0.len().is_multiple_of(8) {
            self.0.push(0);
        }
        let address = SECTION + self.0.len() as u32;
        self.0.extend(bytes);
        address
    }

    fn text(&mut self, text: &str) -> u32 {
        self.add(&[text.as_bytes(), b"\0"].concat())
    }

    fn hint_and_name(&mut self, name: &str) -> u32 {
        self.add(&[b"\0\0", name.as_bytes(), b"\0"].concat())
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(target) = bytes.get_mut(at..at + value.len()) {
        target.copy_from_slice(value);
    }
}
