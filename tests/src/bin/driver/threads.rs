//! Makes first calls in racing threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use cudnn_loader::{Function, Library};

const THREADS: usize = 64;

/// Makes the first call of every function in every thread, in different orders. Functions of an installed library must
/// resolve. All others must fail with an error that names the function.
pub(crate) fn race() {
    let missing: Vec<Library> = missing_libraries();
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

/// Makes the first calls of many threads at the same time, with logging enabled. Half of the threads start with error
/// strings, which the loader answers with or without cuDNN. With `late`, all threads except one start while ld.so is
/// still opening the graph library for that one.
pub(crate) fn storm(option: &str) {
    let is_late = option == "late";
    let (barrier, has_called) = (Barrier::new(THREADS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, has_called) = (&barrier, &has_called);
            scope.spawn(move || {
                barrier.wait();
                while is_late && thread > 0 && !crate::system::is_listed(Library::Graph.file_name()) {
                    std::thread::sleep(Duration::from_micros(50));
                }
                while thread % 2 == 1 && !has_called.load(Ordering::Relaxed) {
                    // SAFETY: the function accepts any status.
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

/// Returns the missing sub-libraries in the variable's directory, without a call of the loader before the race.
fn missing_libraries() -> Vec<Library> {
    let dir = std::env::var_os(cudnn_loader::DIR_VARIABLE).expect("the variable is set");
    let dir = std::path::Path::new(&dir);
    Library::WITH_API.iter().copied().filter(|library| !dir.join(library.file_name()).exists()).collect()
}
