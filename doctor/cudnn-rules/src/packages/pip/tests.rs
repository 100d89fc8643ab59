use super::*;
use cudnn_cli::command::command_line;
use cudnn_os::files::below;

#[test]
#[cfg_attr(not(windows), ignore = "needs the file layout of Windows")]
fn windows_environments_use_their_own_pip() {
    for (files, expected) in [
        (
            &["Scripts/python.exe", "pyvenv.cfg", "Lib/site-packages/pip/x"][..],
            r"$\Scripts\python.exe -I -m pip install x",
        ),
        // ensurepip comes from the base Python.
        (
            &["Scripts/python.exe", "pyvenv.cfg=home = $\\base", "Lib/site-packages/x", "base/Lib/ensurepip/x"],
            r"$\Scripts\python.exe -I -m ensurepip; $\Scripts\python.exe -I -m pip install x",
        ),
        (
            &["Scripts/python.exe", "pyvenv.cfg=uvx = 0.9", "Lib/site-packages/x"],
            r"python -m pip --python $\Scripts\python.exe install x",
        ),
        (
            &["python.exe", "python312.dll", "Lib/site-packages/pip/x"],
            r"$\python.exe -E $\Lib\site-packages\pip install x",
        ),
        // The environment's Python is missing.
        (&["pyvenv.cfg=version = 3.12.4", "Lib/site-packages/x"], r"$\Scripts\python.exe -I -m pip install x"),
        (&["nvidia/cudnn/bin/x"], ""),
    ] {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().to_str().unwrap_or_default();
        for file in files {
            let (name, text) = file.split_once('=').unwrap_or((file, ""));
            let file = below(world.path(), name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text.replace('$', root)).unwrap();
        }
        let commands = pip(world.path(), "install", vec!["x".into()]).unwrap_or_default();
        assert_eq!(command_line(&commands).replace(root, "$"), expected, "{files:?}");
    }
}
