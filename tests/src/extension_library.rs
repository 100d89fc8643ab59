//! Writes fake extension libraries of Python packages byte by byte, which is so fast that tests can use thousands of
//! them. ld.so loads them. For libraries with code, see [`FakeLibrary`](crate::FakeLibrary).

use std::path::Path;

/// A description of a library: dependencies, run path, text and GPU code.
#[derive(Clone, Debug, Default)]
pub struct ExtensionLibrary {
    soname: Option<String>,
    needs: Vec<String>,
    rpath: Option<String>,
    runpath: Option<String>,
    data: Vec<u8>,
    gpu_code: Vec<u8>,
}

/// The parts of the file in order. Section headers refer to them by number, starting at 1.
const SECTIONS: [(&str, u32); 7] = [
    (".dynsym", 11),
    (".hash", 5),
    (".dynstr", 3),
    (".dynamic", 6),
    (".rodata", 1),
    (".nv_fatbin", 1),
    (".shstrtab", 3),
];
const DYNSTR: u32 = 3;

impl ExtensionLibrary {
    /// Returns a library without dependencies.
    pub fn new() -> Self {
        ExtensionLibrary::default()
    }

    /// Sets the DT_SONAME, which is unset by default, as in extension libraries.
    pub fn with_soname(mut self, soname: &str) -> Self {
        self.soname = Some(soname.into());
        self
    }

    /// Adds a dependency (DT_NEEDED).
    pub fn needing(mut self, soname: &str) -> Self {
        self.needs.push(soname.into());
        self
    }

    /// Sets the DT_RPATH.
    pub fn with_rpath(mut self, path: &str) -> Self {
        self.rpath = Some(path.into());
        self
    }

    /// Sets the DT_RUNPATH.
    pub fn with_runpath(mut self, path: &str) -> Self {
        self.runpath = Some(path.into());
        self
    }

    /// Adds text to the constants (`.rodata`), such as the name of a library to open.
    pub fn with_text(mut self, text: &str) -> Self {
        self.data.extend_from_slice(text.as_bytes());
        self.data.push(0);
        self
    }

    /// Adds this many zero bytes to the constants.
    pub fn with_padding(mut self, length: usize) -> Self {
        self.data.resize(self.data.len() + length, 0);
        self
    }

    /// Adds GPU code: containers that each have an entry without code for each target, such as `8.0` or `9.0+PTX`.
    pub fn with_gpu_code(mut self, containers: usize, targets: &[&str]) -> Self {
        const ENTRY_LEN: u64 = 64;
        for _ in 0..containers {
            self.gpu_code.extend(0xba55_ed50_u32.to_le_bytes());
            self.gpu_code.extend([1, 0, 16, 0]);
            self.gpu_code.extend((ENTRY_LEN * targets.len() as u64).to_le_bytes());
            for target in targets {
                let capability = target.trim_end_matches("+PTX");
                let is_ptx = capability.len() < target.len();
                let capability: u32 = capability.replace('.', "").parse().expect("a target like `9.0+PTX`");
                // SASS of CUDA 12, or PTX 8.0.
                let (kind, minor, major): (u16, u16, u16) = if is_ptx { (1, 0, 8) } else { (2, 7, 1) };
                let mut entry = Vec::new();
                entry.extend(kind.to_le_bytes());
                entry.extend(0x0101_u16.to_le_bytes());
                entry.extend((ENTRY_LEN as u32).to_le_bytes());
                entry.resize(24, 0);
                entry.extend(minor.to_le_bytes());
                entry.extend(major.to_le_bytes());
                entry.extend(capability.to_le_bytes());
                entry.resize(ENTRY_LEN as usize, 0);
                self.gpu_code.extend(entry);
            }
        }
        self
    }

    /// Writes the library to this file, and creates the directories above it.
    pub fn build(&self, file: &Path) {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, self.bytes()).unwrap();
    }

    /// Returns the contents of the file: ELF header, program headers, sections, section headers. One segment contains
    /// all of it, and every address is an offset in the file.
    pub fn bytes(&self) -> Vec<u8> {
        const HEADER_LEN: u64 = 64;
        const SEGMENT_LEN: u64 = 56;
        const PT_LOAD: u32 = 1;
        const PT_DYNAMIC: u32 = 2;
        const PT_GNU_STACK: u32 = 0x6474_e551;
        let mut strings = vec![0];
        let mut entries: Vec<(u64, u64)> = Vec::new();
        let mut add = |tag: u64, text: &str| {
            entries.push((tag, strings.len() as u64));
            strings.extend(text.as_bytes());
            strings.push(0);
        };
        self.needs.iter().for_each(|name| add(1, name));
        self.soname.iter().for_each(|name| add(14, name));
        self.rpath.iter().for_each(|path| add(15, path));
        self.runpath.iter().for_each(|path| add(29, path));
        let mut section_names = vec![0];
        for (name, _) in SECTIONS {
            section_names.extend(name.as_bytes());
            section_names.push(0);
        }
        // The mandatory first symbol, and a hash table with one empty bucket.
        let (symbols, hash) = (vec![0; 24], [1_u32, 1, 0, 0].map(u32::to_le_bytes).concat());
        let dynamic_len = 16 * (entries.len() + 6);
        let lengths = [
            symbols.len(),
            hash.len(),
            strings.len(),
            dynamic_len,
            self.data.len(),
            self.gpu_code.len(),
            section_names.len(),
        ];
        let mut end = HEADER_LEN + 3 * SEGMENT_LEN;
        let offsets = lengths.map(|length| {
            let start = end.next_multiple_of(8);
            end = start + length as u64;
            start
        });
        let headers = end.next_multiple_of(8);
        let [symbols_at, hash_at, strings_at, dynamic_at, ..] = offsets;
        // DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_NULL.
        let tables = [(4, hash_at), (5, strings_at), (6, symbols_at), (10, strings.len() as u64), (11, 24), (0, 0)];
        let dynamic: Vec<u8> = entries
            .into_iter()
            .chain(tables)
            .flat_map(|(tag, value)| [tag, value])
            .flat_map(u64::to_le_bytes)
            .collect();

        let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        [3, machine].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
        bytes.extend(1_u32.to_le_bytes());
        [0, HEADER_LEN, headers].iter().for_each(|offset| bytes.extend(offset.to_le_bytes()));
        bytes.extend(0_u32.to_le_bytes());
        let count = SECTIONS.len() as u16 + 1;
        [64, 56, 3, 64, count, count - 1].iter().for_each(|half: &u16| bytes.extend(half.to_le_bytes()));
        // Older ld.so versions relocate the dynamic section in place, so it is writable.
        let segments =
            [(PT_LOAD, 0, headers, 0x1000), (PT_DYNAMIC, dynamic_at, dynamic_len as u64, 8), (PT_GNU_STACK, 0, 0, 16)];
        for (kind, start, length, alignment) in segments {
            [kind, 6].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
            [start, start, start, length, length, alignment].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
        }
        let parts = [&symbols, &hash, &strings, &dynamic, &self.data, &self.gpu_code, &section_names];
        for (part, start) in parts.iter().zip(offsets) {
            bytes.resize(start as usize, 0);
            bytes.extend_from_slice(part);
        }
        bytes.resize(headers as usize + 64, 0);
        let mut name = 1_u32;
        for (((text, kind), start), length) in SECTIONS.into_iter().zip(offsets).zip(lengths) {
            [name, kind].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
            [2, start, start, length as u64].iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
            // Symbols and the dynamic section refer to the strings, and the hash table to the symbols.
            let (link, entry_len) = match text {
                ".dynsym" => (DYNSTR, 24),
                ".dynamic" => (DYNSTR, 16),
                ".hash" => (1, 4),
                _ => (0, 0),
            };
            [link, u32::from(text == ".dynsym")].iter().for_each(|half| bytes.extend(half.to_le_bytes()));
            [8, entry_len].iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
            name += text.len() as u32 + 1;
        }
        bytes
    }
}
