//! Tests real wheels: which versions they were built for and which cuDNN they would load. Downloads 270 MB, and 1.2 GB
//! more with `--ignored`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![cfg(target_arch = "x86_64")]

use std::path::Path;

use cudnn_frameworks::{Framework, Opens, SearchRule, ValueSource};
use cudnn_probe::Version;
use cudnn_probe::ld_so::Rule;
use support::Wheel;

mod stand_ins;
mod wheels;
use stand_ins::{Machine, framework};
use wheels::*;

/// Creates an environment with hard links to these wheels, because ld.so derives `$ORIGIN` from the path.
fn install(machine: &Machine, wheels: &[Wheel]) -> Option<()> {
    for wheel in wheels {
        link(&wheel.unpacked()?, machine.environment.import_dir());
    }
    Some(())
}

fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            link(&entry.path(), &target);
        } else {
            let _ = std::os::unix::fs::symlink(entry.path(), target);
        }
    }
}

fn built_for(framework: &Framework) -> (Option<(u32, Option<u32>)>, Option<Version>) {
    let built_for = &framework.built_for;
    (built_for.cuda.as_ref().map(|cuda| cuda.value), built_for.cudnn.as_ref().map(|cudnn| cudnn.value))
}

fn names(opens: &Opens) -> Vec<&str> {
    opens.cudnn.iter().map(|opened| opened.name.as_str()).collect()
}

fn targets(framework: &Framework) -> Vec<String> {
    let code = framework.built_for.gpu_code.iter().flat_map(|code| &code.value);
    code.map(ToString::to_string).collect()
}

#[test]
fn ctranslate2_contained_a_shim_and_needs_none_now() {
    let machine = Machine::new();
    let Some(()) = install(&machine, &[CTRANSLATE2_4_4]) else { return };
    let survey = machine.survey();
    let old = framework(&survey, "ctranslate2");
    assert_eq!(built_for(old), (Some((12, None)), Some(Version::new(8, 9, 7))));
    assert!(matches!(&old.built_for.cudnn.as_ref().unwrap().source, ValueSource::File(_)), "{old:?}");
    assert_eq!(names(&old.opens), ["libcudnn-463fd6d5.so.8.9.7"]);
    assert!(matches!(&old.opens.cudnn[0].by, SearchRule::LdSo(Rule::Rpath(_))), "{old:?}");
    assert_eq!(old.opens.missing, ["libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8", "libcublas.so.12"]);

    let machine = Machine::new();
    let Some(()) = install(&machine, &[CTRANSLATE2_4_8]) else { return };
    let survey = machine.survey();
    let new = framework(&survey, "ctranslate2");
    assert_eq!(built_for(new), (Some((12, None)), None));
    assert!(new.opens.needs_none && new.opens.cudnn.is_empty(), "{new:?}");
    assert_eq!(new.opens.missing, ["libcublas.so.12"]);
    assert_eq!(targets(new), ["5.3", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.6+PTX"]);
}

#[test]
fn the_jax_plugin_finds_the_wheel_by_python_code_or_run_path() {
    let machine = Machine::new();
    let Some(()) = install(&machine, &[JAX_PLUGIN, JAX_PJRT]) else { return };
    let survey = machine.survey();
    let jax = framework(&survey, "jax");
    assert_eq!(built_for(jax), (Some((12, None)), Some(Version::new(9, 10, 2))));
    assert!(matches!(&jax.built_for.cudnn.as_ref().unwrap().source, ValueSource::Requirement(_)), "{jax:?}");
    assert!(jax.built_for.compiles_at_run_time && !jax.opens.needs_none && jax.opens.cudnn.is_empty(), "{jax:?}");
    assert!(targets(jax).contains(&"12.0+PTX".to_owned()), "{:?}", targets(jax));
    let machine = machine.cudnn(Version::new(9, 10, 2));
    let survey = machine.survey();
    assert_eq!(framework(&survey, "jax").opens.cudnn[0].by, SearchRule::Python);
    // Python searches another directory first, but it lacks the library. The run path leads to the library next to it.
    let other = machine.path("pythonpath");
    std::fs::create_dir_all(other.join("nvidia/cudnn/lib")).unwrap();
    let survey = machine.env("PYTHONPATH", &other).survey();
    let shim = &framework(&survey, "jax").opens.cudnn[0];
    assert!(matches!(&shim.by, SearchRule::LdSo(Rule::Rpath(_))), "{shim:?}");
}

#[test]
#[ignore = "downloads large wheels"]
fn onnx_runtime_was_linked_to_cudnn_and_opens_it_by_name_now() {
    for (wheel, cuda, is_linked) in [(ONNX_1_22, (12, Some(2)), true), (ONNX_1_31, (13, Some(0)), false)] {
        let machine = Machine::new().cudnn(Version::new(9, 10, 2));
        let Some(()) = install(&machine, &[wheel]) else { return };
        let survey = machine.survey();
        let onnx = framework(&survey, "onnxruntime");
        assert_eq!(built_for(onnx), (Some(cuda), Some(Version::new(9, 0, 0))));
        assert!(!onnx.opens.needs_none && onnx.opens.cudnn.is_empty(), "{onnx:?}");
        assert_eq!(onnx.opens.is_optional, !is_linked);
        assert!(onnx.opens.missing.contains(&"libcudnn.so.9".to_owned()), "{onnx:?}");
        let dir = machine.site("nvidia/cudnn/lib");
        let survey = machine.env("LD_LIBRARY_PATH", dir).survey();
        let shim = &framework(&survey, "onnxruntime").opens.cudnn[0];
        assert_eq!(shim.by, SearchRule::LdSo(Rule::LibraryPath));
    }
}

/// `readelf -d`: libctranslate2 needs the shim `libcudnn-74a4c495.so.9.1.0` in ctranslate2.libs. The shim only names
/// its libraries and has no run path to a wheel: `ctranslate2.libs` in 4.5.0, `$ORIGIN` in 4.6.0. `strings`:
/// libctranslate2 opens libcublas.so.12.
#[test]
#[ignore = "downloads large wheels"]
fn ctranslate2_4_5_and_4_6_contain_the_shim_of_9_1() {
    const SHIM: &str = "libcudnn-74a4c495.so.9.1.0";
    for wheel in [CTRANSLATE2_4_5, CTRANSLATE2_4_6] {
        let machine = Machine::new().cudnn(Version::new(9, 1, 0));
        let Some(()) = install(&machine, &[wheel]) else { return };
        let survey = machine.survey();
        let found = framework(&survey, "ctranslate2");
        assert_eq!(built_for(found), (Some((12, None)), Some(Version::new(9, 1, 0))), "{}", wheel.version);
        assert_eq!(names(&found.opens), [SHIM], "{}", wheel.version);
        let missing = |name: &str| found.opens.missing.iter().any(|missing| missing == name);
        for name in ["libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcublas.so.12"] {
            assert!(missing(name), "{}: {name}: {:?}", wheel.version, found.opens.missing);
        }
        // ld.so searches the directory of the environment's cuDNN, which completes the libraries.
        let dir = machine.site("nvidia/cudnn/lib");
        let survey = machine.env("LD_LIBRARY_PATH", dir).survey();
        let found = framework(&survey, "ctranslate2");
        assert_eq!(found.opens.missing, ["libcublas.so.12"], "{}", wheel.version);
        assert!(names(&found.opens).contains(&"libcudnn_graph.so.9"), "{:?}", found.opens);
    }
}

/// METADATA: `nvidia-cudnn-cu13<10.0,>=9.12.0.46` with the extra. `readelf -d xla_cuda_plugin.so`: no dependencies on
/// CUDA libraries, RPATH to `../../nvidia/cudnn/lib` and `../../nvidia/cu13/lib`.
#[test]
#[ignore = "downloads large wheels"]
fn jax_for_cuda_13_requires_cudnn_9_12_and_finds_the_wheel() {
    let machine = Machine::new();
    let Some(()) = install(&machine, &[JAX_13_PLUGIN, JAX_13_PJRT]) else { return };
    let survey = machine.survey();
    let jax = framework(&survey, "jax");
    assert_eq!(built_for(jax), (Some((13, None)), Some(Version::new(9, 12, 0))));
    assert!(!jax.opens.needs_none && jax.opens.cudnn.is_empty(), "{jax:?}");
    for name in ["libcudart.so.13", "libcublas.so.13"] {
        assert!(jax.opens.missing.iter().any(|missing| missing == name), "{name}: {:?}", jax.opens.missing);
    }
    let machine = machine.cudnn(Version::new(9, 12, 0));
    let survey = machine.survey();
    let opens = &framework(&survey, "jax").opens;
    assert_eq!((opens.cudnn[0].by.clone(), opens.version()), (SearchRule::Python, Some(Version::new(9, 12, 0))));
    assert!(framework(&survey, "jax").searches(&machine.site("nvidia/cu13/lib"), &machine.host));
}

/// `_wheel.json` names CUDA 13.x but no cuDNN. `cupy_backends/cuda/libs` lacks a cuDNN module.
#[test]
#[ignore = "downloads large wheels"]
fn cupy_for_cuda_13_needs_no_cudnn() {
    let machine = Machine::new();
    let Some(()) = install(&machine, &[CUPY_CUDA_13]) else { return };
    let survey = machine.survey();
    let cupy = framework(&survey, "cupy");
    assert_eq!(built_for(cupy), (Some((13, None)), None));
    assert!(cupy.opens.needs_none && cupy.opens.users.is_empty() && cupy.opens.cudnn.is_empty(), "{cupy:?}");
}

#[test]
#[ignore = "downloads large wheels"]
fn one_module_of_cupy_used_cudnn_8() {
    for (wheel, uses_cudnn) in [(CUPY_13, true), (CUPY_14, false)] {
        let machine = Machine::new();
        let Some(()) = install(&machine, &[wheel]) else { return };
        let survey = machine.survey();
        let cupy = framework(&survey, "cupy");
        assert_eq!(built_for(cupy).1, uses_cudnn.then_some(Version::new(8, 8, 1)));
        assert_eq!((cupy.opens.needs_none, cupy.opens.users.len()), (!uses_cudnn, usize::from(uses_cudnn)));
    }
}
