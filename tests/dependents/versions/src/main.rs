//! Prints which code was compiled.

fn main() {
    if cfg!(cudnn_9_22) {
        println!("for cuDNN 9.22 or newer");
    } else if cfg!(cudnn_9_10) {
        println!("for cuDNN 9.10 or newer");
    } else {
        println!("without cuDNN");
    }
}
