//! Calls functions of the linked library, most of them through `check!`, and prints the metadata of cudnn-sys.

fn main() {
    println!("version {}", env!("DEP_CUDNN9_VERSION"));
    println!("lib_dir {}", env!("DEP_CUDNN9_LIB_DIR"));
    println!("lib_version {}", env!("DEP_CUDNN9_LIB_VERSION"));
    #[cfg(any(feature = "link-graph", feature = "link-cudnn"))]
    {
        // SAFETY: the call passes no pointers.
        println!("cudnnGetVersion {}", unsafe { cudnn_sys::cudnnGetVersion() });
        // SAFETY: the function rejects null with a status.
        let checked = unsafe { cudnn_sys::check!(cudnn_sys::cudnnBackendFinalize(std::ptr::null_mut())) };
        println!("check {:?}", checked.map_err(|error| error.to_string()));
    }
    #[cfg(any(feature = "link-ops", feature = "link-cudnn"))]
    {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: the pointer is to a local variable.
        println!("cudnnCreateTensorDescriptor {:?}", unsafe {
            cudnn_sys::cudnnCreateTensorDescriptor(&raw mut descriptor)
        });
        // SAFETY: the descriptor was created here and is not used again; null is rejected with a status.
        println!("{:?}", unsafe { cudnn_sys::check!(cudnn_sys::cudnnDestroyTensorDescriptor(descriptor)) });
    }
    #[cfg(feature = "link-cnn")]
    {
        // SAFETY: as above.
        println!("{:?}", unsafe {
            cudnn_sys::check!(cudnn_sys::cudnnDestroyConvolutionDescriptor(std::ptr::null_mut()))
        });
    }
    #[cfg(feature = "link-adv")]
    {
        // SAFETY: as above.
        println!("{:?}", unsafe { cudnn_sys::check!(cudnn_sys::cudnnDestroyRNNDescriptor(std::ptr::null_mut())) });
    }
    #[cfg(feature = "link-ext")]
    {
        // Not called, because it has many arguments that must not be null.
        println!("{}", cudnn_sys::cudnnGnnAggSimpleForward as *const () as usize != 0);
    }
}
