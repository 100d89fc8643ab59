//! Calls functions of cuDNN by name and prints what each returned, and the last-error text after it.
//!
//! ```text
//! call FUNCTION...                 through this project's loader
//! call --shim FILE FUNCTION...     through a library like NVIDIA's shim
//! ```
//!
//! A name with `@` before it is loaded, not called. Functions are called with zeros for arguments: name only those
//! that will not be reached, or that bear it.
#![allow(
    clippy::panic,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on says so by panicking"
)]

use std::ffi::{CStr, CString, c_char};
use std::path::Path;

use cudnn_loader::{Function, cudnnStatus_t};

/// A value that a function returned, as text.
trait Show {
    fn show(self) -> String;
}

impl Show for cudnnStatus_t {
    fn show(self) -> String {
        format!("{self:?}")
    }
}

impl Show for usize {
    fn show(self) -> String {
        self.to_string()
    }
}

impl Show for () {
    fn show(self) -> String {
        "()".into()
    }
}

impl Show for *const c_char {
    fn show(self) -> String {
        // SAFETY: the function returns a static text, or null.
        if self.is_null() { "null".into() } else { unsafe { CStr::from_ptr(self) }.to_string_lossy().into_owned() }
    }
}

macro_rules! by_name {
    ($($library:ident { $(
        $(#[$doc:meta])* since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty;
    )* })*) => {
        /// Calls a function of the loader's, or the one at an address, with zeros.
        fn call(function: Function, at: Option<*mut ()>) -> String {
            match function { $($(
                Function::$variant => {
                    type Signature = unsafe extern "C" fn($($type),*) -> $returns;
                    let callee: Signature = match at {
                        // SAFETY: the address is that of the function of this name.
                        Some(address) => unsafe { std::mem::transmute::<*mut (), Signature>(address) },
                        None => cudnn_loader::$name,
                    };
                    // SAFETY: all arguments are integers, floats and pointers, for which zero is a value; who named
                    // the function vouches for the rest.
                    let result = unsafe { callee($(std::mem::zeroed::<$type>()),*) };
                    Show::show(result)
                }
            )*)*
                _ => "unknown".into(),
            }
        }
    };
}
cudnn_sys::for_each_function!(by_name);

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let shim = (words.first().is_some_and(|word| word == "--shim")).then(|| {
        let file = words.drain(..2).nth(1).expect("a file");
        open_shim(Path::new(&file))
    });
    for word in &words {
        if let Some(name) = word.strip_prefix('@') {
            let function = Function::from_name(name).expect("a function's name");
            match function.resolve() {
                Ok(_) => println!("@{name} = resolved"),
                Err(error) => println!("@{name} = {:?}", error.status()),
            }
            continue;
        }
        let function = Function::from_name(word).expect("a function's name");
        println!("{word} = {}", call(function, shim.as_ref().map(|shim| shim.address(word))));
        for line in last_error(shim.as_ref()).lines() {
            println!("  | {line}");
        }
    }
}

struct Shim(libloading::Library);

impl Shim {
    fn address(&self, name: &str) -> *mut () {
        let name = CString::new(name).unwrap();
        // SAFETY: the symbol is a function; a pointer to it is taken, and called with its own signature.
        let symbol = unsafe { self.0.get::<unsafe extern "C" fn()>(name.as_bytes_with_nul()) };
        *symbol.expect("the shim has the function") as *mut ()
    }
}

fn open_shim(file: &Path) -> Shim {
    // SAFETY: NVIDIA's shim and its like do nothing on loading.
    Shim(unsafe { libloading::Library::new(file) }.expect("the shim can be opened"))
}

fn last_error(shim: Option<&Shim>) -> String {
    type Signature = unsafe extern "C" fn(*mut c_char, usize);
    let function: Signature = match shim {
        // SAFETY: the address is that of the function of this name.
        Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnGetLastErrorString")) },
        None => cudnn_loader::cudnnGetLastErrorString,
    };
    let mut text = vec![0u8; 16384];
    // SAFETY: the buffer has the length that is said.
    unsafe { function(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}
