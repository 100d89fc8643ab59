//! Makes first calls from a static constructor, in a cancelled thread, and after fork.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cudnn_loader::Function;

static IN_CONSTRUCTOR: AtomicBool = AtomicBool::new(false);

/// Called by the constructor of the library that [`constructor`] or the loader opens.
extern "C" fn from_constructor() {
    IN_CONSTRUCTOR.store(true, Ordering::Release);
    // Gives the other thread time to start the first call and to wait for ld.so's lock, which this thread holds.
    std::thread::sleep(Duration::from_millis(200));
    println!("in the constructor: {}", crate::call(Function::CudnnGetVersion, None));
}

/// Opens a library with a constructor that makes a first call, while another thread also makes one. Without a file, the
/// loader opens such a library in a first call. The constructor calls the address in the variable CALLBACK.
pub(super) fn constructor(file: &str) {
    let callback = from_constructor as extern "C" fn() as usize;
    // SAFETY: the process is still single-threaded.
    unsafe { std::env::set_var("CALLBACK", callback.to_string()) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if file.is_empty() {
                println!("in the first call: {}", crate::call(Function::CudnnGetVersion, None));
                return;
            }
            let file = CString::new(file).expect("a path");
            // SAFETY: the test compiled the library.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
            assert!(!handle.is_null(), "{file:?} can be opened");
        });
        while !IN_CONSTRUCTOR.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        println!("in the other thread: {}", crate::call(Function::CudnnGetVersion, None));
    });
}

static CALLED: AtomicUsize = AtomicUsize::new(usize::MAX);

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
}

/// Makes a first call in a thread with a pending cancellation.
pub(super) fn cancel() {
    extern "C" fn thread(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the thread cancels itself, so it exits at the next cancellation point.
        unsafe { pthread_cancel(libc::pthread_self()) };
        // SAFETY: the call passes no pointers.
        CALLED.store(unsafe { cudnn_loader::cudnnGetVersion() }, Ordering::Release);
        std::ptr::null_mut()
    }
    let mut handle = std::mem::MaybeUninit::uninit();
    // SAFETY: the thread's function has the right type and doesn't refer to this stack frame.
    let made = unsafe { libc::pthread_create(handle.as_mut_ptr(), std::ptr::null(), thread, std::ptr::null_mut()) };
    assert_eq!(made, 0);
    // SAFETY: the thread was created above and not joined yet.
    unsafe { libc::pthread_join(handle.assume_init(), std::ptr::null_mut()) };
    println!("in the cancelled thread: {}", CALLED.load(Ordering::Acquire));
}

/// Forks while another thread makes a first call, and makes one in the child.
pub(super) fn fork() {
    std::thread::scope(|scope| {
        scope.spawn(|| println!("in the parent: {}", crate::call(Function::CudnnGetVersion, None)));
        // Gives the thread time to enter the slow constructor of the library that it opens.
        std::thread::sleep(Duration::from_millis(300));
        // SAFETY: the child makes one first call, which the test checks, and exits.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: timers are not inherited.
                unsafe { libc::alarm(20) };
                println!("in the child: {}", crate::call(Function::CudnnGetVersion, None));
                // SAFETY: _exit only terminates the process.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the pointer is to a local variable.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                println!("the child exited with {status}");
            }
        }
    });
}
