//! Repairs environments of the real uv, where files are links to uv's cache.

use std::path::PathBuf;

use support::{Wheel, not_run};

use crate::page::run;
use crate::situation::Situation;
use crate::venv::Venv;
use crate::world::World;

/// Recreates the environment with uv.
const MAKE: &str = "rm -r env; uv --quiet venv --python \"$(python3 -c 'import sys; print(sys._base_executable)')\" env; \
                    uv() { command uv --quiet \"$@\"; }; \
                    uv pip install nvidia-cudnn-cu12 nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12";

#[test]
fn environments_of_uv_are_repaired() {
    if cfg!(not(target_arch = "x86_64")) {
        return not_run("the repairs by uv", "the wheel is for x86-64");
    }
    let Some(uv) = Wheel::UV.unpacked() else { return };
    let bin: PathBuf = uv.join("bin");
    let made = |damage: &str| format!("{MAKE}; {damage}");
    let situations = [
        Situation::new("nothing is damaged", made("true"), &[]),
        Situation::new("a library is deleted", made("rm $LIB/libcudnn_ops.so.9"), &["C012"]),
        Situation::new(
            "a library is truncated in place, and so in uv's cache",
            made("truncate --size=1000 $LIB/libcudnn_cnn.so.9"),
            &["C013"],
        ),
        Situation::new("the library directory is deleted", made("rm -r $LIB"), &["C010"]),
        Situation::new("two wheels are installed over each other", made("uv pip install nvidia-cudnn-cu13"), &["C023"]),
        Situation::new("too old for the program", made("uv pip install nvidia-cudnn-cu12==9.18.0.56"), &["C018"])
            .options("--no-load --minimum 9.19"),
        Situation::new("cuBLAS is missing", made("uv pip uninstall nvidia-cublas-cu12"), &["C030"]),
        Situation::new(
            "the environment's Python is gone, and a library",
            made("rm $LIB/libcudnn_ops.so.9; ln -sf /nowhere/python3 env/bin/python"),
            &["C012"],
        ),
    ];
    run("uv", &situations, || Box::new(Venv::of(World::new("env", false).first_on_path(&bin)).searched()));
}
