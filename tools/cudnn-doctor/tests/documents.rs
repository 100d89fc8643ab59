//! Compares pages of the documentation with the doctor and the bindings.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use cudnn_loader::cudnnStatus_t;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)).unwrap()
}

/// Returns whether the help of a subcommand lists this option.
fn has_option(subcommand: Option<&str>, option: &str) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(subcommand).arg("--help").output().unwrap();
    assert!(output.status.success(), "{subcommand:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().split([' ', ',', '\n', '=', '[']).any(|word| word == option)
}

#[test]
fn the_page_about_statuses_lists_all_with_their_numbers() {
    let page = page("statuses.md");
    let cells = |line: &str| -> Option<(String, u32)> {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        Some((cells.next()?.trim_matches('`').to_owned(), number))
    };
    // The table for cuDNN 8 has names without a prefix.
    let listed: BTreeMap<String, u32> =
        page.lines().filter_map(cells).filter(|(name, _)| name.starts_with("CUDNN_STATUS_")).collect();
    let names = cudnnStatus_t::ENUMERATORS.iter().map(|(status, name)| (name.to_str().unwrap().to_owned(), status.0));
    let expected: BTreeMap<String, u32> = names.filter(|(_, number)| *number != 0).collect();
    assert_eq!(listed, expected);
    assert!(page.contains("`CUDNN_STATUS_SUCCESS` (0)"));
}

#[test]
fn the_commands_of_the_pages_exist() {
    let mut count = 0;
    for name in ["statuses.md", "tutorials/broken-pytorch.md"] {
        let page = page(name);
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let code = page.split('`').skip(1).step_by(2).filter(|code| code.starts_with("cudnn-doctor"));
        for line in blocks.flat_map(str::lines).chain(code) {
            let Some((_, command)) = line.split_once("cudnn-doctor") else { continue };
            let command = command.split(" -- ").next().unwrap().split(" #").next().unwrap();
            let mut words = command.split_whitespace().peekable();
            if line.starts_with("cargo install") {
                continue;
            }
            let subcommand = words.next_if(|word| !word.starts_with('-'));
            assert!(has_option(subcommand, "--help"), "{name}: {line}");
            for option in words.filter(|word| word.starts_with('-')) {
                assert!(has_option(subcommand, option), "{name}: {line}");
            }
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
