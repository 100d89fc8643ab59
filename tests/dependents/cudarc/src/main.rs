//! Creates a cuDNN handle through cudarc and cudnn-loader, on machines with or without cuDNN and a GPU.

use cudarc::cudnn::result;

fn main() {
    println!("version {}", result::get_version());
    match result::create_handle() {
        Ok(handle) => {
            println!("a handle");
            // SAFETY: the handle was created above and is not used elsewhere.
            let destroyed = unsafe { result::destroy_handle(handle) };
            println!("destroyed: {destroyed:?}");
        }
        // cudarc knows only the status, but the loader knows why cuDNN could not be loaded.
        Err(error) => {
            println!("no handle: {error}");
            if let Some(reason) = cudnn_loader::last_load_error() {
                println!("{reason}");
            }
        }
    }
}
