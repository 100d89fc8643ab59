//! Compares the distinct results of a graph in threads, with limits on the memory.

use std::cell::LazyCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::Builder;

use super::super::prepared::Prepared;
use super::judge::{After, Comparison, Judge, RelativeError, error};
use super::preparation::Reference;

const MAX_THREADS: usize = 8;
/// The maximum size of these results in bytes. A larger result is compared separately.
const MAX_BYTES: usize = 2 << 30;

#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) comparison: Comparison,
    /// The error in comparison with the reference, if there is one.
    pub(super) error: Option<RelativeError>,
}

/// The results of a graph. After a comparison, only the first one stays in memory.
pub(super) struct Judges {
    inputs: Arc<Prepared>,
    reference: LazyCell<Reference, Box<dyn FnOnce() -> Reference>>,
    first: Option<After>,
    pending: VecDeque<Pending>,
    judgements: BTreeMap<usize, Judgement>,
}

struct Pending {
    number: usize,
    after: After,
    judge: Judge,
}

impl Judges {
    /// `reference` waits for the reference.
    pub(super) fn new(inputs: Arc<Prepared>, reference: impl FnOnce() -> Reference + 'static) -> Self {
        let reference: Box<dyn FnOnce() -> Reference> = Box::new(reference);
        let (first, pending, judgements) = (None, VecDeque::new(), BTreeMap::new());
        Judges { inputs, reference: LazyCell::new(reference), first, pending, judgements }
    }

    /// Starts to compare a result. If too many are pending, waits for older ones and for the reference.
    pub(super) fn add(&mut self, number: usize, after: Vec<Vec<u8>>) {
        let after = Arc::new(after);
        while !self.pending.is_empty() && !self.has_room(size(&after)) {
            self.finish_oldest();
        }
        let first = self.first.get_or_insert_with(|| Arc::clone(&after));
        let judge = Judge::start(Builder::new(), &self.inputs, first, &after);
        self.pending.push_back(Pending { number, after, judge });
    }

    /// Waits for all comparisons. Returns the results by number, and the reason for a missing reference.
    pub(super) fn finish(mut self) -> (BTreeMap<usize, Judgement>, Option<String>) {
        while !self.pending.is_empty() {
            self.finish_oldest();
        }
        (self.judgements, self.reference.as_ref().err().cloned())
    }

    fn has_room(&self, bytes: usize) -> bool {
        let pending: usize = self.pending.iter().map(|pending| size(&pending.after)).sum();
        self.pending.len() < MAX_THREADS && pending.saturating_add(bytes) <= MAX_BYTES
    }

    fn finish_oldest(&mut self) {
        let Some(Pending { number, after, judge }) = self.pending.pop_front() else { return };
        let error = error(&self.inputs, &self.reference, &after);
        self.judgements.insert(number, Judgement { comparison: judge.finish(), error });
    }
}

fn size(after: &After) -> usize {
    after.iter().map(Vec::len).sum()
}

#[cfg(test)]
mod tests {
    use cudnn_loader::cudnnDataType_t as DataType;

    use super::super::judge::tests::{after, inputs};
    use super::*;

    #[test]
    fn few_results_wait_in_memory() {
        let (inputs, reference) = inputs(DataType::CUDNN_DATA_FLOAT);
        let results: Vec<After> = (0..12).map(|number| after(&inputs, &reference, &[f64::from(number)])).collect();
        let mut judges = Judges::new(inputs, move || reference);
        for (number, after) in results.iter().enumerate() {
            judges.add(number, after.to_vec());
            assert!(
                judges.pending.len() <= MAX_THREADS && judges.pending.len() + judges.judgements.len() == number + 1
            );
        }
        judges.pending.truncate(1);
        assert!(judges.has_room(0) && !judges.has_room(MAX_BYTES));
    }

    #[test]
    fn each_result_is_compared_with_the_first_one_and_the_reference() {
        let (inputs, reference) = inputs(DataType::CUDNN_DATA_FLOAT);
        let results = [1.0, 0.0, 1.0].map(|add| after(&inputs, &reference, &[add]));
        let mut judges = Judges::new(inputs, move || reference);
        for (number, after) in results.iter().enumerate() {
            judges.add(number, after.to_vec());
        }
        let (judgements, no_reference) = judges.finish();
        let is_small = |error: &RelativeError| error.strict < 1.0;
        let found: Vec<_> = judgements
            .values()
            .map(|judged| (is_small(&judged.comparison.difference), is_small(judged.error.as_ref().unwrap())))
            .collect();
        assert_eq!((found, no_reference), (vec![(true, false), (false, true), (true, false)], None));
    }
}
