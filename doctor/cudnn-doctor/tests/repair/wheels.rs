//! Provides wheels for pip and uv: stand-ins with sizes and hashes, and real JIT-only releases.

use std::path::Path;
use std::process::Command;

use support::TempDir;

use crate::Shared;
use crate::world::{pack, stand_ins};

/// Copies wheels to another directory and completes their records.
const ADD_HASHES: &str = r#"
import base64, hashlib, pathlib, sys, zipfile
for wheel in pathlib.Path(sys.argv[1]).glob("*.whl"):
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(pathlib.Path(sys.argv[2]) / wheel.name, "w") as new:
        lines = []
        for name in old.namelist():
            if name.endswith("/RECORD"):
                record = name
            elif not name.endswith("/"):
                data = old.read(name)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
                lines.append(f"{name},sha256={digest},{len(data)}\n")
                new.writestr(name, data)
        new.writestr(record, "".join(lines) + f"{record},,\n")
"#;

/// Repacks an unpacked wheel without compression.
const PACK: &str = r#"
import pathlib, sys, zipfile
release, wheel = map(pathlib.Path, sys.argv[1:])
with zipfile.ZipFile(wheel, "w") as new:
    for file in sorted(release.rglob("*")):
        name = file.relative_to(release)
        if file.is_file() and name.parts[0] in ("nvidia", wheel.name.rsplit("-", 3)[0] + ".dist-info"):
            new.write(file, name)
"#;

fn python(script: &str, arguments: &[&Path]) {
    let output = Command::new("python3").args(["-I", "-c", script]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

pub(crate) fn wheels() -> &'static TempDir {
    static WHEELS: Shared = Shared::new();
    WHEELS.get_or_init(|| {
        let (plain, wheels) = (TempDir::new(), TempDir::new());
        for (version, cuda, requirement) in
            [("2.8.0", "12.8", "nvidia-cudnn-cu12==9.19.0.56"), ("2.7.1", "13.0", "nvidia-cudnn-cu13==9.19.0.56")]
        {
            pack(plain.path(), "torch", version, &[requirement], |dir| {
                std::fs::create_dir_all(dir.join("torch/lib")).unwrap();
                let text = format!("__version__ = '{version}'\ncuda = '{cuda}'\n");
                std::fs::write(dir.join("torch/version.py"), text).unwrap();
                std::fs::write(dir.join("torch/__init__.py"), "").unwrap();
                let beside = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/cublas/lib:\
                              $ORIGIN/../../nvidia/cuda_nvrtc/lib:$ORIGIN";
                support::ExtensionLibrary::new()
                    .with_rpath(beside)
                    .with_soname("libtorch_cuda.so")
                    .needing("libcudnn.so.9")
                    .build(&dir.join("torch/lib/libtorch_cuda.so"));
            });
        }
        // Some checks load this NVRTC.
        pack(plain.path(), "nvidia-cuda-nvrtc-cu12", "12.9.87", &[], |dir| {
            let lib = dir.join("nvidia/cuda_nvrtc/lib");
            std::fs::create_dir_all(&lib).unwrap();
            let version = "int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 9; return 0; }";
            for (file, code) in [("libnvrtc.so.12", version), ("libnvrtc-builtins.so.12.9", "")] {
                let soname = format!("-Wl,-soname,{file}");
                support::compile(code, &["-shared", "-fPIC", "-nostdlib", &soname], &lib.join(file));
            }
        });
        python(ADD_HASHES, &[stand_ins().path(), wheels.path()]);
        python(ADD_HASHES, &[plain.path(), wheels.path()]);
        wheels
    })
}

/// Returns the directory of a real wheel, or `None` if it cannot be downloaded.
pub(crate) fn real_wheel(id: &str, file: &str) -> Option<TempDir> {
    let release = support::release(id)?;
    let dir = TempDir::new();
    python(PACK, &[&release, &dir.path().join(file)]);
    Some(dir)
}
