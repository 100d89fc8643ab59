//! Tests which cuDNN the second of two frameworks in one process gets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::path::Path;

use cudnn_frameworks::{Pair, Survey, pairs};
use cudnn_probe::{Host, Version};

mod stand_ins;
use stand_ins::{Machine, cudnn, is_same};

const OLD: Version = Version::new(9, 1, 0);
const NEW: Version = Version::new(9, 10, 2);

fn pair<'a>(survey: &'a Survey, host: &Host, first: &str, second: &str) -> Pair<'a> {
    let found = pairs(survey, host);
    let names: Vec<_> = found.iter().map(|pair| (pair.first.kind.id, pair.second.kind.id)).collect();
    let index = names.iter().position(|names| *names == (first, second));
    found.into_iter().nth(index.unwrap_or_else(|| panic!("{names:?}"))).unwrap()
}

fn gets<'a>(pair: &'a Pair) -> &'a Path {
    &pair.second_opens.cudnn[0].path
}

/// As in microsoft/onnxruntime#21684: import torch first.
#[test]
fn a_library_without_a_run_path_gets_the_loaded_cudnn() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW).onnxruntime("1.22.0", true);
    let survey = machine.survey();
    let after = pair(&survey, &machine.host, "torch", "onnxruntime");
    let file = machine.site("nvidia/cudnn/lib/libcudnn.so.9");
    assert!(is_same(gets(&after), &file), "{after:?}");
    let before = pair(&survey, &machine.host, "onnxruntime", "torch");
    assert!(is_same(gets(&before), &file), "{before:?}");
    assert_eq!(pairs(&survey, &machine.host).len(), 2);
}

/// The RUNPATH of the second framework is ignored.
#[test]
fn both_frameworks_use_the_copy_of_the_first() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW).tensorflow();
    let other = machine.path("older");
    cudnn(&other, OLD);
    let machine = machine.env("LD_LIBRARY_PATH", &other);
    let survey = machine.survey();
    let wheel = machine.site("nvidia/cudnn/lib/libcudnn.so.9");
    for (first, second, expected) in
        [("torch", "tensorflow", wheel), ("tensorflow", "torch", other.join("libcudnn.so.9"))]
    {
        let pair = pair(&survey, &machine.host, first, second);
        assert!(is_same(gets(&pair), &expected), "{pair:?}");
    }
}

/// ld.so compares paths only with paths. The file becomes a second copy, and lookups by name return the first.
#[test]
fn a_file_that_is_opened_by_its_path_is_a_second_copy() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW).jax();
    let other = machine.path("pythonpath");
    cudnn(&other.join("nvidia/cudnn/lib"), OLD);
    let machine = machine.env("PYTHONPATH", &other);
    let survey = machine.survey();
    let after = pair(&survey, &machine.host, "torch", "jax");
    let wheel = machine.site("nvidia/cudnn/lib/libcudnn.so.9");
    assert!(is_same(gets(&after), &wheel), "{after:?}");
    let before = pair(&survey, &machine.host, "jax", "torch");
    assert!(gets(&before).starts_with(&other), "{before:?}");
}

/// As in SYSTRAN/faster-whisper#1182: CTranslate2's shim uses torch's libraries of a different version, and finds no
/// others.
#[test]
fn a_copy_under_another_name_is_separate_but_shares_what_it_opens() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW).ctranslate2("4.5.0", true);
    let survey = machine.survey();
    let after = pair(&survey, &machine.host, "torch", "ctranslate2");
    let opens = &after.second_opens;
    assert!(gets(&after).ends_with("ctranslate2.libs/libcudnn-74a4c495.so.9.1.0"), "{after:?}");
    assert_eq!((opens.cudnn[0].version, opens.version()), (Some(OLD), Some(NEW)), "{opens:?}");
    assert_eq!(opens.missing, ["libcudnn_cnn.so.9", "libcudnn_adv.so.9", "libcublas.so.12"]);
}

#[test]
fn a_framework_that_needs_no_cudnn_is_not_in_a_pair() {
    let machine = Machine::new().torch("2.9.1").cudart().cudnn(NEW).ctranslate2("4.8.5", false);
    assert_eq!(pairs(&machine.survey(), &machine.host).len(), 0);
}
