//! Checks that the probe reads the files of real releases, and reports damaged files.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cudnn_frameworks::installation::{ArmVariant, InstallationReport};
use cudnn_probe::image::missing_exports;
use cudnn_probe::{
    Candidate, GpuCode, Host, Library, Origin, Os, ProbeError, Requirements, Version, check_dir, gpu_code, identify,
    identify_any, missing_symbols,
};
use support::{FakeLibrary, TempDir, binutils, lib_dir};

/// Identifies all libraries of a release by their files, in a directory without the wheel's record.
fn check(id: &str, version: Version, cuda: u32) {
    let Some(lib_dir) = lib_dir(id) else { return };
    let dir = TempDir::copy_of(&lib_dir);
    let mut reported = 0;
    for library in Library::ALL.iter().copied().filter(|library| dir.file(*library).exists()) {
        let identity = identify(&dir.file(library), library).unwrap_or_else(|refusal| panic!("{library} {refusal}"));
        assert_eq!(identity.version, library.version_symbol().map(|_| version), "{library} of {id}");
        let has_gpu_code = has_gpu_code(&dir, library);
        // The entries of adv for cu12 that the probe reads contain no PTX, and only prove that it is not for CUDA 13.
        let told_cuda = identity.cuda_major.or(identity.cuda_at_most);
        assert_eq!(told_cuda, has_gpu_code.then_some(cuda), "{library} of {id}");
        assert!(identity.cuda_major.is_some() || library == Library::Adv || !has_gpu_code, "{library} of {id}");
        reported += u32::from(has_gpu_code);
    }
    assert!(reported > 0, "{id}");
}

fn has_gpu_code(dir: &TempDir, library: Library) -> bool {
    binutils("readelf", &["-SW"], &dir.file(library)).contains(" .nv_fatbin ")
}

#[test]
fn version_and_cuda_major_are_read_from_each_library_of_the_small_releases() {
    check("jit-cu12-9.19.0", Version::new(9, 19, 0), 12);
    check("jit-cu13-9.27.0", Version::new(9, 27, 0), 13);
}

#[test]
#[ignore = "downloads full releases of cuDNN"]
fn version_and_cuda_major_are_read_from_each_library_of_the_full_releases() {
    for release in support::full_releases() {
        let cuda = if release.line() == Some("cu12") { 12 } else { 13 };
        check(release.id, support::version(release.id), cuda);
    }
}

fn good(dir: &TempDir) -> Vec<u8> {
    let file = dir.file(Library::Graph);
    FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).build(&file);
    std::fs::read(file).unwrap()
}

#[test]
fn section_headers_are_not_needed() {
    let dir = TempDir::new();
    let mut bytes = good(&dir);
    // Zero e_shoff, e_shentsize, e_shnum and e_shstrndx.
    bytes[40..48].fill(0);
    bytes[58..64].fill(0);
    std::fs::write(dir.file(Library::Graph), bytes).unwrap();
    let identity = identify(&dir.file(Library::Graph), Library::Graph).unwrap();
    assert_eq!(identity.version, Some(Version::new(9, 19, 0)));
}

#[test]
fn a_file_of_any_bytes_is_read_or_rejected_without_a_panic() {
    let dir = TempDir::new();
    let bytes = good(&dir);
    let file = dir.path().join("damaged");
    let mut state = 1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut read = 0;
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..1 + random() % 4 {
            // Mostly in the headers and near the dynamic section, with numbers at the limits of their types.
            let place =
                usize::try_from(random()).unwrap_or(0) % if random() % 2 == 0 { 1024 } else { damaged.len() - 8 };
            let value = [0, 1, u64::MAX, 1 << 63, 0xffff_ffff, random()][usize::try_from(random() % 6).unwrap()];
            let width = [1, 2, 4, 8][usize::try_from(random() % 4).unwrap()];
            damaged[place..place + width].copy_from_slice(&value.to_le_bytes()[..width]);
        }
        if random() % 4 == 0 {
            damaged.truncate(usize::try_from(random()).unwrap_or(0) % damaged.len());
        }
        std::fs::write(&file, damaged).unwrap();
        read += u32::from(identify(&file, Library::Graph).is_ok());
    }
    assert!(read > 0 && read < 3000, "{read}");
}

#[test]
fn a_file_that_claims_to_be_huge_is_not_read_into_memory() {
    let dir = TempDir::new();
    let file = dir.file(Library::Graph);
    let mut bytes = good(&dir);
    // A count of 0 means that the first section header contains the count, here 4 billion.
    bytes[60..62].fill(0);
    let sections = usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    bytes[sections + 32..sections + 40].copy_from_slice(&0xffff_ffffu64.to_le_bytes());
    // The dynamic segment (type 2) is as large as the file.
    let header = (64..).step_by(56).find(|header| bytes[*header] == 2).unwrap();
    bytes[header + 32..header + 40].copy_from_slice(&(1u64 << 33).to_le_bytes());
    std::fs::write(&file, bytes).unwrap();
    std::fs::File::options().write(true).open(&file).unwrap().set_len(1 << 36).unwrap();
    let before = peak_memory();
    let _ = identify(&file, Library::Graph);
    assert!(peak_memory() - before < 32 << 10, "{} KB", peak_memory() - before);
}

/// Returns the peak memory of this process in kilobytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_file_that_is_not_a_library_is_described_in_the_report() {
    let dir = TempDir::new();
    let file = dir.file(Library::Graph);
    let rejected = |fragment: &str| {
        let text = identify(&file, Library::Graph).unwrap_err().to_string();
        assert!(text.contains(fragment), "{text}");
        let _ = std::fs::remove_file(&file);
    };
    rejected("does not exist");
    std::os::unix::fs::symlink("missing/libcudnn_graph.so.9.1.0", &file).unwrap();
    rejected("is a symbolic link to \"missing/libcudnn_graph.so.9.1.0\", which does not exist");
    std::os::unix::fs::symlink(&file, &file).unwrap();
    rejected("cannot be read");
    assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
    rejected("is a pipe, a socket or a device, not a regular file");
    std::fs::write(&file, "").unwrap();
    rejected("is empty");
    std::fs::write(&file, b"\x7fELF\x02\x01\x01").unwrap();
    rejected("is truncated");
    // The names are zeros, as at the end of an interrupted download.
    let mut bytes = good(&dir);
    let name = Library::Graph.file_name().as_bytes();
    for index in 0..bytes.len() - name.len() {
        if bytes[index..].starts_with(name) {
            bytes[index] = 0;
        }
    }
    std::fs::write(&file, bytes).unwrap();
    rejected("is damaged: the library name is missing");
    let error = identify(&file, Library::Graph).unwrap_err();
    std::fs::write(&file, "").unwrap();
    assert_eq!(format!("{error:#}"), "does not exist");
    assert_eq!(identify(&file, Library::Graph).unwrap_err().to_string(), "is empty");
    // A library with only the full name is reported with the missing symlink.
    good(&dir);
    std::fs::rename(&file, dir.path().join("libcudnn_graph.so.9.19.0")).unwrap();
    let candidate = Candidate::new(dir.path(), Origin::Explicit);
    let refusal = check_dir(&candidate, &Requirements::default()).unwrap_err();
    assert!(
        refusal.to_string().contains("contains \"libcudnn_graph.so.9.19.0\", but the symlink \"libcudnn_graph.so.9\""),
        "{refusal}"
    );
}

/// Identifies all libraries of a release for a different system or architecture.
fn check_foreign(id: &str, version: Version, cuda: u32, system: Os, processor: &str) {
    let Some(lib_dir) = lib_dir(id) else { return };
    let mut read = 0;
    for library in Library::ALL.iter().copied() {
        let file = lib_dir.join(library.name_on(system));
        if !file.exists() {
            continue;
        }
        let identity = identify_any(&file, library).unwrap_or_else(|refusal| panic!("{library} {refusal}"));
        assert_eq!((identity.os, identity.architecture.to_string().as_str()), (system, processor), "{library}");
        // The resources of some DLLs also contain the version.
        let states_version = library.version_symbol().is_some() || system == Os::Windows && identity.version.is_some();
        assert_eq!(identity.version, states_version.then_some(version), "{library} of {id}");
        assert_eq!(identity.cuda_major, Some(cuda), "{library} of {id}");
        let needs_graph = identity.needed.iter().any(|name| name == Library::Graph.name_on(system));
        assert_eq!(
            needs_graph,
            !matches!(library, Library::Shim | Library::Graph | Library::Ext),
            "{library}: {identity:?}"
        );
        // This program cannot load the library.
        let refusal = identify(&file, library).unwrap_err().to_string();
        assert!(refusal.contains(if system == Os::Windows { "is built for Windows" } else { processor }), "{refusal}");
        read += 1;
    }
    assert!(read >= 3, "{id}");
}

#[test]
#[cfg_attr(target_arch = "aarch64", ignore = "the release must be foreign")]
fn a_release_for_another_architecture_is_read() {
    check_foreign("aarch64-jit-cu12-9.19.0", Version::new(9, 19, 0), 12, Os::Linux, "aarch64");
}

#[test]
#[ignore = "downloads cuDNN for Windows"]
fn a_release_for_windows_is_read() {
    let version = support::version("windows-cu13");
    check_foreign("windows-cu13", version, 13, Os::Windows, "x86-64");
    let Some(dir) = lib_dir("windows-cu13") else { return };
    for library in [Library::Shim, Library::Cnn, Library::Ext, Library::EnginesPrecompiled] {
        let identity = identify_any(&dir.join(library.windows_name()), library).unwrap();
        assert_eq!(identity.version, Some(version), "{library}");
    }
    let code = gpu_code(&dir.join(Library::Ops.windows_name())).unwrap();
    assert!(code.iter().any(|code| code.compute_capability == 75 && !code.is_ptx), "{code:?}");
    let code = gpu_code(&dir.join(Library::EnginesPrecompiled.windows_name())).unwrap();
    let sass: Vec<u32> = code.iter().filter(|code| !code.is_ptx).map(|code| code.compute_capability).collect();
    assert_eq!(sass, [75, 80, 86, 90, 100, 103, 120, 121]);
    // An interrupted download.
    let bytes = std::fs::read(dir.join(Library::Shim.windows_name())).unwrap();
    let cut = TempDir::new();
    let file = cut.path().join(Library::Shim.windows_name());
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let error = identify_any(&file, Library::Shim).unwrap_err().to_string();
    assert!(error.starts_with(&format!("is truncated: it has {} bytes of at least ", bytes.len() / 2)), "{error}");
}

#[test]
fn gpu_code_lists_its_compute_capabilities() {
    let Some(dir) = lib_dir("jit-cu12-9.19.0") else { return };
    let code = gpu_code(&dir.join(Library::EnginesRuntimeCompiled.file_name())).unwrap();
    let reported: Vec<String> = code.iter().map(GpuCode::to_string).collect();
    assert_eq!(reported, ["7.5", "8.0", "8.6", "9.0", "10.0", "12.0", "12.1", "12.1+PTX"]);
    assert!(gpu_code(&dir.join(Library::Graph.file_name())).unwrap().is_empty());
}

#[test]
fn wheels_for_aarch64_are_built_for_servers_and_only_those_for_cuda_13_have_kernels_for_thor() {
    for (id, has_thor) in [("aarch64-jit-cu12-9.19.0", false), ("aarch64-jit-cu13-9.27.0", true)] {
        let Some(dir) = lib_dir(id) else { continue };
        let report = InstallationReport::read(&dir, &Host::current()).unwrap();
        assert_eq!(report.arm_variant, Some(ArmVariant::Sbsa), "{report:#?}");
        let code = report.gpu_code();
        assert_eq!(code.len(), 1, "{code:?}");
        let runs = |gpu| code.iter().all(|(_, code)| code.iter().any(|code| code.runs_on(gpu)));
        assert_eq!([87, 72, 90, 100, 121].map(runs), [false, false, true, true, true], "{code:?}");
        assert_eq!(runs(110), has_thor, "{code:?}");
    }
    let Some(dir) = lib_dir("jit-cu12-9.19.0").filter(|_| cfg!(target_arch = "x86_64")) else { return };
    assert_eq!(InstallationReport::read(&dir, &Host::current()).unwrap().arm_variant, None);
}

#[test]
fn a_library_left_over_from_a_newer_release_does_not_spoil_an_installation() {
    let dir = TempDir::new();
    let version = Version::new(9, 10, 2);
    for library in [Library::Graph, Library::Ops] {
        FakeLibrary::new(library, version).with_ptx(8).build(&dir.file(library));
    }
    FakeLibrary::new(Library::EnginesTensorIr, version).with_ptx(9).build(&dir.file(Library::EnginesTensorIr));
    let candidate = Candidate::new(dir.path(), Origin::Explicit);
    let found = check_dir(&candidate, &Requirements::new().cuda_major(12).strict(true)).unwrap();
    let error = found.check(Library::EnginesTensorIr).unwrap_err();
    assert!(matches!(error, ProbeError::NotInRelease { .. }), "{error}");
    assert!(matches!(found.check(Library::Ext).unwrap_err(), ProbeError::NotFound));
}

#[test]
fn headers_that_would_crash_ld_so_are_rejected() {
    let dir = TempDir::new();
    let file = dir.file(Library::Graph);
    let bytes = good(&dir);
    // A PT_GNU_RELRO program header outside the loaded segments.
    let count = usize::from(bytes[56]);
    let relro = |header: &usize| bytes[*header..*header + 4] == 0x6474_e552u32.to_le_bytes();
    let header = (0..count).map(|index| 64 + 56 * index).find(relro).unwrap();
    let mut moved = bytes.clone();
    moved[header + 16..header + 24].copy_from_slice(&(1u64 << 40).to_le_bytes());
    std::fs::write(&file, moved).unwrap();
    let error = identify(&file, Library::Graph).unwrap_err().to_string();
    assert!(error.contains("is damaged"), "{error}");
    std::fs::write(&file, bytes).unwrap();
    identify(&file, Library::Graph).unwrap();
}

#[test]
fn headers_that_do_not_match_the_file_are_rejected() {
    let dir = TempDir::new();
    let file = dir.file(Library::Graph);
    let bytes = good(&dir);
    let length = bytes.len();
    let sections = usize::try_from(u64::from_le_bytes(bytes[40..48].try_into().unwrap())).unwrap();
    assert_eq!(sections + 64 * usize::from(bytes[60]), length, "the section headers are at the end");
    let with = |changes: &[(usize, &[u8])]| {
        let mut bytes = bytes.clone();
        for (place, change) in changes {
            bytes[*place..place + change.len()].copy_from_slice(change);
        }
        bytes
    };
    let truncated = format!("is truncated: it has {} bytes of at least {length}", length - 1);
    for (content, expected) in [
        (bytes[..length - 1].to_vec(), truncated.as_str()),
        (bytes[..63].to_vec(), "is truncated: it has 63 bytes of at least 64"),
        (bytes[..19].to_vec(), "is truncated: it has 19 bytes of at least 64"),
        // 32 bits, big-endian, and another processor, whose number has two bytes.
        (with(&[(4, &[1]), (18, &[3, 0])]), "is built for 32-bit x86, but "),
        (with(&[(5, &[2]), (18, &[0x34, 0x12])]), "is built for ELF machine 4660, but "),
        (with(&[(18, &[0x34, 0x12])]), "is built for ELF machine 4660, but "),
        // A program, program headers with a wrong size, and too many program headers.
        (with(&[(16, &[2])]), "is damaged: it is an ELF file, but not a shared library"),
        (with(&[(54, &[32])]), "is damaged: the program headers have an invalid size"),
        ([with(&[(56, &[0xff, 0xff])]), vec![0; 56 << 16]].concat(), "is damaged: the program headers have an invalid"),
    ] {
        std::fs::write(&file, content).unwrap();
        let error = identify(&file, Library::Graph).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn requirements_are_compared_with_the_installation() {
    let dir = TempDir::new();
    let version = Version::new(9, 19, 0);
    let build = |library: Library, version, ptx| {
        FakeLibrary::new(library, version).with_ptx(ptx).build(&dir.file(library));
    };
    FakeLibrary::new(Library::Graph, version).build(&dir.file(Library::Graph));
    build(Library::Ops, version, 8);
    let candidate = Candidate::new(dir.path(), Origin::Explicit);
    let answer = |requirements: Requirements| match check_dir(&candidate, &requirements) {
        Ok(found) => found.version.to_string(),
        Err(error) => error.to_string(),
    };
    let new = Requirements::new;
    for (requirements, expected) in [
        (new(), "9.19.0"),
        (new().minimum(Version::new(9, 18, 9)), "9.19.0"),
        (new().minimum(version), "9.19.0"),
        (new().minimum(Version::new(9, 19, 1)), "is cuDNN 9.19.0, but 9.19.1 or newer is required"),
        (new().cuda_major(12), "9.19.0"),
        (new().cuda_major(13), "is built for CUDA 12, but CUDA 13 is required"),
        (new().minimum(version).cuda_major(13).strict(true), "is built for CUDA 12, but CUDA 13 is required"),
        (new().cuda_major(12).minimum(Version::new(9, 20, 0)), "is cuDNN 9.19.0, but 9.20.0 or newer is required"),
        (new().strict(true), "9.19.0"),
    ] {
        assert_eq!(answer(requirements), expected, "{requirements:?}");
    }
    // Only a strict program rejects these.
    let strict = |expected: &str| {
        assert_eq!(answer(new()), "9.19.0");
        assert_eq!(answer(new().strict(true).strict(false)), "9.19.0");
        let error = answer(new().strict(true));
        assert!(error.starts_with("contains a libcudnn_adv.so.9 that ") && error.contains(expected), "{error}");
    };
    build(Library::Adv, version, 9);
    strict("is built for CUDA 13, but the libraries next to it are for CUDA 12");
    build(Library::Adv, Version::new(9, 10, 2), 8);
    strict("is cuDNN 9.10.2, but the libcudnn_graph.so.9 next to it is 9.19.0");
    FakeLibrary::new(Library::Adv, version).with_undefined("cudnn_of_another_release").build(&dir.file(Library::Adv));
    strict("is from a different release");
    std::fs::write(dir.file(Library::Adv), "").unwrap();
    strict("is empty");
}

#[test]
fn a_library_in_another_directory_matches_an_installation_of_its_release() {
    let version = Version::new(9, 19, 0);
    let dirs = [(); 4].map(|()| TempDir::new());
    let [this, same, older, incomplete] = &dirs;
    for (dir, graph, ops) in
        [(this, version, version), (same, version, version), (older, Version::new(9, 10, 2), version)]
    {
        FakeLibrary::new(Library::Graph, graph).build(&dir.file(Library::Graph));
        FakeLibrary::new(Library::Ops, ops).build(&dir.file(Library::Ops));
    }
    FakeLibrary::new(Library::Ops, version).build(&incomplete.file(Library::Ops));
    let found = check_dir(&Candidate::new(this.path(), Origin::Explicit), &Requirements::new()).unwrap();
    assert_eq!(dirs.each_ref().map(|dir| found.matches(Library::Ops, dir.path())), [true, true, false, false]);
    assert!(!found.matches(Library::Adv, same.path()));
}

fn program_headers(bytes: &[u8], kind: u32) -> Vec<usize> {
    let headers = (0..usize::from(bytes[56])).map(|index| 64 + 56 * index);
    headers.filter(|header| bytes[*header..*header + 4] == kind.to_le_bytes()).collect()
}

fn word(bytes: &[u8], place: usize) -> usize {
    usize::try_from(u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap())).unwrap()
}

#[test]
fn segments_are_read_as_ld_so_reads_them() {
    const PT_LOAD: u32 = 1;
    const PT_DYNAMIC: u32 = 2;
    const DT_SONAME: u8 = 14;
    let dir = TempDir::new();
    let file = dir.file(Library::Graph);
    let version = Version::new(9, 19, 0);
    let identified = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        identify(&file, Library::Graph).map_err(|error| error.to_string())
    };
    for with_rpath in [false, true] {
        // Zero-initialized thread-local variables take up no space.
        let library = FakeLibrary::new(Library::Graph, version).with_code("__thread char zeros[1 << 24];");
        if with_rpath { library.with_rpath() } else { library }.build(&file);
        let identity = identify(&file, Library::Graph).unwrap();
        assert_eq!((identity.version, identity.run_path.as_deref()), (Some(version), Some("$ORIGIN")), "{with_rpath}");
    }
    let bytes = good(&dir);
    let dynamic = program_headers(&bytes, PT_DYNAMIC)[0];
    // ld.so ignores all entries after the first DT_NULL.
    let start = word(&bytes, dynamic + 8);
    let end = start + word(&bytes, dynamic + 32);
    let null = (start..end).step_by(16).find(|entry| word(&bytes, *entry) == 0).unwrap();
    assert!(null + 32 <= end, "the linker leaves spare entries");
    let mut ended = bytes.clone();
    ended[null + 16] = DT_SONAME;
    assert_eq!(identified(&ended).unwrap().version, Some(version));
    let mut without = bytes.clone();
    without[dynamic..dynamic + 4].fill(0);
    assert_eq!(identified(&without).unwrap_err(), "is damaged: the dynamic section is missing");
    // Without section headers, only the segments define the length.
    let mut cut = bytes.clone();
    cut[40..48].fill(0);
    cut[58..64].fill(0);
    let ends =
        program_headers(&bytes, PT_LOAD).into_iter().map(|header| word(&bytes, header + 8) + word(&bytes, header + 32));
    let loaded = ends.max().unwrap();
    assert_eq!(identified(&cut[..loaded]).unwrap().version, Some(version));
    let expected = format!("is truncated: it has {} bytes of at least {loaded}", loaded - 1);
    assert_eq!(identified(&cut[..loaded - 1]).unwrap_err(), expected);
}

#[test]
fn every_symbol_of_a_library_is_found_by_its_name() {
    let dir = TempDir::new();
    let names: Vec<String> = (0..400).map(|number| format!("cudnn_symbol_{number}")).collect();
    let code = |line: &dyn Fn(&String) -> String| names.iter().map(line).collect::<String>();
    let defined = code(&|name| format!("int {name}(void) {{ return 0; }}\n"));
    let used = code(&|name| format!("extern int {name}(void); int use_{name}(void) {{ return {name}(); }}\n"));
    let version = Version::new(9, 19, 0);
    FakeLibrary::new(Library::Graph, version).with_code(&defined).build(&dir.file(Library::Graph));
    FakeLibrary::new(Library::Heuristic, version).with_code(&used).build(&dir.file(Library::Heuristic));
    let missing = |defined_by: &[_]| missing_symbols(&dir.file(Library::Heuristic), defined_by).unwrap();
    assert_eq!(missing(&[dir.file(Library::Graph)]), [""; 0]);
    let mut all = missing(&[]);
    all.sort_by_key(|name| (name.len(), name.clone()));
    assert_eq!(all, names);
}

#[test]
fn unreadable_exports_do_not_count_as_missing() {
    let dir = TempDir::new();
    let (whole, damaged) = (dir.path().join("whole.so"), dir.path().join("damaged.so"));
    support::compile("void cudnnCreate(void) {} void cudnnNew(void) {}", &["-shared", "-nostdlib"], &whole);
    let sections = binutils("readelf", &["-SW"], &whole);
    let section = sections.lines().find_map(|line| line.split_once(".gnu.hash ")).unwrap().1;
    let offset = usize::from_str_radix(section.split_whitespace().nth(2).unwrap(), 16).unwrap();
    let mut bytes = std::fs::read(&whole).unwrap();
    bytes[offset..offset + 4].fill(0xff);
    std::fs::write(&damaged, bytes).unwrap();
    assert_eq!(missing_exports(&whole, &whole).unwrap(), [""; 0]);
    for (library, replaced) in [(&whole, &damaged), (&damaged, &whole)] {
        let error = missing_exports(library, replaced).unwrap_err().to_string();
        assert!(error.contains("the symbol hash table cannot be read"), "{error}");
    }
}

/// Otherwise, every test program would compile the same libraries again.
#[test]
fn a_compiled_library_is_stored_for_other_test_programs() {
    let programs = std::env::current_exe().unwrap();
    let stored = || -> BTreeSet<PathBuf> {
        let files = std::fs::read_dir(programs.ancestors().nth(2).unwrap().join("compiled")).into_iter().flatten();
        files.map(|file| file.unwrap().path()).collect()
    };
    let dir = TempDir::new();
    let file = dir.file(Library::Ops);
    // No earlier test has compiled this library.
    let code = format!("const char NAME[] = {:?};", dir.path().file_name().unwrap());
    let former = stored();
    FakeLibrary::new(Library::Ops, Version::new(9, 19, 0)).with_code(&code).build(&file);
    let library = std::fs::read(file).unwrap();
    // Other tests may store libraries at the same time.
    let is_library = |file: &&PathBuf| std::fs::read(file).is_ok_and(|stored| stored == library);
    let all = stored();
    let new = all.difference(&former).find(is_library).expect("the library is stored");
    std::fs::remove_file(new).unwrap();
}
