//! Compares pages of the documentation with the doctor and the bindings.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cudnn_loader::cudnnStatus_t;

fn page(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

fn has_option(subcommand: Option<&str>, option: &str) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(subcommand).arg("--help").output().unwrap();
    assert!(output.status.success(), "{subcommand:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().split([' ', ',', '\n', '=', '[']).any(|word| word == option)
}

#[test]
fn the_page_about_statuses_lists_all_with_their_numbers() {
    let page = page("docs/statuses.md");
    let cells = |line: &str| -> Option<(String, u32)> {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        Some((cells.next()?.trim_matches('`').to_owned(), number))
    };
    // Names without a prefix are in the table for cuDNN 8.
    let listed: BTreeMap<String, u32> =
        page.lines().filter_map(cells).filter(|(name, _)| name.starts_with("CUDNN_STATUS_")).collect();
    let names = cudnnStatus_t::ENUMERATORS.iter().map(|(status, name)| (name.to_str().unwrap().to_owned(), status.0));
    let expected: BTreeMap<String, u32> = names.filter(|(_, number)| *number != 0).collect();
    assert_eq!(listed, expected);
    assert!(page.contains("`CUDNN_STATUS_SUCCESS` (0)"));
}

#[test]
fn numbers_of_cudnn_8_are_explained_as_the_page_says() {
    let page = page("docs/statuses.md");
    let (_, table) = page.split_once("| cuDNN 8 | name | cuDNN 9 |\n").unwrap();
    let mut count = 0;
    for line in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").collect();
        let output = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor")).args(["facts", cells[0]]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(&format!("({}): ", cells[2])), "{line}: {text}");
        count += 1;
    }
    assert_eq!(count, 14);
}

#[test]
fn log_knows_the_messages_of_the_page() {
    let page = page("docs/statuses.md");
    let (_, table) = page.split_once("| message | meaning | run |\n").unwrap();
    let mut count = 0;
    for line in table.lines().skip(1).take_while(|line| line.starts_with("| `")) {
        let messages = line.split(" | ").next().unwrap().split('`').skip(1).step_by(2);
        for message in messages.filter(|message| !message.starts_with("...")) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_cudnn-doctor"));
            let mut child = command.args(["log", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let message = message.replace("STATUS_...", "STATUS_INTERNAL_ERROR");
            child.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{message}: {output:?}");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_commands_of_the_pages_exist() {
    let mut count = 0;
    for name in [
        "README.md",
        "SECURITY.md",
        "docs/README.md",
        "docs/statuses.md",
        "docs/support.md",
        "docs/guide/doctor.md",
        "docs/guide/install.md",
        "docs/guide/upgrade-gate.md",
        "docs/tutorials/broken-pytorch.md",
        "docs/tutorials/first-layer.md",
    ] {
        let page = page(name);
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let code = page.split('`').skip(1).step_by(2).filter(|code| code.starts_with("cudnn-doctor"));
        for line in blocks.flat_map(str::lines).chain(code) {
            let Some((_, command)) =
                line.split_once("cudnn-doctor").filter(|(_, rest)| rest.is_empty() || rest.starts_with(' '))
            else {
                continue;
            };
            let command = command.split(" -- ").next().unwrap().split(" #").next().unwrap();
            let mut words = command.split_whitespace().peekable();
            if line.starts_with("cargo install") {
                continue;
            }
            // Skip placeholders, and words after a package name.
            let subcommand = words.next_if(|word| !word.starts_with('-'));
            if subcommand.is_some_and(|word| !word.bytes().all(|byte| byte.is_ascii_lowercase())) {
                continue;
            }
            assert!(has_option(subcommand, "--help"), "{name}: {line}");
            for option in words.filter(|word| word.starts_with('-')) {
                assert!(has_option(subcommand, option), "{name}: {line}");
            }
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
