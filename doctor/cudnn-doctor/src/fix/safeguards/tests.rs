use super::*;

#[test]
fn the_advice_fits_the_reason_why_a_directory_is_closed() {
    let of_file_system = Error::from(ErrorKind::ReadOnlyFilesystem);
    let of_mode = Error::from(ErrorKind::PermissionDenied);
    for (is_own, error, expected) in [
        (true, &of_file_system, "is on a read-only file system"),
        (false, &of_file_system, "is on a read-only file system"),
        (true, &of_mode, "but owns it: run `chmod u+rwx '/a b'`, and then `fix` again"),
        (false, &of_mode, "run `fix` as the user that it belongs to"),
    ] {
        let text = explain_closed(Path::new("/a b"), is_own, error);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_command_for_root_is_not_tried_by_others_without_sudo() {
    let step = |command: Command| Step {
        action: Action::Ldconfig,
        title: String::new(),
        lines: vec![command.into()],
        fixes: Vec::new(),
        note: None,
    };
    let ldconfig = Command::new("ldconfig", [""; 0]);
    let refusal = refusal_without_rights(&step(ldconfig.clone()));
    assert_eq!(refusal.as_deref(), Some("only root may run `ldconfig`, and sudo is not installed: run `fix` as root"));
    assert_eq!(refusal_without_rights(&step(ldconfig.started_by("sudo", []))), None);
}
