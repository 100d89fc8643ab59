use super::*;
use cudnn_probe::facts::{Changes, Facts};

#[test]
fn values_are_read_like_configparser_reads_them() {
    let global = "[wheel]\nconstraint = /no\n  /no\n[global]\nConstraint =\n    /a.txt\n\t/b.txt\n    # /old.txt\n\
                  --prefix : /x\n";
    let install = "  [install]\r\n  --dry_run: 1\r\n   2\n  target =\n[global]\n  no_deps = 1\n";
    for (text, section, expected) in [
        (global, "global", &[("constraint", "/a.txt\n/b.txt"), ("prefix", "/x")][..]),
        (global, "install", &[]),
        (install, "install", &[("dry-run", "1\n2"), ("target", "")]),
        (install, "global", &[("no-deps", "1")]),
    ] {
        let found = sections(text).unwrap();
        let found = found.get(section).into_iter().flatten();
        let found: Vec<(&str, &str)> = found.map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(found, expected, "{text}");
    }
}

/// All of these make pip 23.2 fail.
#[test]
fn files_that_pip_refuses_have_a_reason() {
    for (text, expected) in [
        ("no section\n", "a value before any section in line 1"),
        ("[install\n", "a value before any section in line 1"),
        ("[global]\n\nno-value\n", "a name without a value in line 3"),
        ("[global]\r\na=1\r\nA=2\r\n", "a name again, or none in line 3"),
        ("[a]\n[b]\n[a]\n", "a section again in line 3"),
    ] {
        assert_eq!(sections(text).unwrap_err(), format!("has {expected}"), "{text}");
    }
    assert!(sections("[DEFAULT]\na=1\n[b]\na=1\n[DEFAULT]\n").is_ok());
}

#[test]
fn variables_set_options_in_any_case() {
    let names = ["PIP_target", "PIP_Dry_Run", "PIP_DRY_RUN", "PIP_TIMEOUT", "PIP_ROOT"].map(str::to_owned).to_vec();
    let mut changes = Changes::default();
    names.iter().for_each(|name| changes.set_variable(name, Some("1".into())));
    changes.set_variable("PIP_ROOT", Some("".into()));
    changes.set_answer("names of variables", PREFIX, &names);
    let found = Facts::recorder().after(changes).within(redirecting_variables);
    assert_eq!(found, ["PIP_target", "PIP_Dry_Run", "PIP_DRY_RUN"].map(PathBuf::from));
    for (name, expected) in [
        ("PIP_Dry_Run", "PIP_DRY_RUN"),
        ("PIP_--no-Deps", "PIP_NO_DEPS"),
        // pip reads the file only from the name in upper case.
        ("PIP_Config_File", "PIP_Config_File"),
        ("Path", "Path"),
    ] {
        assert_eq!(canonical_variable(name), expected);
    }
}

/// pip uses the last one in the order of the environment.
#[test]
fn one_spelling_of_a_variable_counts() {
    for (os, variables, expected) in [
        (Os::Linux, &[("PIP_CONSTRAINT", "a"), ("PIP_Constraint", "b")][..], &[("PIP_Constraint", "b")][..]),
        (Os::Linux, &[("PIP_Constraint", "b"), ("PIP_CONSTRAINT", "a")], &[("PIP_CONSTRAINT", "a")]),
        (Os::Linux, &[("PIP_CONSTRAINT", "a"), ("PIP_Constraint", "")], &[]),
        (Os::Linux, &[("PIP_TARGET", "t")], &[]),
        // Commands unset no variables on Windows.
        (Os::Windows, &[("PIP_TARGET", "t")], &[("PIP_TARGET", "t")]),
    ] {
        let mut changes = Changes::default();
        variables.iter().for_each(|(name, value)| changes.set_variable(name, Some((*value).into())));
        let names: Vec<String> = variables.iter().map(|(name, _)| (*name).to_owned()).collect();
        changes.set_answer("names of variables", PREFIX, &names);
        let settings = PipSettings { files: Vec::new(), refused: None };
        let found = Facts::recorder().after(changes).within(|| settings.options_on(os, PipCommand::Install));
        let found: Vec<(&str, &str)> =
            found.iter().map(|option| (option.source.to_str().unwrap(), &*option.value)).collect();
        assert_eq!(found, expected, "{variables:?}");
    }
}

/// pip merges the files first: an option keeps the place of its first value.
#[test]
fn the_order_of_options_in_several_files_is_that_of_their_first_values() {
    let dir = tempfile::tempdir().unwrap();
    let [of_system, of_user, of_environment] = ["etc/pip", "home/.pip", "env"].map(|name| dir.path().join(name));
    for (place, text) in [
        (&of_system, "no-binary = numpy"),
        (&of_user, "only-binary = :all:"),
        (&of_environment, "no-binary = nvidia-x"),
    ] {
        std::fs::create_dir_all(place).unwrap();
        std::fs::write(place.join("pip.conf"), format!("[global]\n{text}\n")).unwrap();
    }
    let mut changes = Changes::default();
    ["PIP_CONFIG_FILE", "XDG_CONFIG_HOME"].iter().for_each(|name| changes.set_variable(name, None));
    changes.set_variable("XDG_CONFIG_DIRS", Some(dir.path().join("etc").into()));
    changes.set_variable("HOME", Some(dir.path().join("home").into()));
    changes.set_answer("names of variables", PREFIX, &Vec::<String>::new());
    let formats = || PipSettings::read(Some(&of_environment)).formats();
    let found = Facts::recorder().after(changes).within(formats);
    assert!(found.without_wheels_of("nvidia-x").is_none());
}
