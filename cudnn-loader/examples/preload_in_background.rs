//! Loads cuDNN in a background thread while the program does other work, and prints the time of each step.
//!
//! `cargo run -p cudnn-loader --example preload_in_background`

use std::time::Duration;

use cudnn_loader::preload::{Devices, Preload, PreloadError};

fn main() -> Result<(), PreloadError> {
    // Loads the libraries and registers the engines. Without the call of `devices`, the preload also creates
    // the context of the current GPU.
    let preload = Preload::new().devices(Devices::List(Vec::new())).engines(true).start();
    read_model();
    // Waits only for the part that is left. If cuDNN is missing, this returns the error.
    println!("{}", preload.join()?);
    Ok(())
}

/// Simulates work without cuDNN.
fn read_model() {
    std::thread::sleep(Duration::from_millis(20));
}
