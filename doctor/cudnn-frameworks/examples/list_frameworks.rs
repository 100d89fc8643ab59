//! Lists the frameworks of a Python environment, the cuDNN that each was built for, and the file that it would load.
//!
//! `cargo run -p cudnn-frameworks --example list_frameworks [ENVIRONMENT]`. Default: the active environments.

use std::path::Path;
use std::process::ExitCode;

use cudnn_frameworks::{Environment, Framework, survey};
use cudnn_probe::{Host, Search, shown_path};

fn main() -> ExitCode {
    let host = Host::current();
    let environments = match std::env::args_os().nth(1) {
        Some(root) => vec![Environment::at(Path::new(&root), &host)],
        None => Environment::active(&Search::new(host.clone())),
    };
    let mut count = 0;
    for environment in &environments {
        let survey = survey(environment, &host);
        if survey.is_no_environment {
            eprintln!("warning: {} contains neither a Python nor a package", shown_path(&environment.root));
        }
        survey.frameworks.iter().for_each(print);
        count += survey.frameworks.len();
    }
    if count == 0 {
        eprintln!("no framework found");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn print(framework: &Framework) {
    println!("{} {}", framework.kind.name, framework.version.escape_debug());
    if let Some(cudnn) = &framework.built_for.cudnn {
        println!("  built for cuDNN {} or newer", cudnn.value);
    }
    match (framework.opens.cudnn.first(), framework.opens.version()) {
        (Some(opened), Some(version)) => println!("  would load cuDNN {version} from {}", shown_path(&opened.path)),
        (Some(opened), None) => println!("  would load {}", shown_path(&opened.path)),
        (None, _) if framework.opens.needs_none => println!("  does not need cuDNN"),
        (None, _) => println!("  would not find cuDNN"),
    }
}
