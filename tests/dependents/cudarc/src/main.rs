//! cudarc's cuDNN over cudnn-loader: a handle by cudarc's functions, on a machine with or without cuDNN and a GPU.

use cudarc::cudnn::result;

fn main() {
    println!("version {}", result::get_version());
    match result::create_handle() {
        Ok(handle) => {
            println!("a handle");
            // SAFETY: the handle was created above, and nothing else has it.
            let destroyed = unsafe { result::destroy_handle(handle) };
            println!("destroyed: {destroyed:?}");
        }
        // cudarc knows the status. The loader knows why, if cuDNN could not be loaded.
        Err(error) => {
            println!("no handle: {error}");
            if let Some(reason) = cudnn_loader::last_load_error() {
                println!("{reason}");
            }
        }
    }
}
