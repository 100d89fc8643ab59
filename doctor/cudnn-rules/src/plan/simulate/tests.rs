use cudnn_frameworks::installation::InstallationReport;
use cudnn_probe::ld_so::SearchPath;
use cudnn_probe::{DIR_VARIABLE, Host};
use serde_json::json;

use super::*;
use crate::packages::python_problem;

const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";

fn change(site: Site) -> PackageChange {
    PackageChange::of(site)
}

fn newest(cuda_major: u32) -> String {
    crate::packages::contents::wheel(&format!("nvidia-cudnn-cu{cuda_major}")).unwrap().version
}

impl SimulatedMachine {
    fn knows(&mut self, change: PackageChange) -> bool {
        self.take(&Action::Packages(change)).is_ok()
    }

    fn cudnn(&self, dir: &Path) -> Option<(String, Option<u32>, usize)> {
        let report = self.within(|| InstallationReport::read(dir, &Host::current()))?;
        Some((report.package?.to_string(), report.cuda_major, report.libraries.len()))
    }
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn conda_installs_what_its_records_allow() {
    let (of_12, of_13) = (newest(12), newest(13));
    let pytorch = ("pytorch-2.8.0-cuda129_0", &["libcudnn >=9.10.1.4,<9.11"][..]);
    for (others, install, again, expected) in [
        (&[][..], &[][..], &["libcudnn=9.10.1.4"][..], Some(("9.10.1.4", 12, 8))),
        (&[], &["libcudnn>=9.19.0"], &[], Some((of_12.as_str(), 12, 10))),
        (&[], &["cudnn>=9.0.0"], &[], Some(("9.10.1.4", 12, 1))),
        (&[], &["cudnn", "cuda-version=13"], &[], Some((of_13.as_str(), 13, 10))),
        (&[pytorch], &["cudnn", "cuda-version=13"], &[], None),
        (&[pytorch], &["libcudnn>=9.10.0,<9.11"], &["libcudnn=9.10.1.4"], Some(("9.10.1.4", 12, 8))),
        (&[], &["another"], &[], None),
    ] {
        let root = tempfile::tempdir().unwrap();
        let cuda = &["cuda-version >=12,<13.0a0"][..];
        let meta = root.path().join("conda-meta");
        std::fs::create_dir(&meta).unwrap();
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("lib/libcudnn_graph.so.9"), "damaged").unwrap();
        let known = [
            ("cuda-version-12.9-h1_3", &[][..]),
            ("libcublas-12.9.1.4-h1_0", cuda),
            ("libcudnn-9.10.1.4-h1_0", cuda),
            ("cudnn-9.10.1.4-h1_0", &["libcudnn 9.10.1.4"]),
        ];
        for (record, depends) in known.iter().chain(others) {
            let files = if record.starts_with("libcudnn") { &["lib/libcudnn_graph.so.9"][..] } else { &[] };
            let text = json!({ "files": files, "depends": depends }).to_string();
            std::fs::write(meta.join(format!("{record}.json")), text).unwrap();
        }
        let mut simulation = SimulatedMachine::new(Facts::recorder());
        let change = change(Site::Conda(root.path().to_owned())).install(install.iter().copied());
        let change = change.reinstall(again.iter().copied());
        let is_known = simulation.knows(change);
        let found = simulation.cudnn(&root.path().join("lib")).filter(|_| is_known);
        let expected = expected.map(|(version, major, count)| {
            (format!("conda libcudnn {version}"), Some(major).filter(|_| count > 1), count)
        });
        assert_eq!(found, expected, "{install:?} {again:?} {others:?}");
        let is_for = |major: u32| root.path().join(format!("lib/libcublas.so.{major}")).leads_to_file();
        assert_eq!(simulation.within(|| is_for(13)), install.contains(&"cuda-version=13"), "{install:?}");
    }
}

#[test]
fn apt_changes_what_dpkg_records() {
    let mut simulation = SimulatedMachine::new(Facts::from_value(json!({})).unwrap());
    let system = Path::new(SYSTEM);
    let apt = || change(Site::System);
    let found =
        |version: &str, major, count| Some((format!("dpkg libcudnn9-cuda-{major} {version}-1"), Some(major), count));
    for (change, expected) in [
        (apt().install(["libcudnn9-cuda-12=9.10.2.21-1"]), found("9.10.2.21", 12, 8)),
        (apt().install(["libcudnn9-cuda-12"]), found("9.10.2.21", 12, 8)),
        (apt().install(["libcudnn9-cuda-12>=9.11,<9.19"]), found(&newest(12), 12, 10)),
        (apt().reinstall(["libcudnn9-cuda-12=9.19.0.56-1"]), found("9.19.0.56", 12, 8)),
        // Both packages contain the same files.
        (apt().install(["libcudnn9-cuda-13"]), found(&newest(13), 13, 10)),
        (apt().remove(["libcudnn9-cuda-13"]), None),
        (apt().install(["libcudnn9-cuda-12=9.19.0.56-1", "libcublas-12-9"]), found("9.19.0.56", 12, 8)),
    ] {
        assert!(simulation.knows(change.clone()), "{change:?}");
        assert_eq!(simulation.cudnn(system), expected, "{change:?}");
    }
    let cublas = || SearchPath::new(&Host::current()).resolve("libcublas.so.12", &[]);
    let expected = Path::new("/usr/local/cuda-12.9/targets/x86_64-linux/lib/libcublas.so.12");
    assert_eq!(simulation.within(cublas).as_deref(), Some(expected));
    for unknown in ["libcudnn9-cuda-12=9.19.0.56-2", "libcudnn8", "another"] {
        assert!(!simulation.knows(apt().install([unknown])), "{unknown}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn a_recreated_python_uses_the_packages_of_its_environment() {
    let world = tempfile::tempdir().unwrap();
    let (env, base) = (world.path().join("env"), world.path().join("base/bin"));
    support::write_program(base.join("python3.12"), "\x7fELF");
    std::fs::create_dir_all(env.join("lib/python3.12/site-packages/pip")).unwrap();
    std::fs::create_dir(env.join("bin")).unwrap();
    std::fs::write(env.join("pyvenv.cfg"), "include-system-site-packages = true\n").unwrap();
    std::os::unix::fs::symlink("/nowhere/python3.12", env.join("bin/python3")).unwrap();
    for (path, is_known) in [("nowhere", false), ("base/bin", true)] {
        let mut simulation = SimulatedMachine::new(Facts::recorder());
        simulation.change(|changes| changes.set_variable("PATH", Some(world.path().join(path).into())));
        // Every command for its packages follows.
        let reinstall = Action::Packages(change(Site::Environment(env.clone())).reinstall(["x==1"]));
        let lines = simulation.within(|| crate::plan::lines_of(&reinstall));
        assert_eq!(lines.first().is_some_and(|line| line.contains("-m venv")), is_known, "{lines:?}");
        assert_eq!(lines.last().is_some_and(|line| line.contains("x==1")), is_known, "{lines:?}");
        assert_eq!(simulation.take(&Action::Python(env.clone())).is_ok(), is_known, "{path}");
        assert_eq!(simulation.within(|| python_problem(&env).is_none()), is_known, "{path}");
        assert!(simulation.within(|| includes_base_packages(&env)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn pip_of_debian_installs_below_local() {
    for existing in ["lib/python3.11/site-packages", "local/lib/python3.11/dist-packages"] {
        let world = tempfile::tempdir().unwrap();
        let usr = world.path().join("usr");
        support::write_program(usr.join("bin/python3.11"), "");
        std::os::unix::fs::symlink("python3.11", usr.join("bin/python3")).unwrap();
        for dir in ["lib/python3/dist-packages", "lib/python3.11", existing] {
            std::fs::create_dir_all(usr.join(dir)).unwrap();
        }
        let main = Site::Environment(usr.clone());
        let interpreter = Site::Interpreter { program: usr.join("bin/python3.11"), root: usr.clone() };
        for site in [main, interpreter] {
            let mut simulation = SimulatedMachine::new(Facts::recorder());
            let install = change(site).install(["nvidia-cudnn-cu12"]);
            let dir = usr.join("local/lib/python3.11/dist-packages");
            let title = crate::plan::lines::title(&Action::Packages(install.clone()));
            assert_eq!(title, format!("install nvidia-cudnn-cu12 in {}/local", usr.display()));
            assert!(simulation.knows(install.clone()));
            assert_eq!(simulation.cudnn(&dir.join("nvidia/cudnn/lib")).map(|(_, _, count)| count), Some(10));
            // Packages there and new ones have one step.
            let local = Site::Environment(usr.join("local"));
            let is_main = matches!(install.site, Site::Environment(_));
            let merged = simulation.within(|| [local.merged_with(&install.site), install.site.merged_with(&local)]);
            assert_eq!(merged, [(); 2].map(|()| Some(install.site.clone()).filter(|_| is_main)));
            // The record is found again.
            let recorded = simulation.within(|| install.site.recorded_version("nvidia-cudnn-cu12"));
            assert_eq!(recorded, Some(newest(12)));
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "it writes files")]
fn a_new_environment_has_the_version_of_its_python() {
    let world = tempfile::tempdir().unwrap();
    let program = world.path().join("base/bin/python3");
    let dir = world.path().join("cudnn");
    for (python, is_known) in [("python3", false), ("python3.12", true)] {
        std::fs::create_dir_all(world.path().join("base/bin")).unwrap();
        std::fs::write(program.with_file_name(python), "").unwrap();
        if python != "python3" {
            std::fs::remove_file(&program).unwrap();
            std::os::unix::fs::symlink(python, &program).unwrap();
        }
        let mut simulation = SimulatedMachine::new(Facts::recorder());
        let site = Site::NewEnvironment { dir: dir.clone(), program: program.clone() };
        assert_eq!(simulation.knows(change(site).install(["nvidia-cudnn-cu12"])), is_known, "{python}");
        if is_known {
            assert!(simulation.take(&Action::Variable(Variable::Use(dir.clone()))).is_ok());
            let lib = dir.join("lib/python3.12/site-packages/nvidia/cudnn/lib");
            let used = simulation.within(|| cudnn_probe::facts::variable(DIR_VARIABLE));
            assert_eq!(used.as_deref(), Some(lib.as_os_str()));
            assert_eq!(simulation.cudnn(&lib), Some((format!("pip nvidia-cudnn-cu12 {}", newest(12)), Some(12), 10)));
            assert_eq!(simulation.within(|| python_problem(&dir)), None);
        }
    }
}
