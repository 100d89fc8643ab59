//! Links what the features name, generates bindings where that feature asks for it, and tells dependents what they
//! are of. With no feature it does nothing and needs nothing.

#[cfg(feature = "buildtime-bindgen")]
mod bindings;
#[cfg(feature = "_link")]
mod link;
mod vars;

/// The release that the checked-in bindings are of.
const BINDINGS_VERSION: &str = "9.28.0";

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

/// Ends the build with the whole message, line by line as cargo shows it.
#[cfg(any(feature = "_link", feature = "buildtime-bindgen"))]
fn report(result: Result<(), String>) {
    if let Err(message) = result {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
    }
}
