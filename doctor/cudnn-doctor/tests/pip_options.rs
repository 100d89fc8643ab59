//! Compares the table of pip's options with the installed pip.

use std::process::Command;

use serde_json::Value;
use support::{is_full, not_run};

/// Prints the options of pip that accept only some values, by command.
const SCRIPT: &str = r#"
import json
import pip
from pip._internal.commands import create_command

def kind(option):
    if option.choices:
        return {"some_of" if option.action == "append" else "one_of": option.choices}
    actions = {"store_true": "switch", "store_false": "switch", "count": "count"}
    return actions.get(option.action) or {"int": "integer", "float": "seconds"}.get(option.type)

def options(command):
    parser = create_command(command).parser
    known = [option for group in [parser, *parser.option_groups] for option in group.option_list]
    return {name[2:]: kind(option) for option in known for name in option._long_opts if kind(option)}

print(json.dumps({command: options(command) for command in ("install", "uninstall")}))
print(tuple(map(int, pip.__version__.split(".")[:2])) > (26, 3), pip.__version__)
"#;

/// A new option with fixed values, or a new value, belongs into `cudnn-rules/data/pip_options.json`. Weekly checks compare
/// also with a newer pip.
#[test]
fn the_table_knows_the_values_of_the_installed_pip() {
    let output = Command::new("python3").args(["-c", SCRIPT]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = String::from_utf8(output.stdout).unwrap();
    let (commands, version) = output.trim_end().rsplit_once('\n').unwrap();
    if version.starts_with("True") && !is_full() {
        return not_run("the_table_knows_the_values_of_the_installed_pip", &format!("pip is newer: {version}"));
    }
    let commands: Value = serde_json::from_str(commands).unwrap();
    let table: Value = serde_json::from_str(include_str!("../../cudnn-rules/data/pip_options.json")).unwrap();
    let [install, uninstall] = ["install", "uninstall"].map(|command| commands[command].as_object().unwrap());
    for (name, expected) in install.iter().chain(uninstall) {
        // The commands of the doctor contain it.
        if name == "yes" {
            continue;
        }
        let rows: Vec<&Value> = table.as_array().unwrap().iter().filter(|row| row["name"] == **name).collect();
        let [row] = rows[..] else { panic!("{name}: {rows:?}") };
        assert_eq!(row["only"] == "install", !uninstall.contains_key(name), "{name}");
        match expected.as_object() {
            None => assert_eq!(row["value"], *expected, "{name}"),
            Some(choices) => {
                let (kind, choices) = choices.iter().next().unwrap();
                let known = row["value"][kind].as_array().unwrap();
                assert!(choices.as_array().unwrap().iter().all(|choice| known.contains(choice)), "{name}: {choices}");
            }
        }
    }
}
