//! Repairs problems of the shell's variables, and library directories without a package manager.

use crate::page::run;
use crate::situation::Situation;
use crate::venv::Venv;

/// Copies a release to `opt`, like an unpacked archive.
const ARCHIVE: &str = "ARCHIVE=opt/cudnn-linux-x86_64-9.19.0.56_cuda12-archive/lib; mkdir -p $ARCHIVE; \
                       cp $NEW/*.so.9 $ARCHIVE; install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12";

const USER: &str =
    "cudnn-doctor() { setpriv --reuid=65534 --regid=65534 --clear-groups \"$(type -P cudnn-doctor)\" \"$@\"; }";

#[test]
fn variables_of_the_shell_are_repaired() {
    let with_archive = |damage: &str| format!("{ARCHIVE}; cd $ARCHIVE; {damage}");
    let searched = "LD_LIBRARY_PATH=$HOME/opt/cudnn-linux-x86_64-9.19.0.56_cuda12-archive/lib:$LD_LIBRARY_PATH";
    let situations = [
        Situation::new("LD_LIBRARY_PATH leads to another cuDNN", "complete; cp -r $OLD old", &["C021"])
            .shell("LD_LIBRARY_PATH=$HOME/old:$LD_LIBRARY_PATH"),
        Situation::new(
            "LD_LIBRARY_PATH leads to the shim of another cuDNN",
            "complete; mkdir old; cp $OLD/libcudnn.so.9 old",
            &["C022"],
        )
        .shell("LD_LIBRARY_PATH=$HOME/old:$LD_LIBRARY_PATH"),
        Situation::new("LD_LIBRARY_PATH does not lead to the wheel", "complete", &["C020"])
            .shell("unset LD_LIBRARY_PATH"),
        Situation::new("CUDNN_LOADER_DIR names a directory that is gone", "complete", &["C010"])
            .shell("export CUDNN_LOADER_DIR=$HOME/gone"),
        Situation::new("CUDNN_LOADER_DIR names the directory above", "complete", &["C010"])
            .shell("export CUDNN_LOADER_DIR=$SITE/nvidia/cudnn"),
        Situation::new("CUDNN_LOADER_DIR names a cuDNN that is too old", "complete; cp -r $OLD old", &["C018"])
            .shell("export CUDNN_LOADER_DIR=$HOME/old")
            .options("--no-load --minimum 9.19"),
        Situation::new("CUDNN_LOGDEST_DBG names a file in a directory that is missing", "complete", &["C060"])
            .shell("export CUDNN_LOGDEST_DBG=$HOME/logs/cudnn.log"),
        Situation::new("CUDNN_LOGLEVEL_DBG is no level", "complete", &["C060"])
            .shell("export CUDNN_LOGLEVEL_DBG=debug"),
        Situation::new("the log's destination is a directory", "complete; mkdir logs", &["C060"])
            .shell("export CUDNN_LOGDEST_DBG=$HOME/logs"),
        Situation::new("VIRTUAL_ENV names an environment that was removed", "complete", &["C060"])
            .shell("export CUDNN_LOADER_DIR=$LIB VIRTUAL_ENV=$HOME/removed")
            .leaves(&["C060"]),
        Situation::new(
            "an archive lost its links",
            with_archive("for file in *; do mv $file $file.19.0; done"),
            &["C010"],
        )
        .shell(searched),
        Situation::new(
            "an archive lost one link",
            with_archive("mv libcudnn_ops.so.9 libcudnn_ops.so.9.19.0"),
            &["C012"],
        )
        .shell(searched),
        Situation::new(
            "an archive has a library of another release",
            with_archive("cp $OLD/libcudnn_adv.so.9 libcudnn_adv.so.9"),
            &["C014"],
        )
        .shell(searched)
        .leaves(&["C014"]),
        Situation::new(
            "copied files have a library of another release",
            "mkdir copied; cp $NEW/*.so.9 copied; cp $OLD/libcudnn_adv.so.9 copied; \
             install nvidia-cublas-cu12 nvidia-cuda-nvrtc-cu12",
            &["C014"],
        )
        .shell("LD_LIBRARY_PATH=$HOME/copied:$LD_LIBRARY_PATH")
        .leaves(&["C014"]),
        // The files are hard links that all situations share, so copy them first.
        Situation::new(
            "the user may not read the directory of the wheel",
            "complete; cp -a env own; rm -r env; mv own env; chown -R 65534:65534 $HOME; chmod 0 $LIB",
            &["C010"],
        )
        .shell(USER),
        Situation::new(
            "the user may not read a library",
            "complete; cp -a env own; rm -r env; mv own env; chown -R 65534:65534 $HOME; chmod 0 $LIB/libcudnn_cnn.so.9",
            &["C013"],
        )
        .shell(USER),
    ];
    run("Variables and copies", &situations, || Box::new(Venv::new(true).searched()));
}
