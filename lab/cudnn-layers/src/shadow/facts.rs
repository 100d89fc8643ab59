//! Stores values that the program has read from finalized descriptors. Examples are a configuration proposed by the
//! heuristics, its engine and knobs, and the workspace size of a plan.
//!
//! Facts refer only to lower levels, to avoid reference cycles: a configuration's facts refer to the engine's facts,
//! while the engine's content refers to the configuration.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cudnn_sys::types::{cudnnBackendBehaviorNote_t as BehaviorNote, cudnnBackendNumericalNote_t as NumericalNote};
use once_cell::race::OnceBox;

use super::elements::{Bytes, Name, Type, numbers};
use crate::lock::{Guard, Lock};

/// More attributes than any kind of descriptor has, and more descriptors than any attribute returns.
const MAX_FACTS: usize = 64;
const MAX_CHILDREN: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct DescriptorFacts {
    /// Incremented with every new fact, and shared with lower levels. Labels are rebuilt if it has changed.
    version: Arc<AtomicU32>,
    facts: Facts,
    /// Whether the layer `tuned` recommends this engine.
    is_tuned: AtomicBool,
    chosen: OnceBox<ChosenEngine>,
}

/// The engine of a configuration, as far as cuDNN reports it.
#[derive(Debug, Default)]
pub(crate) struct ChosenEngine {
    pub(crate) engine: Option<i64>,
    pub(crate) numerical_notes: Vec<NumericalNote>,
    pub(crate) behavior_notes: Vec<BehaviorNote>,
    pub(crate) knobs: Vec<(u32, i64)>,
}

type Values = BTreeMap<Name, FactValue>;

/// The values of attributes.
struct Facts(Lock<Values>);

impl Default for Facts {
    fn default() -> Self {
        Facts(Lock::new(BTreeMap::new()))
    }
}

impl std::fmt::Debug for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

enum FactValue {
    Elements(Type, Bytes),
    Descriptors(Vec<Arc<DescriptorFacts>>),
}

/// Acquired before the lock of any facts, so that no facts are locked during a fork.
pub(super) static GATE: Lock<()> = Lock::new(());

impl DescriptorFacts {
    pub(super) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// Call this if the layer `tuned` recommends this engine.
    pub(crate) fn set_tuned(&self) {
        self.is_tuned.store(true, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn is_tuned(&self) -> bool {
        self.is_tuned.load(Ordering::Relaxed)
    }

    /// Call this if a layer has read the engine of this configuration.
    pub(crate) fn set_chosen(&self, engine: ChosenEngine) {
        let _ = self.chosen.set(Box::new(engine));
        self.version.fetch_add(1, Ordering::Release);
    }

    pub(super) fn chosen(&self) -> Option<&ChosenEngine> {
        self.chosen.get()
    }

    /// Returns the integers of an attribute, if the program has read it.
    pub(crate) fn numbers(&self, name: Name) -> Vec<i64> {
        let Some((_gate, facts)) = self.lock() else { return Vec::new() };
        match facts.get(&name) {
            Some(FactValue::Elements(ty, bytes)) => numbers(*ty, bytes.as_slice()),
            _ => Vec::new(),
        }
    }

    /// Returns the facts of an attribute's descriptors, if the program has read them.
    pub(crate) fn children(&self, name: Name) -> Vec<Arc<DescriptorFacts>> {
        let Some((_gate, facts)) = self.lock() else { return Vec::new() };
        match facts.get(&name) {
            Some(FactValue::Descriptors(children)) => children.clone(),
            _ => Vec::new(),
        }
    }

    /// Stores the elements of an attribute that the program has read.
    pub(super) fn learn(&self, name: Name, ty: Type, bytes: &[u8]) {
        let Some((_gate, mut facts)) = self.lock() else { return };
        let is_known = match facts.get(&name) {
            Some(FactValue::Elements(known, old)) => *known == ty && old.as_slice() == bytes,
            Some(FactValue::Descriptors(_)) => false,
            None => facts.len() >= MAX_FACTS,
        };
        if !is_known {
            facts.insert(name, FactValue::Elements(ty, Bytes::new(bytes)));
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Stores that the program has read `count` descriptors from an attribute. The caller attaches the
    /// returned facts to the program's descriptors.
    pub(super) fn learn_children(&self, name: Name, count: usize) -> Vec<Arc<DescriptorFacts>> {
        let count = count.min(MAX_CHILDREN);
        let Some((_gate, mut facts)) = self.lock() else { return Vec::new() };
        if !matches!(facts.get(&name), Some(FactValue::Descriptors(_))) && facts.len() < MAX_FACTS {
            facts.insert(name, FactValue::Descriptors(Vec::new()));
        }
        let Some(FactValue::Descriptors(children)) = facts.get_mut(&name) else { return Vec::new() };
        if children.len() < count {
            children.resize_with(count, || {
                Arc::new(DescriptorFacts { version: self.version.clone(), ..DescriptorFacts::default() })
            });
            self.version.fetch_add(1, Ordering::Release);
        }
        children.iter().take(count).cloned().collect()
    }

    fn lock(&self) -> Option<(Guard<'static, ()>, Guard<'_, Values>)> {
        Some((GATE.lock()?, self.facts.0.lock()?))
    }
}
