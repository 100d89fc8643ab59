//! Runs the planner with a real cuDNN that plans for a described H200, or with a stand-in that executes.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use support::{Child, FakeLibrary, Library, PlanningLibraries, Subject, TempDir, Version};

use crate::plans::PLANNER;

/// A directory with cuDNN.
pub(super) struct Planning {
    pub(super) dir: TempDir,
    pub(super) cudnn: PathBuf,
    /// `None` for the stand-in.
    pub(super) libraries: Option<PlanningLibraries>,
}

impl Planning {
    pub(super) fn real(test: &str, release: &str) -> Option<Self> {
        let (libraries, cudnn) = PlanningLibraries::for_release(test, release)?;
        let dir = TempDir::new();
        std::fs::write(dir.path().join("h200.json"), cudnn_backend::device::H200).unwrap();
        Some(Planning { dir, cudnn, libraries: Some(libraries) })
    }

    pub(super) fn stand_in() -> Self {
        let dir = TempDir::new();
        let code = include_str!("../../layers/planner.c");
        let graph =
            FakeLibrary::new(Library::Graph, Version::new(9, 19, 0)).with_code(code).with_body("LOG; return 0;");
        graph.build(&dir.file(Library::Graph));
        Planning { cudnn: dir.path().to_owned(), dir, libraries: None }
    }

    /// Returns the file that describes the H200.
    pub(super) fn device(&self) -> String {
        self.dir.path().join("h200.json").display().to_string()
    }

    /// Returns the planner with directories for cuDNN and cached plans.
    pub(super) fn child(&self) -> Child {
        let child = Child::new(PLANNER, Subject::Loader, &self.cudnn);
        let child = child.env("CUDNN_PLANS_DIR", self.dir.path().join("plans"));
        match &self.libraries {
            Some(libraries) => child.env("LD_LIBRARY_PATH", &libraries.path),
            None => child,
        }
    }
}

/// The stand-in for NVRTC compiles a program again if the file with the result is damaged or belongs to another program.
#[test]
fn compiled_programs_are_stored_and_verified() {
    let Some(planning) = Planning::real("compiled_programs_are_stored_and_verified", "jit-cu12-9.19.0") else { return };
    let (stand_in, _) = planning.libraries.as_ref().unwrap().path.split_once(':').unwrap();
    let results = Path::new(stand_in).join("results");
    std::fs::remove_file(&results).unwrap();
    std::fs::create_dir(&results).unwrap();
    // Two of three plans consist of the same program. The inodes of the files change when they are replaced.
    let plan = || -> BTreeMap<PathBuf, (u64, Vec<u8>)> {
        let output = planning.child().run(&["none", "real", "7", &planning.device()]);
        assert_eq!(output.stdout.matches("JSON of 556").count(), 3, "{output:#?}");
        let files = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().path());
        files.map(|file| (file.clone(), (file.metadata().unwrap().ino(), std::fs::read(file).unwrap()))).collect()
    };
    let stored = plan();
    assert_eq!(stored.len(), 2);
    assert!(stored == plan(), "a result is stored again");
    let [(file, (_, right)), (_, (_, other))] = stored.iter().collect::<Vec<_>>().try_into().unwrap();
    let middle = right.len() / 2;
    let flipped = [&right[..middle], &[!right[middle]], &right[middle + 1..]].concat();
    for wrong in [&right[..middle], &flipped, other] {
        std::fs::write(file, wrong).unwrap();
        let (_, replaced) = &plan()[file];
        assert!(replaced == right, "a wrong result of {} bytes is used", wrong.len());
    }
}
