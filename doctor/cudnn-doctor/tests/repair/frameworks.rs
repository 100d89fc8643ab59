//! Repairs environments with a different cuDNN than PyTorch requires, with stand-ins for PyTorch.

use crate::page::run;
use crate::situation::Situation;
use crate::venv::Venv;

#[test]
fn the_cudnn_of_frameworks_is_repaired() {
    let situations = [
        Situation::new("nothing is damaged", "complete torch==2.8.0", &[]),
        Situation::new(
            "PyTorch requires another cuDNN",
            "complete torch==2.8.0; install nvidia-cudnn-cu12==9.18.0.56",
            &["C071", "C073"],
        ),
        Situation::new(
            "the cuDNN of PyTorch is not installed",
            "complete torch==2.8.0; pip --quiet uninstall --yes nvidia-cudnn-cu12",
            &["C070", "C073"],
        ),
        Situation::new(
            "PyTorch for CUDA 12, cuDNN for CUDA 13",
            "complete torch==2.8.0; pip --quiet uninstall --yes nvidia-cudnn-cu12; install nvidia-cudnn-cu13",
            &["C071", "C073"],
        ),
        Situation::new(
            "PyTorch for CUDA 13, cuDNN for CUDA 12",
            "complete torch==2.7.1; install nvidia-cublas==13.1.0.3 nvidia-cuda-nvrtc==13.0.88",
            &["C071", "C073"],
        ),
        Situation::new(
            "PyTorch for CUDA 12, both wheels of cuDNN",
            "complete torch==2.8.0; install nvidia-cudnn-cu13",
            &["C023", "C071"],
        ),
        Situation::new(
            "a library of PyTorch's cuDNN is deleted",
            "complete torch==2.8.0; rm $LIB/libcudnn_ops.so.9",
            &["C012", "C087"],
        ),
        Situation::new(
            "the main library of PyTorch's cuDNN is truncated",
            "complete torch==2.8.0; truncate_file $LIB/libcudnn_graph.so.9",
            &["C010", "C087"],
        ),
        Situation::new(
            "a library of PyTorch is truncated",
            "complete torch==2.8.0; truncate_file $SITE/torch/lib/libtorch_cuda.so",
            &["C086"],
        ),
        Situation::new(
            "LD_LIBRARY_PATH leads PyTorch to an older cuDNN",
            "complete torch==2.8.0; cp -r $OLD old",
            &["C021", "C022", "C072"],
        )
        .shell("export LD_LIBRARY_PATH=$HOME/old"),
        Situation::new("LD_PRELOAD gives PyTorch an older cuDNN", "complete torch==2.8.0; cp -r $OLD old", &["C071"])
            .shell("export LD_PRELOAD=$HOME/old/libcudnn.so.9"),
    ];
    run("Frameworks", &situations, || Box::new(Venv::new(true)));
}
