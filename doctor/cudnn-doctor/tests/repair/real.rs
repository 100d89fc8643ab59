//! Repairs NVIDIA's own wheels of the JIT-only cuDNN, which the check loads.

use crate::page::run;
use crate::situation::Situation;
use crate::venv::Venv;
use crate::wheels::real_wheel;

#[test]
fn real_wheels_are_repaired() {
    let Some(wheel) =
        real_wheel("jit-cu12-9.19.0", "nvidia_cudnn_jit_cu12-9.19.0.56-py3-none-manylinux_2_27_x86_64.whl")
    else {
        return;
    };
    let jit = "install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12 nvidia-cudnn-jit-cu12";
    let with = |damage: &str| format!("{jit}; {damage}");
    let situations = [
        Situation::new("the main library is truncated", with("truncate_file $JIT/libcudnn_graph.so.9"), &["C010"])
            .options(""),
        Situation::new("a library is deleted", with("rm $JIT/libcudnn_engines_runtime_compiled.so.9"), &["C012"])
            .options(""),
        Situation::new(
            "a byte of a library is not the one that was installed",
            with("printf x | dd of=$JIT/libcudnn_graph.so.9 bs=1 seek=2000000 conv=notrunc status=none"),
            &["C024"],
        )
        .options("--verify"),
        Situation::new("the program calls a function that it lacks", jit, &["C019"])
            .options("--no-load --function cudnnConvolutionForward"),
        Situation::new(
            "LD_LIBRARY_PATH leads to it, and to the full cuDNN of another release",
            with("install nvidia-cudnn-cu12==9.18.0.56"),
            &["C022"],
        )
        .shell("LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$LIB"),
    ];
    run("NVIDIA's wheels", &situations, || Box::new(Venv::new(true).with_wheels(wheel.path()).searched_for_jit()));
}
