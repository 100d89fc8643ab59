//! First calls under difficult conditions: in racing threads, from a static constructor, in a cancelled thread, and
//! after fork.

use std::ffi::{CStr, CString};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cudnn_loader::{Function, SubLibrary};

const THREADS: usize = 64;

/// Every thread makes the first call of every function, each starting at another one. A function of an installed
/// library must resolve; any other must return a failure and leave an error that names the function.
pub(crate) fn race() {
    let missing: Vec<SubLibrary> = missing_libraries();
    let barrier = Barrier::new(THREADS);
    let (found, failed, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (missing, barrier, found, failed, wrong) = (&missing, &barrier, &found, &failed, &wrong);
            scope.spawn(move || {
                let count = Function::ALL.len();
                let start = thread * count / THREADS;
                barrier.wait();
                for index in start..start + count {
                    let function = Function::ALL[index % count];
                    let outcome = if missing.contains(&function.library()) {
                        let returned = super::call(function, None);
                        let message = super::last_error(None);
                        if !returned.contains("CUDNN_STATUS_NOT_SUPPORTED") || !message.starts_with(function.name()) {
                            println!("wrong: {function} returned {returned} and left {message:?}");
                            wrong
                        } else {
                            failed
                        }
                    } else {
                        match function.resolve() {
                            Ok(_) => found,
                            Err(error) if error.status() == cudnn_loader::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED => {
                                failed
                            }
                            Err(error) => {
                                println!("wrong: {error}");
                                wrong
                            }
                        }
                    };
                    outcome.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    println!("race = {} found, {} failed, {} wrong", found.into_inner(), failed.into_inner(), wrong.into_inner());
}

/// Every thread makes its first calls at the same time, and all of them are logged. Half of the threads begin with the
/// names of errors, which the loader answers with or without cuDNN. With `late`, all threads but one begin while ld.so
/// still opens the graph library for that one.
pub(crate) fn storm(option: &str) {
    let is_late = option == "late";
    let (barrier, has_called) = (Barrier::new(THREADS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, has_called) = (&barrier, &has_called);
            scope.spawn(move || {
                barrier.wait();
                while is_late && thread > 0 && !is_listed(c"libcudnn_graph.so.9") {
                    std::thread::sleep(Duration::from_micros(50));
                }
                while thread % 2 == 1 && !has_called.load(Ordering::Relaxed) {
                    // SAFETY: any status has a name.
                    unsafe { cudnn_loader::cudnnGetErrorString(cudnn_loader::cudnnStatus_t::CUDNN_STATUS_BAD_PARAM) };
                    std::thread::yield_now();
                }
                for _ in 0..40 {
                    let mut descriptor = std::ptr::null_mut();
                    let kind = cudnn_loader::cudnnBackendDescriptorType_t::CUDNN_BACKEND_TENSOR_DESCRIPTOR;
                    // SAFETY: the descriptor is created and then destroyed.
                    unsafe {
                        let _ = cudnn_loader::cudnnBackendCreateDescriptor(kind, &raw mut descriptor);
                        let _ = cudnn_loader::cudnnBackendDestroyDescriptor(descriptor);
                    }
                    has_called.store(true, Ordering::Relaxed);
                }
            });
        }
    });
    println!("storm = over");
}

/// Whether ld.so lists a library, which it also does while the library's constructors have not run yet.
fn is_listed(name: &CStr) -> bool {
    unsafe extern "C" fn has_name(info: *mut libc::dl_phdr_info, _: usize, name: *mut libc::c_void) -> libc::c_int {
        // SAFETY: ld.so passes a structure with a path, and `is_listed` the name.
        let (path, name) = unsafe { (CStr::from_ptr((*info).dlpi_name), CStr::from_ptr(name.cast())) };
        path.to_bytes().ends_with(name.to_bytes()).into()
    }
    // SAFETY: the function accepts what it gets, and the name outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(has_name), name.as_ptr().cast_mut().cast()) != 0 }
}

/// The sub-libraries that are missing in the directory that the variable names. It reads the directory itself, so that
/// the race is the first use of the loader.
fn missing_libraries() -> Vec<SubLibrary> {
    let dir = std::env::var_os(cudnn_loader::DIR_VARIABLE).expect("the variable is set");
    let dir = std::path::Path::new(&dir);
    SubLibrary::ALL.iter().copied().filter(|library| !dir.join(library.file_name()).exists()).collect()
}

static IN_CONSTRUCTOR: AtomicBool = AtomicBool::new(false);

/// Called by the constructor of the library that [`constructor`] opens.
extern "C" fn from_constructor() {
    IN_CONSTRUCTOR.store(true, Ordering::Release);
    // Time for the other thread to claim the first call and to wait for ld.so's lock, which this thread has.
    std::thread::sleep(Duration::from_millis(200));
    println!("in the constructor: {}", super::call(Function::CudnnGetVersion, None));
}

/// Opens a library whose constructor makes a first call, while another thread makes one too. The variable CALLBACK has
/// the address that the constructor calls.
pub(crate) fn constructor(file: &str) {
    let callback = from_constructor as extern "C" fn() as usize;
    // SAFETY: there is no other thread yet.
    unsafe { std::env::set_var("CALLBACK", callback.to_string()) };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = CString::new(file).expect("a path");
            // SAFETY: the test compiled the library.
            let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
            assert!(!handle.is_null(), "{file:?} can be opened");
        });
        while !IN_CONSTRUCTOR.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        println!("in the other thread: {}", super::call(Function::CudnnGetVersion, None));
    });
}

static CALLED: AtomicUsize = AtomicUsize::new(usize::MAX);

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
}

/// Makes a first call in a thread with a pending cancellation.
pub(crate) fn cancel() {
    extern "C" fn thread(_: *mut libc::c_void) -> *mut libc::c_void {
        // SAFETY: the thread cancels itself: from now on, any cancellation point ends it.
        unsafe { pthread_cancel(libc::pthread_self()) };
        // SAFETY: the function has no arguments.
        CALLED.store(unsafe { cudnn_loader::cudnnGetVersion() }, Ordering::Release);
        std::ptr::null_mut()
    }
    let mut handle = std::mem::MaybeUninit::uninit();
    // SAFETY: the thread's function has the right type, and uses nothing of this frame.
    let made = unsafe { libc::pthread_create(handle.as_mut_ptr(), std::ptr::null(), thread, std::ptr::null_mut()) };
    assert_eq!(made, 0);
    // SAFETY: the thread was created above and not joined yet.
    unsafe { libc::pthread_join(handle.assume_init(), std::ptr::null_mut()) };
    println!("in the cancelled thread: {}", CALLED.load(Ordering::Acquire));
}

/// Forks while another thread makes a first call, and makes one in the child.
pub(crate) fn fork() {
    std::thread::scope(|scope| {
        scope.spawn(|| println!("in the parent: {}", super::call(Function::CudnnGetVersion, None)));
        // Time for the thread to enter the slow constructor of the library that it opens.
        std::thread::sleep(Duration::from_millis(300));
        // SAFETY: the child makes a first call, which is what the test checks, and exits.
        match unsafe { libc::fork() } {
            0 => {
                // SAFETY: timers are not inherited.
                unsafe { libc::alarm(20) };
                println!("in the child: {}", super::call(Function::CudnnGetVersion, None));
                // SAFETY: _exit only ends the process.
                unsafe { libc::_exit(0) }
            }
            child => {
                let mut status = 0;
                // SAFETY: the pointer is to a local variable.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                println!("the child ended with {status}");
            }
        }
    });
}
