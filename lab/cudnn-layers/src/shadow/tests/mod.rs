//! Tests the shadow with typical call sequences. All tests use unique, invented addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::content::{Content, RecordedValue};
use super::elements::{Kind, Name, Raw, Type};
use super::graph as converted;
use super::graph::UNCERTAIN;
use super::*;

mod fork;
mod labels;
mod real;

fn address() -> Raw {
    static LAST: AtomicUsize = AtomicUsize::new(0x1000);
    std::ptr::without_provenance_mut(LAST.fetch_add(64, Ordering::Relaxed))
}

fn create(kind: Kind) -> Raw {
    let descriptor = address();
    created(kind, descriptor);
    descriptor
}

fn set<T>(descriptor: Raw, name: Name, ty: Type, elements: &[T]) {
    // SAFETY: the elements have this type.
    unsafe { attribute_set(descriptor, name, ty, elements.len() as i64, elements.as_ptr().cast()) };
}

fn set_numbers(descriptor: Raw, name: Name, numbers: &[i64]) {
    set(descriptor, name, Type::CUDNN_TYPE_INT64, numbers);
}

fn set_children(descriptor: Raw, name: Name, children: &[Raw]) {
    set(descriptor, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, children);
}

fn read<T>(descriptor: Raw, name: Name, ty: Type, elements: &[T]) {
    let count = elements.len() as i64;
    // SAFETY: the elements have this type.
    unsafe { attribute_read(descriptor, name, ty, count, &raw const count, elements.as_ptr().cast()) };
}

fn destroy(descriptor: Raw) {
    destroying(descriptor).succeeded();
}

fn tensor(uid: i64, extents: &[i64]) -> Raw {
    let tensor = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[uid]);
    set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, extents);
    set(tensor, Name::CUDNN_ATTR_TENSOR_DATA_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[2u32]);
    finalized(tensor);
    tensor
}

fn matmul() -> Raw {
    let operation = create(Kind::CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    let function = create(Kind::CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(function, Name::CUDNN_ATTR_MATMUL_COMP_TYPE, Type::CUDNN_TYPE_DATA_TYPE, &[0u32]);
    finalized(function);
    let tensors = [tensor(1, &[4, 128, 64]), tensor(2, &[4, 64, 32]), tensor(3, &[4, 128, 32])];
    set_children(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_DESC, &[function]);
    set_children(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, &tensors[..1]);
    set_children(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, &tensors[1..2]);
    set_children(operation, Name::CUDNN_ATTR_OPERATION_MATMUL_CDESC, &tensors[2..]);
    finalized(operation);
    tensors.into_iter().chain([function]).for_each(destroy);
    operation
}

fn operation_graph() -> Raw {
    let operation = matmul();
    let graph = create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_children(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[operation]);
    finalized(graph);
    destroy(operation);
    graph
}

const GRAPH_LABEL: &str = "matmul a[4,128,64] b[4,64,32] half -> c[4,128,32] half / float";

fn text(descriptor: Raw) -> String {
    label(descriptor).as_deref().unwrap_or("none").to_owned()
}

#[test]
fn a_graph_is_described_after_its_operations_were_destroyed() {
    let graph = operation_graph();
    assert_eq!(text(graph), GRAPH_LABEL);
    destroy(graph);
    assert_eq!(label(graph), None);
}

#[test]
fn a_label_is_made_once() {
    let graph = operation_graph();
    let (one, other) = (label(graph).unwrap(), label(graph).unwrap());
    assert!(Arc::ptr_eq(&one, &other));
    destroy(graph);
}

#[test]
fn a_parent_keeps_a_child_as_it_was_when_it_was_set() {
    let child = tensor(1, &[8]);
    let parent = create(Kind::CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_children(parent, Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &[child]);
    // cuDNN would reject this for a finalized descriptor. The next call creates a new descriptor at the same address.
    set_numbers(child, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[2]);
    destroy(child);
    created(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, child);
    set_numbers(child, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[3]);
    let kept = content(parent).unwrap();
    let kept = kept.child(Name::CUDNN_ATTR_OPERATION_RESHAPE_XDESC).unwrap();
    assert_eq!(kept.number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID), Some(1));
    assert_eq!(content(child).unwrap().number(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID), Some(3));
    destroy(child);
    destroy(parent);
}

/// One of the operations was created before the layer was active.
#[test]
fn a_graph_with_an_unknown_operation_is_described_by_the_known_ones() {
    let (known, unknown, graph) = (matmul(), address(), create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
    set_children(graph, Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &[unknown, known]);
    assert_eq!(text(graph), GRAPH_LABEL);
    assert_eq!(converted(&content(graph).unwrap()).err(), Some(UNSEEN));
    [known, graph].into_iter().for_each(destroy);
}

/// Layers read the engines of the program's configurations, but the layer `tuned` reads proposals in another order.
#[test]
fn a_layer_learns_engines_unless_it_reads_them_in_another_order() {
    let index = |descriptor| {
        let facts = content(descriptor).unwrap().facts.clone()?;
        facts.numbers(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX).first().copied()
    };
    let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    let read_index = || read(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &[7_i64]);
    trial::run(|| trial::run_in_other_order(read_index));
    assert!(index(engine).is_none());
    trial::run(read_index);
    assert!(index(engine).is_some());
    destroy(engine);
}

#[test]
fn setting_an_attribute_again_replaces_the_value_in_place() {
    let tensor = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[1, 2, 3, 4]);
    set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
    set_numbers(tensor, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[5, 6]);
    let content = content(tensor).unwrap();
    assert_eq!(content.attributes.len(), 2);
    assert_eq!(content.attributes[0].count, 2);
    assert_eq!(content.numbers(Name::CUDNN_ATTR_TENSOR_DIMENSIONS), [5, 6]);
    destroy(tensor);
}

/// cuDNN replaces most values, but adds operations to a graph. If two layers report a call, it counts once.
#[test]
fn a_descriptor_is_uncertain_once_an_attribute_is_set_to_something_else() {
    let is_uncertain = |descriptor| content(descriptor).unwrap().is_uncertain;
    let (one, other) = (tensor(7, &[1, 2]), tensor(8, &[1, 2]));
    set_numbers(one, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[1, 2]);
    assert!(!is_uncertain(one));
    for second in [&[one][..], &[other], &[one, other], &[]] {
        let operation = create(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
        set_children(operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[one]);
        set_children(operation, Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, second);
        assert_eq!(is_uncertain(operation), second != [one]);
        destroy(operation);
    }
    set_numbers(one, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, &[1, 3]);
    assert!(is_uncertain(one) && !is_uncertain(other));
    set(other, Name::CUDNN_ATTR_TENSOR_DIMENSIONS, Type::CUDNN_TYPE_INT32, &[1, 2]);
    assert!(is_uncertain(other));
    [one, other].into_iter().for_each(destroy);
}

#[test]
fn setting_a_long_attribute_again_does_not_change_copies() {
    let pack = create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    let (name, ty) = (Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR);
    set(pack, name, ty, &[1usize; 100]);
    set(pack, name, ty, &[2usize; 100]);
    let kept = content(pack).unwrap();
    set(pack, name, ty, &[3usize; 100]);
    assert_eq!(kept.numbers(name), [2; 100]);
    assert_eq!(content(pack).unwrap().numbers(name), [3; 100]);
    set(pack, name, ty, &[4usize; 50]);
    assert_eq!(content(pack).unwrap().numbers(name), [4; 50]);
    destroy(pack);
}

#[test]
fn a_reused_address_is_a_new_descriptor() {
    let descriptor = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_numbers(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
    created(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, descriptor);
    let content = content(descriptor).unwrap();
    assert_eq!(content.kind, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    assert!(content.attributes.is_empty());
    destroy(descriptor);
}

#[test]
fn a_late_destruction_report_does_not_remove_the_next_descriptor() {
    let descriptor = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    let destruction = destroying(descriptor);
    // cuDNN has destroyed the descriptor, and another thread gets the address before this thread continues.
    created(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR, descriptor);
    destruction.succeeded();
    assert_eq!(content(descriptor).unwrap().kind, Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    destroy(descriptor);
    assert!(content(descriptor).is_none());
}

#[test]
fn two_layers_may_report_the_same_calls() {
    let descriptor = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    created(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR, descriptor);
    set_numbers(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
    set_numbers(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
    finalized(descriptor);
    let first = content(descriptor).unwrap();
    finalized(descriptor);
    assert!(Arc::ptr_eq(&first, &content(descriptor).unwrap()));
    let (outer, inner) = (destroying(descriptor), destroying(descriptor));
    inner.succeeded();
    outer.succeeded();
    assert!(content(descriptor).is_none());
}

#[test]
fn an_emptied_descriptor_has_no_attributes() {
    let descriptor = tensor(7, &[1, 2]);
    initialized(descriptor);
    let content = content(descriptor).unwrap();
    assert!(content.attributes.is_empty() && !content.is_finalized);
    assert_eq!(content.kind, Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    destroy(descriptor);
}

#[test]
fn a_descriptor_is_uncertain_after_a_failed_call_or_a_reset() {
    let calls: [&[fn(Raw)]; 4] = [&[failed], &[initialized], &[failed, initialized], &[initialized, failed]];
    for calls in calls {
        let descriptor = tensor(7, &[1, 2]);
        assert!(converted(&content(descriptor).unwrap()).is_ok());
        calls.iter().for_each(|call| call(descriptor));
        set_numbers(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
        finalized(descriptor);
        assert_eq!(converted(&content(descriptor).unwrap()), Err(UNCERTAIN));
        destroy(descriptor);
    }
}

/// cuDNN uses the knobs of the configuration from which the engine was read, but does not report them.
#[test]
fn an_engine_that_was_read_from_a_configuration_is_uncertain() {
    let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_numbers(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[7]);
    finalized(engine);
    let own = create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_children(own, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine]);
    finalized(own);
    assert!(converted(&content(own).unwrap()).is_ok());
    let proposed = create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    finalized(proposed);
    for configuration in [own, proposed] {
        let copy = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        read(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[copy]);
        assert!(content(copy).unwrap().is_uncertain);
        let other = create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        set_children(other, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[copy]);
        finalized(other);
        assert!(converted(&content(other).unwrap()).is_err());
        // The part of the key that covers only the engine.
        let settings = Arc::new(content(copy).unwrap().without(&[]));
        assert_eq!(converted(&settings), Err(UNCERTAIN));
        [other, copy].into_iter().for_each(destroy);
    }
    assert!(converted(&content(engine).unwrap()).is_ok());
    [own, proposed, engine].into_iter().for_each(destroy);
}

/// Undeclared elements are never read, because the memory may be unreadable.
#[test]
fn undeclared_large_and_missing_elements_are_marked() {
    let descriptor = create(Kind(999));
    let nothing = std::ptr::without_provenance::<c_void>(64);
    let (int64, children) = (Type::CUDNN_TYPE_INT64, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
    for (name, ty, count) in [
        (Name(123_456), int64, 1),
        (Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type(4711), 1),
        (Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64, 2),
        (Name::CUDNN_ATTR_TENSOR_DIMENSIONS, int64, 0),
        (Name::CUDNN_ATTR_TENSOR_STRIDES, int64, -1),
        (Name::CUDNN_ATTR_MATMUL_PADDING_VALUE, Type::CUDNN_TYPE_FLOAT, 1),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_ADESC, children, 4096),
        (Name::CUDNN_ATTR_OPERATION_MATMUL_BDESC, children, i64::MAX),
        (Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, Type::CUDNN_TYPE_HANDLE, 2),
    ] {
        // SAFETY: elements are read only for declared combinations, and these are undeclared.
        unsafe { attribute_set(descriptor, name, ty, count, nothing) };
        let content = content(descriptor).unwrap();
        assert!(matches!(content.attribute(name).unwrap().value, RecordedValue::Undeclared), "{name:?} {ty:?} {count}");
    }
    let tensor_type = Name::CUDNN_ATTR_TENSOR_DATA_TYPE;
    // SAFETY: no elements are read from a null pointer.
    unsafe { attribute_set(descriptor, tensor_type, Type::CUDNN_TYPE_DATA_TYPE, 1, std::ptr::null()) };
    let json = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    set(descriptor, json, Type::CUDNN_TYPE_CHAR, &vec![b'x'; elements::MAX_BYTES + 1]);
    let input = Name::CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS;
    set_children(descriptor, input, &[address(), std::ptr::null_mut()]);
    let content = content(descriptor).unwrap();
    assert!(matches!(content.attribute(tensor_type).unwrap().value, RecordedValue::Undeclared));
    assert!(matches!(content.attribute(json).unwrap().value, RecordedValue::TooLarge));
    assert!(matches!(content.children(input), [None, None]));
    assert_eq!(label(descriptor), None);
    destroy(descriptor);
}

#[test]
fn a_text_ends_with_its_nul() {
    let descriptor = create(Kind::CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    let json = Name::CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
    // SAFETY: the text is read up to the NUL.
    unsafe { attribute_set(descriptor, json, Type::CUDNN_TYPE_CHAR, 1 << 30, c"{}".as_ptr().cast()) };
    assert_eq!(content(descriptor).unwrap().elements(json).unwrap().as_slice(), b"{}");
    destroy(descriptor);
}

#[test]
fn a_descriptor_with_an_unknown_origin_is_ignored() {
    let descriptor = address();
    set_numbers(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[7]);
    finalized(descriptor);
    initialized(descriptor);
    read(descriptor, Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, Type::CUDNN_TYPE_INT64, &[7i64]);
    workspace_read(descriptor, 4);
    destroy(descriptor);
    assert!(content(descriptor).is_none() && label(descriptor).is_none());
}

#[test]
fn an_endless_chain_of_descriptors_is_cut() {
    let mut last = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    for _ in 0..10_000 {
        let next = create(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR);
        set_children(next, Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, &[last]);
        destroy(last);
        last = next;
    }
    let mut depth = 0;
    let mut content = content(last);
    while let Some(child) = content {
        depth += 1;
        content = child.child(Name::CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC).cloned();
    }
    assert!(depth <= 64, "{depth}");
    destroy(last);
}

struct Proposed {
    heuristics: Raw,
    configuration: Raw,
    plan: Raw,
}

impl Proposed {
    fn new() -> Self {
        let graph = operation_graph();
        let heuristics = create(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
        set_children(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph]);
        set(heuristics, Name::CUDNN_ATTR_ENGINEHEUR_MODE, Type::CUDNN_TYPE_HEUR_MODE, &[3u32]);
        finalized(heuristics);
        destroy(graph);
        let configurations = [(); 3].map(|()| create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
        let (results, ty) = (Name::CUDNN_ATTR_ENGINEHEUR_RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
        read(heuristics, results, ty, &configurations);
        let plan = create(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set_children(plan, Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, &configurations[1..2]);
        finalized(plan);
        destroy(configurations[0]);
        destroy(configurations[2]);
        Proposed { heuristics, configuration: configurations[1], plan }
    }

    /// Reads the same attributes of a configuration as frontends do.
    fn read_engine(&self, index: i64) {
        let descriptor = Type::CUDNN_TYPE_BACKEND_DESCRIPTOR;
        let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
        read(self.configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, descriptor, &[engine]);
        read(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, Type::CUDNN_TYPE_INT64, &[index]);
        assert_eq!(text(engine), format!("{GRAPH_LABEL}; engine {index}"));
        let choice = create(Kind::CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        read(self.configuration, Name::CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, descriptor, &[choice]);
        read(choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, Type::CUDNN_TYPE_KNOB_TYPE, &[2u32]);
        read(choice, Name::CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, Type::CUDNN_TYPE_INT64, &[3i64]);
        assert_eq!(text(choice), "TILE_SIZE=3");
        destroy(engine);
        destroy(choice);
    }

    fn destroy(self) {
        [self.heuristics, self.configuration, self.plan].into_iter().for_each(destroy);
    }
}

#[test]
fn a_plan_label_grows_as_the_program_reads_more() {
    let proposed = Proposed::new();
    assert_eq!(text(proposed.heuristics), format!("{GRAPH_LABEL}; heuristics mode_a"));
    assert_eq!(text(proposed.plan), GRAPH_LABEL);
    proposed.read_engine(12);
    let with_engine = format!("{GRAPH_LABEL}; engine 12 {{TILE_SIZE=3}}; proposal 2 of 3");
    assert_eq!(text(proposed.configuration), with_engine);
    assert_eq!(text(proposed.plan), with_engine);
    let size = Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE;
    read(proposed.plan, size, Type::CUDNN_TYPE_INT64, &[4i64 << 20]);
    assert_eq!(text(proposed.plan), format!("{with_engine}; workspace 4.0 MiB"));
    // Reading the same values again is a no-op.
    let before = label(proposed.plan).unwrap();
    proposed.read_engine(12);
    read(proposed.plan, size, Type::CUDNN_TYPE_INT64, &[4i64 << 20]);
    assert!(Arc::ptr_eq(&before, &label(proposed.plan).unwrap()));
    workspace_read(proposed.plan, 100);
    assert_eq!(text(proposed.plan), format!("{with_engine}; workspace 100 bytes"));
    proposed.destroy();
}

#[test]
fn contents_are_freed_with_the_last_descriptor() {
    let proposed = Proposed::new();
    proposed.read_engine(1);
    let plan = Arc::downgrade(&content(proposed.plan).unwrap());
    let configuration = Arc::downgrade(&content(proposed.configuration).unwrap());
    let heuristics = Arc::downgrade(&content(proposed.heuristics).unwrap());
    destroy(proposed.configuration);
    destroy(proposed.heuristics);
    assert!(configuration.upgrade().is_some() && heuristics.upgrade().is_some());
    destroy(proposed.plan);
    assert!(plan.upgrade().is_none() && configuration.upgrade().is_none() && heuristics.upgrade().is_none());
}

#[test]
fn reading_a_descriptor_returns_the_content_the_program_set() {
    let graph = operation_graph();
    let engine = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    set_children(engine, Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH, &[graph]);
    set_numbers(engine, Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX, &[5]);
    finalized(engine);
    let configuration = create(Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    set_children(configuration, Name::CUDNN_ATTR_ENGINECFG_ENGINE, &[engine]);
    finalized(configuration);
    let copy = create(Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_ENGINECFG_ENGINE;
    read(configuration, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[copy]);
    assert_eq!(content(copy).unwrap().numbers(Name::CUDNN_ATTR_ENGINE_GLOBAL_INDEX), [5]);
    let read_graph = create(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    let name = Name::CUDNN_ATTR_ENGINE_OPERATION_GRAPH;
    read(copy, name, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR, &[read_graph]);
    assert!(Arc::ptr_eq(&content(read_graph).unwrap(), &content(graph).unwrap()));
    assert_eq!(text(configuration), format!("{GRAPH_LABEL}; engine 5"));
    [graph, engine, configuration, copy, read_graph].into_iter().for_each(destroy);
}

#[test]
fn threads_make_use_and_destroy_each_others_descriptors() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 200;
    let (sender, receiver) = std::sync::mpsc::sync_channel::<usize>(1000);
    let receiver = Arc::new(std::sync::Mutex::new(receiver));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let sender = sender.clone();
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let graph = operation_graph();
                    assert_eq!(text(graph), GRAPH_LABEL);
                    sender.send(graph.addr()).unwrap();
                }
            });
        }
        drop(sender);
        for _ in 0..4 {
            let receiver = receiver.clone();
            scope.spawn(move || {
                loop {
                    let Ok(graph) = receiver.lock().unwrap().recv() else { return };
                    let graph = std::ptr::without_provenance_mut(graph);
                    assert_eq!(text(graph), GRAPH_LABEL);
                    destroy(graph);
                    assert!(content(graph).is_none());
                }
            });
        }
    });
}

#[test]
fn a_step_leaves_nothing_behind() {
    let graph = operation_graph();
    // The total size of the table varies, because other tests use it at the same time.
    for _ in 0..1000 {
        let pack = create(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
        set_numbers(pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &[1, 2, 3]);
        set(pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &[0usize; 3]);
        finalized(pack);
        assert_eq!(label(pack), None);
        let kept = Arc::downgrade(&content(pack).unwrap());
        destroy(pack);
        assert!(kept.upgrade().is_none());
        assert!(content(pack).is_none());
    }
    destroy(graph);
}

/// `cargo test --release -p cudnn-layers -- --ignored --nocapture cost`
#[test]
#[ignore = "prints times"]
fn cost() {
    let graph = operation_graph();
    let plan = Proposed::new();
    plan.read_engine(3);
    let pack = address();
    let (ids, pointers) = ([1i64, 2, 3, 4], [0usize; 4]);
    time("label", || drop(label(plan.plan)));
    time("step of one pack: six calls", || {
        created(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack);
        set_numbers(pack, Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &ids);
        set(pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &pointers);
        set(pack, Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE, Type::CUDNN_TYPE_VOID_PTR, &[0usize]);
        finalized(pack);
        destroy(pack);
    });
    created(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, pack);
    time("pointers set again", || {
        set(pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &pointers);
    });
    let content: Arc<Content> = content(plan.plan).unwrap();
    let many = [0usize; 12];
    time("12 pointers set again", || {
        set(pack, Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, Type::CUDNN_TYPE_VOID_PTR, &many);
    });
    time("label made", || drop(label::describe(&content)));
    destroy(graph);
    plan.destroy();
}

/// Prints the fastest of many batches, because the machine may be busy.
fn time(what: &str, mut call: impl FnMut()) {
    const CALLS: u32 = 10_000;
    let batch = |_| {
        let start = std::time::Instant::now();
        (0..CALLS).for_each(|_| call());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    println!("{what}: {:.1} ns", (0..100).map(batch).fold(f64::INFINITY, f64::min));
}

#[test]
fn contents_may_be_used_in_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<Content>();
}
