//! Executes the commands in its arguments and prints the results, as a child process of the tests.
//!
//! ```text
//! driver ARG...                 calls cuDNN through this project's loader
//! driver --shim FILE ARG...     calls cuDNN through a library like NVIDIA's shim
//!
//! NAME            calls the function with zeros, prints the result and then the last error
//! ~NAME           calls the function with zeros without fetching the last error
//! @NAME           resolves the function
//! create          calls cudnnCreate with a valid pointer
//! preload:OPTIONS preloads; OPTIONS, separated by commas: engines context all-devices device=N background twice
//! log             sets a log hook that prints; log:panic, a hook that panics; log:panic-on-drop, with a payload that
//!                 panics too; log:quiet, an empty hook
//! background      starts a preload without waiting for it
//! write:LEVEL,DESTINATION
//!                 writes the log in cuDNN's format to NULL, stdout, stderr or a file
//! callback:MASK   calls cudnnSetCallback with a function that prints its arguments and calls cuDNN itself
//! get-callback    calls cudnnGetCallback
//! check           makes a call that fails, and prints the error
//! last            prints the last error
//! last-of-other-thread
//! load-error      prints the last load error, which stays until the next one
//! load:OPTIONS    Options::load; OPTIONS, separated by commas: path=P min=V cuda=N strict
//! graph:NAME      prints the four bytes of this symbol of the graph library, and the loaded libraries before and after
//! open:FILE       opens a library by path, as a framework may
//! maps            prints the mapped files of cuDNN
//! plan:FILE       plans a convolution for the device described in the file: see `plan`
//! race            every first call in many threads: see `threads`
//! storm           the same few calls in many threads, which are logged; storm:late, all threads but one start while
//!                 ld.so opens cuDNN
//! constructor:FILE, fork, cancel     see `threads`
//! stress:SECONDS,FILE                many threads in every part of the loader: see `stress`
//! setenv, setenv:NAME=VALUE, fork-during-error-strings, handle-crashes, error-string:STATUS
//!                 see `process_state`
//! release:ID      fetches a release as the tests do
//! sleep:MILLISECONDS
//! lock:FILE       opens a file for writing, inheritable, locks it, and keeps it open
//! locked          prints whether these files append now, and are still locked
//! spawn:ARGS      runs this program with these arguments, which are separated by `+`
//! sigpipe         restores the default action of SIGPIPE, as in C programs
//! close-all       closes all descriptors except the first three
//! take-descriptors, free-descriptors
//!                 opens files until the process may open no more; closes them
//! cd:DIR          changes the working directory
//! remove:FILE, copy:FROM,TO
//!                 changes a file, as an update does under a running program
//! ```
//!
//! All arguments are zero, so name only functions that accept zeros, or that never reach cuDNN.

mod plan;
mod stress;
mod threads;

#[cfg(unix)]
#[path = "unix/mod.rs"]
mod system;

#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;

use cudnn_loader::{Function, Options, cudnnStatus_t, signatures};

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
        // SAFETY: the function returns a static string or null.
        if self.is_null() { "null".into() } else { unsafe { CStr::from_ptr(self) }.to_string_lossy().into_owned() }
    }
}

macro_rules! by_name {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        fn call(function: Function, at: Option<*mut ()>) -> String {
            match function { $($(
                Function::$variant => {
                    type Signature = unsafe extern "C" fn($($type),*) -> $returns;
                    let callee: Signature = match at {
                        // SAFETY: the address belongs to the function with this name.
                        Some(address) => unsafe { std::mem::transmute::<*mut (), Signature>(address) },
                        None => cudnn_loader::$name,
                    };
                    // SAFETY: all arguments are integers, floats and pointers, for which zero is valid. The test chose
                    // a function that accepts zeros.
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
    system::set_time_limit(60);
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let shim = (args.first().is_some_and(|arg| arg == "--shim")).then(|| {
        let file = args.drain(..2).nth(1).expect("a file");
        open_shim(Path::new(&file))
    });
    for arg in &args {
        perform(arg, shim.as_ref());
    }
}

fn perform(arg: &str, shim: Option<&Shim>) {
    let function = |name| Function::from_name(name).expect("a function's name");
    let called = |name| println!("{name} = {}", call(function(name), shim.map(|shim| shim.address(name))));
    match arg.split_once(':').unwrap_or((arg, "")) {
        ("last", _) => print_last_error(&last_error(shim)),
        ("last-of-other-thread", _) => {
            std::thread::scope(|scope| scope.spawn(|| print_last_error(&last_error(shim))).join()).expect("no panic");
        }
        ("load-error", _) => print_last_error(&cudnn_loader::last_load_error().unwrap_or_default()),
        ("create", _) => create(shim),
        ("log", option) => receive_log(option),
        ("write", option) => write_log(option),
        ("callback", mask) => set_callback(mask.parse().expect("a number"), shim),
        ("get-callback", _) => get_callback(),
        ("check", _) => {
            // SAFETY: cuDNN rejects null.
            let result = unsafe { cudnn_loader::check!(cudnn_loader::cudnnBackendFinalize(std::ptr::null_mut())) };
            let error = result.expect_err("null is rejected");
            println!("check = {error:#}; category {:?}", error.status.category());
        }
        ("preload", options) => preload(options),
        ("background", _) => {
            use cudnn_loader::preload::{Devices, Preload};
            drop(Preload::new().engines(true).devices(Devices::List(Vec::new())).start());
        }
        ("load", options) => load(options),
        ("graph", name) => print_symbol(name),
        ("open", file) => std::mem::forget(open_shim(Path::new(file))),
        ("maps", _) => system::mapped_files().iter().for_each(|file| println!("mapped {file}")),
        ("finalize", kind) => finalize(kind.parse().expect("a number")),
        ("plan", file) => plan::plan(&std::fs::read_to_string(file).expect("a description of a device"), shim),
        ("race", _) => threads::race(),
        ("storm", option) => threads::storm(option),
        ("error-string", status) => {
            println!("error-string = {}", error_string(cudnnStatus_t(status.parse().expect("a number"))));
        }
        ("stress", options) => {
            let (seconds, log) = options.split_once(',').expect("a time and a file");
            stress::stress(seconds.parse().expect("a number"), log, shim);
        }
        ("sleep", time) => std::thread::sleep(std::time::Duration::from_millis(time.parse().expect("a number"))),
        ("spawn", args) => {
            let program = std::env::current_exe().expect("the program must have a path");
            let output = std::process::Command::new(program).args(args.split('+')).status().expect("it starts");
            println!("spawned = {:?}", output.code());
        }
        ("cd", dir) => std::env::set_current_dir(dir).expect("the directory exists"),
        ("remove", file) => std::fs::remove_file(file).expect("the file can be removed"),
        ("copy", files) => {
            let (from, to) = files.split_once(',').expect("two files");
            std::fs::copy(from, to).map(drop).expect("the file can be copied");
        }
        (name, option) if system::perform(name, option) => {}
        (arg, _) => {
            if let Some(name) = arg.strip_prefix('?') {
                println!("?{name} = {}", Function::from_name(name).is_some_and(Function::is_available));
            } else if let Some(name) = arg.strip_prefix('@') {
                match function(name).resolve() {
                    Ok(_) => println!("@{name} = resolved"),
                    Err(error) => {
                        println!("@{name} = {:?}", error.status());
                        print_last_error(&error.report());
                    }
                }
            } else if let Some(name) = arg.strip_prefix('~') {
                called(name);
            } else {
                called(arg);
                print_last_error(&last_error(shim));
            }
        }
    }
}

fn finalize(kind: u32) {
    let mut descriptor = std::ptr::null_mut();
    let kind = cudnn_sys::cudnnBackendDescriptorType_t(kind);
    // SAFETY: the pointer is to a local variable.
    let created = unsafe { cudnn_loader::cudnnBackendCreateDescriptor(kind, &raw mut descriptor) };
    // SAFETY: the descriptor is live, or cuDNN rejects null.
    println!("finalize = {created:?}, {:?}", unsafe { cudnn_loader::cudnnBackendFinalize(descriptor) });
}

fn print_last_error(message: &str) {
    for line in message.lines() {
        println!("  | {line}");
    }
}

fn load(list: &str) {
    let mut options = Options::new();
    for option in list.split(',').filter(|option| !option.is_empty()) {
        options = match option.split_once('=').unwrap_or((option, "")) {
            ("path", path) => options.path(path),
            ("min", version) => options.minimum_version(version.parse().expect("a version")),
            ("cuda", major) => options.cuda_major(major.parse().expect("a number")),
            ("strict", _) => options.strict(true),
            _ => panic!("unknown option {option:?}"),
        };
    }
    match options.load() {
        Ok(installation) => {
            println!("load = {} {:?} ({})", installation.version, installation.dir, installation.origin);
        }
        Err(error) => {
            println!("load = {:?}", error.status());
            print_last_error(&error.report());
        }
    }
}

/// Prints a symbol of the graph library that the bindings may not contain.
fn print_symbol(name: &str) {
    let library = cudnn_loader::Library::Graph;
    let print_loaded = || {
        let dir = cudnn_loader::installation().map(|installation| &installation.dir);
        println!(
            "loaded = {:?} of {dir:?}",
            cudnn_loader::loaded_library(library).map(|loaded| (&loaded.path, loaded.version))
        );
    };
    print_loaded();
    let symbol = CString::new(name).expect("a name without NUL");
    // SAFETY: the tests name only constants of four bytes, or symbols that don't exist.
    match cudnn_loader::load_library(library).and_then(|loaded| unsafe { loaded.get::<*const [u8; 4]>(&symbol) }) {
        // SAFETY: as above.
        Ok(bytes) => println!("{name} = {:?}", unsafe { *bytes }),
        Err(error) => {
            println!("{name} = {:?}", error.status());
            print_last_error(&error.report());
        }
    }
    print_loaded();
}

fn receive_log(option: &str) {
    use cudnn_loader::logging::{LogSeverity, set_hook};
    let all = [LogSeverity::Info, LogSeverity::Warning, LogSeverity::Error];
    let (panics, panics_on_drop, calls) = (option == "panic", option == "panic-on-drop", option == "calls");
    let quiet = option == "quiet";
    let received = set_hook(&all, move |event| {
        if quiet {
            return;
        }
        let (entry, status) = (&event.entry, event.status);
        println!("event {}: {entry}: {} {:?} {:?}", entry.severity, status.0, entry.thread, event.device);
        if panics {
            panic!("in the closure");
        }
        if panics_on_drop {
            std::panic::panic_any(PanicsOnDrop);
        }
        if calls {
            // SAFETY: the call passes no pointers.
            unsafe { cudnn_loader::cudnnGetVersion() };
        }
    });
    println!("log = {received:?}");
}

fn write_log(option: &str) {
    use cudnn_loader::logging::{Destination, LogSeverity, write_to};
    let (level, destination) = option.split_once(',').expect("a level and a destination");
    let destination = match destination {
        "NULL" => Destination::None,
        "stdout" => Destination::Stdout,
        "stderr" => Destination::Stderr,
        file => Destination::File(file.into()),
    };
    println!("write = {:?}", write_to(LogSeverity::up_to(level.parse().expect("a number")), destination));
}

unsafe extern "C" fn print_entry(
    severity: cudnn_loader::cudnnSeverity_t,
    data: *mut c_void,
    debug: *const cudnn_loader::cudnnDebug_t,
    message: *const c_char,
) {
    // SAFETY: both pointers are valid during this call.
    let (debug, first) = unsafe { (&*debug, CStr::from_ptr(message)) };
    println!("callback {} {} {} {first:?}", severity.0, data.addr(), debug.cudnnStatus.0);
    // This call fails too, and must not call this function again without end. SAFETY: cuDNN rejects null.
    let _ = unsafe { cudnn_loader::cudnnDestroyTensorDescriptor(std::ptr::null_mut()) };
}

fn set_callback(mask: u32, shim: Option<&Shim>) {
    type Signature = signatures::cudnnSetCallback;
    let function: Signature = match shim {
        // SAFETY: the address belongs to the function with this name.
        Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnSetCallback")) },
        None => cudnn_loader::cudnnSetCallback,
    };
    // SAFETY: the callback has the right type and never dereferences the data pointer.
    let status = unsafe { function(mask, std::ptr::without_provenance_mut(5), Some(print_entry)) };
    println!("cudnnSetCallback = {status:?}");
}

fn get_callback() {
    let (mut mask, mut data, mut function) = (0, std::ptr::null_mut(), None);
    // SAFETY: all three outputs point to local variables.
    let status = unsafe { cudnn_loader::cudnnGetCallback(&raw mut mask, &raw mut data, &raw mut function) };
    let expected = print_entry as *const () as usize;
    let is_same = function.is_some_and(|function| function as usize == expected);
    println!("cudnnGetCallback = {status:?}, {mask}, {}, {is_same}", data.addr());
}

fn preload(options: &str) {
    use cudnn_loader::preload::{Devices, Preload};
    let options: Vec<&str> = options.split(',').filter(|option| !option.is_empty()).collect();
    let has = |option| options.contains(&option);
    let devices: Vec<i32> = options
        .iter()
        .filter_map(|option| option.strip_prefix("device="))
        .map(|number| number.parse().unwrap())
        .collect();
    let devices = match (has("context"), has("all-devices")) {
        (true, _) => Devices::Current,
        (_, true) => Devices::All,
        _ => Devices::List(devices),
    };
    let what = Preload::new().engines(has("engines")).devices(devices);
    let once = || if has("background") { what.clone().start().join() } else { what.run() };
    let outcomes = match has("twice") {
        true => std::thread::scope(|scope| [scope.spawn(once), scope.spawn(once)].map(|thread| thread.join().unwrap())),
        false => return print_preload(once()),
    };
    outcomes.into_iter().for_each(print_preload);
}

fn print_preload(outcome: Result<cudnn_loader::preload::PreloadReport, cudnn_loader::preload::PreloadError>) {
    let (arg, report) = match outcome {
        Ok(report) => ("done".to_owned(), report),
        Err(error) => (format!("failed at {error}").lines().next().unwrap_or_default().to_owned(), error.report),
    };
    println!("preload = {arg}");
    report.steps.iter().for_each(|step| println!("step {} = {}", step.step, step.outcome));
}

fn create(shim: Option<&Shim>) {
    type Signature = signatures::cudnnCreate;
    let function: Signature = match shim {
        // SAFETY: the address belongs to the function with this name.
        Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnCreate")) },
        None => cudnn_loader::cudnnCreate,
    };
    let mut handle = std::ptr::null_mut();
    // SAFETY: the pointer is to a local variable.
    println!("cudnnCreate = {:?}", unsafe { function(&mut handle) });
    print_last_error(&last_error(shim));
}

struct Shim(libloading::Library);

impl Shim {
    fn address(&self, name: &str) -> *mut () {
        let name = CString::new(name).unwrap();
        // SAFETY: the symbol is a function; the caller casts it to the right signature.
        let symbol = unsafe { self.0.get::<unsafe extern "C" fn()>(name.as_bytes_with_nul()) };
        *symbol.expect("the shim must export the function") as *mut ()
    }
}

fn open_shim(file: &Path) -> Shim {
    // SAFETY: the constructors of NVIDIA's shim and the drop-in are harmless.
    Shim(unsafe { libloading::Library::new(file) }.expect("the library can be opened"))
}

fn last_error(shim: Option<&Shim>) -> String {
    type Signature = signatures::cudnnGetLastErrorString;
    let function: Signature = match shim {
        // SAFETY: the address belongs to the function with this name.
        Some(shim) => unsafe { std::mem::transmute::<*mut (), Signature>(shim.address("cudnnGetLastErrorString")) },
        None => cudnn_loader::cudnnGetLastErrorString,
    };
    let mut text = vec![0u8; 16384];
    // SAFETY: the buffer is as long as the call says.
    unsafe { function(text.as_mut_ptr().cast(), text.len()) };
    CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}

fn error_string(status: cudnnStatus_t) -> String {
    // SAFETY: it accepts any status, and returns a static string.
    unsafe { CStr::from_ptr(cudnn_loader::cudnnGetErrorString(status)) }.to_string_lossy().into_owned()
}

/// The payload of a panic that panics again when it is dropped.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in the payload's Drop");
        }
    }
}
