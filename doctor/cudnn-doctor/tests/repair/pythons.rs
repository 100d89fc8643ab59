//! Repairs environments without Python or pip, and packages that pip installed outside of an environment.

use crate::page::run;
use crate::situation::Situation;
use crate::venv::Venv;

#[test]
fn environments_without_python_or_pip_are_repaired() {
    let without_python = "rm $VIRTUAL_ENV/bin/python $VIRTUAL_ENV/bin/python3; \
                          ln -s /nowhere/python3 $VIRTUAL_ENV/bin/python3; ln -s python3 $VIRTUAL_ENV/bin/python";
    let situations = [
        Situation::new("the environment's Python is gone", format!("complete; {without_python}"), &["C028"]),
        Situation::new(
            "the environment's Python is gone, and a library",
            format!("complete; rm $LIB/libcudnn_ops.so.9; {without_python}"),
            &["C012"],
        ),
        Situation::new(
            "the environment's Python is gone, and the directory of the libraries",
            format!("complete; rm -r $LIB; {without_python}"),
            &["C010"],
        ),
        Situation::new(
            "a directory of pip install --target, a truncated library",
            "pip --quiet install --no-deps --target $HOME/libraries nvidia-cudnn-cu12; \
             install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12; \
             truncate_file $HOME/libraries/nvidia/cudnn/lib/libcudnn_cnn.so.9",
            &["C013"],
        )
        .shell(
            "export CUDNN_LOADER_DIR=$HOME/libraries/nvidia/cudnn/lib LD_LIBRARY_PATH=$HOME/libraries/nvidia/cudnn/lib:$LD_LIBRARY_PATH",
        ),
        Situation::new(
            "a directory of pip install --target with other packages, a truncated library",
            "pip --quiet install --no-deps --target $HOME/libraries nvidia-cudnn-cu12 nvidia-cublas-cu12; \
             install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12; \
             truncate_file $HOME/libraries/nvidia/cudnn/lib/libcudnn_cnn.so.9",
            &["C013"],
        )
        .shell(
            "export CUDNN_LOADER_DIR=$HOME/libraries/nvidia/cudnn/lib LD_LIBRARY_PATH=$HOME/libraries/nvidia/cudnn/lib:$LD_LIBRARY_PATH",
        )
        .leaves(&["C013"]),
        Situation::new(
            "the index lacks the release of the damaged wheel",
            "complete; install nvidia-cudnn-cu12==9.18.0.56; rm $LIB/libcudnn_ops.so.9; \
             mkdir index; cp $PIP_FIND_LINKS/nvidia_cudnn_cu12-9.19* index",
            &["C012"],
        )
        .shell("export PIP_FIND_LINKS=$HOME/index")
        .leaves(&["C012"]),
        Situation::new(
            "the environment's Python is of another version now",
            "complete; for name in python python3; do ln -sf $HOME/python3.99 $VIRTUAL_ENV/bin/$name; done; \
             printf '#!/bin/sh\\nexit 1\\n' >python3.99; chmod +x python3.99",
            &["C028"],
        ),
    ];
    run("Environments", &situations, || Box::new(Venv::new(true).searched()));
}

#[test]
fn environments_without_pip_are_repaired() {
    let install = "pip --quiet --python $VIRTUAL_ENV install --no-deps nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12";
    let situations = [
        Situation::new(
            "a library is deleted",
            format!("{install} nvidia-cudnn-cu12; rm $LIB/libcudnn_ops.so.9"),
            &["C012"],
        ),
        Situation::new(
            "two wheels are installed over each other",
            format!("{install} nvidia-cudnn-cu12; {install} nvidia-cudnn-cu13"),
            &["C023"],
        ),
        Situation::new("cuDNN is not installed", install, &["C010"]),
    ];
    run("Environments without pip", &situations, || Box::new(Venv::new(false).searched()));
}

#[test]
fn packages_of_a_user_are_repaired() {
    let situations = [
        Situation::new("a library is deleted", "complete; rm $LIB/libcudnn_ops.so.9", &["C012"]),
        Situation::new("too old for the program", "complete; install nvidia-cudnn-cu12==9.18.0.56", &["C018"])
            .options("--no-load --minimum 9.19"),
    ];
    run("Packages of a user", &situations, || Box::new(Venv::with_user_packages()));
}
