//! Tests programs with a log callback that throws or calls cuDNN, and the last error that such a program reads.
//!
//! The functions of `cudnn_loader` abort if an exception unwinds through them, as C functions do. This program
//! therefore calls the addresses to which the drop-in's functions jump.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

use cudnn_loader::signatures::unwinding;
use cudnn_loader::{
    Function, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind, cudnnCallback_t,
    cudnnDataType_t as DataType, cudnnDebug_t, cudnnSeverity_t,
};

thread_local! {
    static CALLED: Cell<&'static str> = const { Cell::new("") };
    /// The number of the first callback call that throws, from 1, or 0 for never.
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
    /// The plan that the callback queries once.
    static ASKS: Cell<Raw> = const { Cell::new(null_mut()) };
}

macro_rules! call {
    ($function:ident($($argument:expr),*)) => {{
        CALLED.set(stringify!($function));
        let function = Function::from_name(stringify!($function)).unwrap();
        // SAFETY: the pointer has the type of this function; the descriptors are live, and the values have the right
        // types.
        unsafe { function.get::<unwinding::$function>().unwrap()($($argument),*) }
    }};
}

unsafe extern "C-unwind" fn receive(_: cudnnSeverity_t, _: *mut c_void, _: *const cudnnDebug_t, _: *const c_char) {
    let plan = ASKS.replace(null_mut());
    if !plan.is_null() {
        read_engine_notes(plan);
    }
    match COUNTDOWN.get() {
        0 => {}
        // Throw in every later call too, so that a destructor that calls cuDNN is detected.
        1 => resume_unwind(Box::new("from the callback")),
        left => COUNTDOWN.set(left - 1),
    }
}

fn set_callback() {
    type Unwinding = unsafe extern "C-unwind" fn(cudnnSeverity_t, *mut c_void, *const cudnnDebug_t, *const c_char);
    let receive: Unwinding = receive;
    // SAFETY: it is the same function. Exceptions may pass through cuDNN because it is written in C++.
    let receive: cudnnCallback_t = unsafe { std::mem::transmute(receive) };
    // Information, warnings and errors.
    assert!(call!(cudnnSetCallback(14, null_mut(), receive)).is_success());
}

/// Reads an attribute that a restored plan cannot answer, so the original plan must be finalized.
fn read_engine_notes(plan: Raw) {
    let (mut count, mut to) = (0, [0_i64; 4]);
    let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, Type::CUDNN_TYPE_INT64);
    let _ = call!(cudnnBackendGetAttribute(plan, name, ty, 4, &raw mut count, to.as_mut_ptr().cast()));
}

fn descriptor(made: &mut Vec<Raw>, kind: Kind) -> Raw {
    let mut raw = null_mut();
    assert!(call!(cudnnBackendCreateDescriptor(kind, &raw mut raw)).is_success());
    made.push(raw);
    raw
}

fn set<T>(descriptor: Raw, name: Name, ty: Type, elements: &[T]) {
    let count = elements.len() as i64;
    assert!(call!(cudnnBackendSetAttribute(descriptor, name, ty, count, elements.as_ptr().cast())).is_success());
}

fn finalize(descriptor: Raw) {
    assert!(call!(cudnnBackendFinalize(descriptor)).is_success());
}

/// Builds a plan. Returns all descriptors, with the plan as the last one.
fn plan(made: &mut Vec<Raw>, handle: *mut c_void) -> Raw {
    let own = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
    let tensors = [1_i64, 2, 3].map(|uid| {
        let tensor = descriptor(made, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        set(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[uid]);
        set(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT64, &[1_i64, 8, 8]);
        let half = DataType::CUDNN_DATA_HALF;
        set(tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[half]);
        finalize(tensor);
        tensor
    });
    let operation = descriptor(made, Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set(operation, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, own, &tensors[..1]);
    set(operation, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, own, &tensors[1..2]);
    set(operation, Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, own, &tensors[2..]);
    finalize(operation);
    let graph = descriptor(made, Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, own, &[operation]);
    set(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle]);
    finalize(graph);
    let engine = descriptor(made, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, own, &[graph]);
    set(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &[2_i64]);
    finalize(engine);
    let configuration = descriptor(made, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, own, &[engine]);
    finalize(configuration);
    let plan = descriptor(made, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, &[handle]);
    set(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, own, &[configuration]);
    finalize(plan);
    plan
}

fn handle() -> *mut c_void {
    let mut handle = null_mut();
    assert!(call!(cudnnCreate(&raw mut handle)).is_success());
    assert!(call!(cudnnSetStream(handle, null_mut())).is_success());
    handle.cast()
}

/// Makes every kind of call that `plans` intercepts, and returns the results.
fn program() -> String {
    let mut made = Vec::new();
    let handle = handle();
    let plan = plan(&mut made, handle);
    let (mut count, mut size) = (0, 0_i64);
    let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, Type::CUDNN_TYPE_INT64);
    let read = call!(cudnnBackendGetAttribute(plan, name, ty, 1, &raw mut count, (&raw mut size).cast()));
    read_engine_notes(plan);
    let text = last_error();
    let pack = descriptor(&mut made, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, Type::CUDNN_TYPE_INT64, &[1_i64]);
    finalize(pack);
    let mut pack_value = 0;
    let asked = call!(cudnnGetExecutionPlanWorkspaceSize(handle.cast(), plan, pack, &raw mut pack_value));
    let executed = call!(cudnnBackendExecute(handle.cast(), plan, pack));
    let again = call!(cudnnBackendInitialize(plan));
    for descriptor in made {
        assert!(call!(cudnnBackendDestroyDescriptor(descriptor)).is_success());
    }
    assert!(call!(cudnnDestroy(handle.cast())).is_success());
    // The stand-in adds the device number, which is one of three.
    let is_pack_value = (size..size + 3).contains(&(pack_value as i64));
    format!("{} {size} {text:?} {} {is_pack_value} {} {}", read.0, asked.0, executed.0, again.0)
}

fn last_error() -> String {
    let mut text = [0_u8; 100];
    call!(cudnnGetLastErrorString(text.as_mut_ptr().cast(), text.len()));
    std::ffi::CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned()
}

/// Runs the program with a callback that throws from its first call, then from the second, and so on, until no
/// exception is thrown. Prints the functions in which the program caught an exception.
pub(crate) fn throw() {
    set_callback();
    let before = program();
    let mut left_by_exception = BTreeSet::new();
    for calls in 1.. {
        COUNTDOWN.set(calls);
        let Err(thrown) = catch_unwind(program) else { break };
        assert_eq!(thrown.downcast_ref(), Some(&"from the callback"));
        left_by_exception.insert(CALLED.get());
    }
    COUNTDOWN.set(0);
    println!("{left_by_exception:?}\n{before}\n{}", program());
}

macro_rules! throw_in_each {
    ($($library:ident { $(
        since($($since:literal),*) deprecated($deprecated:literal)
        fn $name:ident / $variant:ident ($($argument:ident: $type:ty),*) -> $returns:ty, $doc:literal;
    )* })*) => {
        /// Throws in every function of the table. Prints the functions that the exception did not leave.
        #[allow(deprecated, reason = "programs call deprecated functions, too")]
        pub(crate) fn throw_in_each() {
            $($(
                // One of the functions removes the callback.
                set_callback();
                COUNTDOWN.set(1);
                let left = catch_unwind(AssertUnwindSafe(|| {
                    // SAFETY: all arguments are numbers and pointers that the function ignores.
                    let _ = call!($name($(std::mem::zeroed::<$type>()),*));
                }));
                if left.is_ok() {
                    println!(stringify!($name));
                }
            )*)*
        }
    };
}
cudnn_sys::for_each_function!(throw_in_each);

/// Lets the callback query the plan that cuDNN is finalizing for another query.
pub(crate) fn ask_back() {
    set_callback();
    let (mut made, handle) = (Vec::new(), handle());
    let plan = plan(&mut made, handle);
    ASKS.set(plan);
    read_engine_notes(plan);
    println!("asked: {}", ASKS.get().is_null());
}

/// Uses a finalized plan after the program has destroyed the handle.
pub(crate) fn outlive_handle() {
    let (mut made, handle) = (Vec::new(), handle());
    let plan = plan(&mut made, handle);
    assert!(call!(cudnnDestroy(handle.cast())).is_success());
    read_engine_notes(plan);
    let (name, ty) = (Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE);
    let set = call!(cudnnBackendSetAttribute(plan, name, ty, 1, (&raw const handle).cast()));
    let finalized = call!(cudnnBackendFinalize(plan));
    println!("{} {}", set.0, finalized.0);
}

/// Sets an unfinalized configuration in a plan, which cuDNN accepts. The callback throws in its second call. Prints how
/// many more calls are allowed.
pub(crate) fn set_unfinalized_configuration() {
    set_callback();
    let mut made = Vec::new();
    let configuration = descriptor(&mut made, Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    let plan = descriptor(&mut made, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    COUNTDOWN.set(2);
    set(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[configuration]);
    println!("{} left", COUNTDOWN.replace(0));
}

/// Queries the workspace of a plan without a handle, which cuDNN refuses, and then with other arguments.
pub(crate) fn ask_for_workspace() {
    let mut made = Vec::new();
    let plan = descriptor(&mut made, Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    let pack = descriptor(&mut made, Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    let mut size = 12_345;
    let status = call!(cudnnGetExecutionPlanWorkspaceSize(null_mut(), plan, pack, &raw mut size));
    println!("{} {size}", status.0);
}

/// Builds a plan after each error, for which the layer calls cuDNN itself, and prints the error text.
pub(crate) fn read_last_error() {
    let (mut made, handle) = (Vec::new(), handle());
    let failing = descriptor(&mut made, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    finalize(failing);
    let mut text = [0_u8; 100];
    let to = text.as_mut_ptr().cast();
    // cuDNN returns the text once, even if the caller's buffer is too small.
    for (to, size) in [(to, 100), (to, 1), (to, 5), (to, 0), (null_mut(), 0), (null_mut(), 100)] {
        let status = call!(cudnnBackendFinalize(failing));
        plan(&mut made, handle);
        call!(cudnnGetLastErrorString(to, size));
        // SAFETY: the buffer has this size, and only cuDNN writes to it.
        let read = unsafe { std::ffi::CStr::from_ptr(text.as_ptr().cast()) };
        println!("{} {size} {read:?} {:?}", status.0, last_error());
    }
}
