//! Compares the model of Windows' DLL search with Wine's behavior. Wine binds a missing symbol (error 127) to a
//! function that fails when it is called, so the test compares only the files.

use std::path::{Path, PathBuf};

use cudnn_probe::dll_search::{Mode, ProcessFacts, Simulation};
use support::TempDir;
use support::windows::{child, compile, import_library, path, path_list};

/// Opens a DLL, and prints the error or the path of the plugin that was loaded.
const OPENER: &str = r#"
#include <stdio.h>
#include <windows.h>
int main(int count, char **arguments) {
    char name[MAX_PATH];
    DWORD flags = arguments[1][0] == 'a' ? LOAD_WITH_ALTERED_SEARCH_PATH : arguments[1][0] == 'd' ? 0x1100 : 0;
    if (count > 3) LoadLibraryA(arguments[3]);
    if (!LoadLibraryExA(arguments[2], NULL, flags)) return printf("error %lu\n", GetLastError()), 0;
    GetModuleFileNameA(GetModuleHandleA("plugin.dll"), name, sizeof name);
    printf("%s\n", name);
    return 0;
}
"#;

#[test]
#[ignore = "needs Wine, MinGW and cuDNN for Windows"]
fn the_model_of_the_search_for_dlls_agrees_with_wine() {
    let world = TempDir::new();
    let root = std::fs::canonicalize(world.path()).unwrap();
    let dir = |name: &str| {
        let dir = root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    };
    let [app, dlls, tools] = ["app", "dlls with spaces", "tools"].map(dir);
    let program = app.join("opener.exe");
    compile(OPENER, &[], &program);
    let import = root.join("plugin.a");
    import_library("plugin.dll", &["plugin"], &import);
    let library = dlls.join("library.dll");
    let code = "__declspec(dllimport) int plugin(void); int library(void) { return plugin(); }";
    let flags = ["-shared", "-nostdlib", "-w", "-Wl,-e,0"];
    compile(code, &[&flags[..], &[import.to_str().unwrap()]].concat(), &library);
    let plugins: Vec<PathBuf> = [&dlls, &app, &tools].map(|dir| dir.join("Plugin.DLL")).to_vec();
    let make = |file: &PathBuf| compile("int plugin(void) { return 1; }", &flags, file);
    let facts = ProcessFacts::new();
    for (existing, loaded) in
        [(vec![0, 1, 2], None), (vec![1, 2], None), (vec![2], None), (vec![], None), (vec![0, 2], Some(2))]
    {
        plugins.iter().for_each(|file| drop(std::fs::remove_file(file)));
        existing.iter().for_each(|index: &usize| make(&plugins[*index]));
        let loaded: Option<&PathBuf> = loaded.map(|index: usize| &plugins[index]);
        for (word, mode) in
            [("standard", Mode::Standard), ("altered", Mode::AlteredSearchPath), ("default", Mode::DefaultDirs)]
        {
            let mut facts = facts.clone();
            facts.application_dir = Some(app.clone());
            facts.path = vec![tools.clone()];
            facts.loaded = loaded.cloned().into_iter().collect();
            let mut simulation = Simulation::new(facts);
            let expected = if simulation.open(&library, mode) {
                path(simulation.loaded("plugin.dll").unwrap())
            } else {
                format!("error {}", simulation.failures()[0].error_code())
            };
            let mut run = child(&program).env("WINEPATH", path_list(&[&tools])).argument(word).argument(path(&library));
            if let Some(loaded) = loaded {
                run = run.argument(path(loaded));
            }
            let output = run.run(&[]);
            let found = output.stdout.trim().to_owned();
            assert_eq!(found.to_lowercase(), expected.to_lowercase(), "{existing:?} {loaded:?} {mode:?}");
        }
    }
    // A 32-bit DLL, and a file that is not a DLL.
    std::fs::write(&library, "no DLL").unwrap();
    let mut simulation = Simulation::new(facts);
    assert!(!simulation.open(Path::new(&library), Mode::AlteredSearchPath));
    assert_eq!(simulation.failures()[0].error_code(), 193);
    let output = child(&program).argument("altered").argument(path(&library)).run(&[]);
    assert_eq!(output.stdout.trim(), "error 193");
}
