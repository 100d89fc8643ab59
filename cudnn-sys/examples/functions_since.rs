//! Lists the functions that a program must not call if it also supports older releases of cuDNN. The function table
//! contains them. You can run this example without cuDNN.
//!
//! `cargo run -p cudnn-sys --example functions_since -- 9.1`

use std::process::ExitCode;

/// The library, name and first release of a function.
type Row = (&'static str, &'static str, [u32; 3]);

macro_rules! rows {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        const ROWS: &[Row] = &[$($((stringify!($library), stringify!($name), [$($since),*]),)*)*];
    };
}
cudnn_sys::for_each_function!(rows);

fn main() -> ExitCode {
    let Some(oldest) = std::env::args().nth(1).as_deref().and_then(release) else {
        eprintln!("usage: functions_since RELEASE, where RELEASE is the oldest supported cuDNN, such as 9.1 or 9.1.0");
        return ExitCode::FAILURE;
    };
    for (library, name, since) in ROWS.iter().filter(|(_, _, since)| *since > oldest) {
        println!("{name} in {library} requires cuDNN {}", since.map(|number| number.to_string()).join("."));
    }
    ExitCode::SUCCESS
}

/// Parses `9.1` or `9.1.0`.
fn release(text: &str) -> Option<[u32; 3]> {
    let numbers: Vec<u32> = text.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    match *numbers {
        [major, minor] => Some([major, minor, 0]),
        [major, minor, patch] => Some([major, minor, patch]),
        _ => None,
    }
}
