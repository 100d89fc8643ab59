//! Follows plans for conda environments, with a stand-in that installs fake packages with conda's records.

use cudnn_probe::Library;
use serde_json::Value;
use support::write_program;

use crate::frameworks::wheels;
use crate::random::{codes, steps, wrong};
use crate::world::World;
use crate::{CU12, CU13};

/// Installs the newest cuDNN with dependencies, for the CUDA release of a specification or record.
const CONDA: &str = r#"#!/usr/bin/env python3
import glob, json, os, shutil, sys
words = iter(sys.argv[2:])
specs = []
for word in words:
    if word == "--prefix":
        prefix = next(words)
    elif word == "--channel":
        next(words)
    elif not word.startswith("--"):
        specs.append(word)
records = lambda name: glob.glob(f"{prefix}/conda-meta/{name}-[0-9]*.json")
wanted = [spec.split("=")[1] for spec in specs if spec.startswith("cuda-version=")]
major = wanted[0] if wanted else os.path.basename(records("cuda-version")[0]).split("-")[2].split(".")[0]
channel = os.path.join(os.path.dirname(__file__), f"../cuda-{major}")
for name, version, library in [("cuda-version", f"{major}.2", None), ("libcublas", f"{major}.2.1.4", "cublas"),
        ("cuda-nvrtc", f"{major}.2.86", "nvrtc"), ("libcudnn", "9.19.0.56", "cudnn"), ("cudnn", "9.19.0.56", None)]:
    for record in records(name):
        for file in json.load(open(record))["files"]:
            if os.path.exists(f"{prefix}/{file}"):
                os.remove(f"{prefix}/{file}")
        os.remove(record)
    files = [os.path.basename(file) for file in glob.glob(f"{channel}/lib{library}*")]
    os.makedirs(f"{prefix}/lib", exist_ok=True)
    os.makedirs(f"{prefix}/conda-meta", exist_ok=True)
    for file in files:
        shutil.copy(f"{channel}/{file}", f"{prefix}/lib/{file}")
    depends = [] if name == "cuda-version" else [f"cuda-version >={major},<{int(major) + 1}.0a0"]
    record = {"name": name, "version": version, "files": [f"lib/{file}" for file in files], "depends": depends}
    json.dump(record, open(f"{prefix}/conda-meta/{name}-{version}-h1_0.json", "w"))
"#;

/// Returns a machine with cuDNN for CUDA 12 in an active conda environment.
fn world() -> World {
    let world = World::new("env", false).with_wheels(wheels().path());
    let (home, root) = (world.home().to_owned(), world.home().join("conda"));
    write_program(home.join("bin/conda"), CONDA);
    for cudnn in [CU12, CU13] {
        let (major, dir) = (cudnn.cuda_major, home.join(format!("cuda-{}", cudnn.cuda_major)));
        cudnn.copy_to(&dir);
        for name in ["cublas.so", "cublasLt.so", "nvrtc.so", "nvrtc-builtins.so"] {
            let minor = if name.contains("builtins") { ".2" } else { "" };
            let file = format!("lib{name}.{major}{minor}");
            support::compile("", &["-shared", "-nostdlib", &format!("-Wl,-soname,{file}")], &dir.join(&file));
        }
    }
    let world = world.variable("LD_LIBRARY_PATH", root.join("lib")).variable("VIRTUAL_ENV", "");
    let world = world.variable("CONDA_PREFIX", &root).first_on_path(&home.join("bin"));
    world.sh("conda install --yes --prefix conda cudnn cuda-version=12");
    world
}

/// Follows and returns the plan, which must keep its promises.
fn follow(world: &World, code: &str, options: &[&str]) -> Vec<String> {
    let report = world.report_after("sh", "", options);
    assert!(wrong(&report).contains(code), "{report:#}");
    let (plan, promised) = (steps(&report), codes(&report["after_plan"]));
    let after = world.report_after("sh", &plan.join("\n"), options);
    let is_kept = !promised.contains(code) && wrong(&after).is_subset(&promised);
    assert!(is_kept && steps(&after).is_empty(), "{plan:#?} {report:#}\n{after:#}");
    plan
}

#[test]
fn plans_for_conda_are_verified() {
    let broken = world();
    std::fs::remove_file(broken.home().join("conda/lib").join(Library::Ops.file_name())).unwrap();
    let plan = follow(&broken, "C012", &[]);
    assert!(plan[0].contains("--force-reinstall"), "{plan:?}");
    let plan = follow(&world(), "C018", &["--cuda", "13"]);
    assert!(plan.len() == 1 && plan[0].ends_with("cudnn cuda-version=13"), "{plan:?}");
}

/// A framework of pip uses the cuDNN for CUDA 12.
#[test]
fn a_plan_for_conda_that_breaks_a_framework_is_refused() {
    let world = world();
    world.unpack("onnxruntime-gpu==1.22.0");
    world.sh("cp -a env/lib/python3* conda/lib/; mkdir -p conda/bin; cp -a env/bin/python3 conda/bin/");
    let report: Value = world.report_after("sh", "", &["--cuda", "13"]);
    let found = report["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "C018").unwrap();
    let help = found["help"].as_str().unwrap();
    assert!(help.contains("it would lead to C07") && steps(&report).is_empty(), "{report:#}");
}
