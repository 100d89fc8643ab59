//! Links the libraries of the `link-*` features, generates bindings for `buildtime-bindgen`, and passes directories and
//! versions on to dependents. Without features, the build needs no other software.

#[cfg(feature = "buildtime-bindgen")]
mod bindings;
#[cfg(feature = "_link")]
mod link;
mod vars;

/// The release of the checked-in bindings.
const BINDINGS_VERSION: &str = include_str!("../src/generated/version.txt").trim_ascii();

fn main() {
    println!("cargo::rerun-if-changed=build");
    #[cfg(feature = "_link")]
    if vars::read(vars::DOCS_RS).is_none() {
        report(link::run());
    }
    #[cfg(not(feature = "buildtime-bindgen"))]
    println!("cargo::metadata=version={BINDINGS_VERSION}");
    #[cfg(feature = "buildtime-bindgen")]
    match bindings::run() {
        Ok(version) => println!("cargo::metadata=version={}", version.as_deref().unwrap_or(BINDINGS_VERSION)),
        Err(message) => report(Err(message)),
    }
}

/// Fails the build with a message. Cargo shows every line of it as an error.
#[cfg(any(feature = "_link", feature = "buildtime-bindgen"))]
fn report(result: Result<(), String>) {
    if let Err(message) = result {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}
