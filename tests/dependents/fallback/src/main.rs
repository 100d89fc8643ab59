//! Uses a recent enough cuDNN with a GPU, and falls back to the CPU: `fallback [MINIMUM_VERSION]`. Prints which of them
//! it uses, and why.

mod backend;

use std::error::Error;

use backend::Backend;
use cudnn_loader::Version;

fn main() -> Result<(), Box<dyn Error>> {
    let minimum = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => Version::new(9, 1, 0),
    };
    let backend = Backend::new(minimum);
    println!("{backend}");
    println!("relu: {:?}", backend.relu(&[-2.0, -0.5, 0.0, 3.0]));
    Ok(())
}
