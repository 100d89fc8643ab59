//! Groups the records of a capture by process, because ordinals count from the start of one.

use std::collections::BTreeMap;

use super::read::Capture;
use super::record::{DataRecord, ExecutionRecord, PlanRecord, Record, StartRecord};
use super::status::Status;

/// The records of a process, with the plans that they describe.
#[derive(Clone, Debug)]
pub struct Process<'a> {
    /// The releases that the process used.
    pub start: &'a StartRecord,
    /// The records after the start.
    pub records: &'a [Record],
    /// The plans, in the order of their records.
    pub plans: Vec<CapturedPlan<'a>>,
    devices: BTreeMap<usize, &'a str>,
    last_device: Option<&'a str>,
}

/// A plan with the records that refer to it.
#[derive(Clone, Debug)]
pub struct CapturedPlan<'a> {
    /// The plan.
    pub record: &'a PlanRecord,
    /// The number of successful executions.
    pub count: u64,
    /// The recorded executions: the first one with each status.
    pub executions: Vec<&'a ExecutionRecord>,
    /// The values of tensors by the number of the execution.
    pub values: BTreeMap<u64, Vec<&'a DataRecord>>,
}

impl Capture {
    /// Returns the processes in order, without records that refer to a missing plan.
    pub fn processes(&self) -> impl Iterator<Item = Process<'_>> {
        let is_start = |record: &Record| matches!(record, Record::Start(_));
        self.records.chunk_by(move |_, next| !is_start(next)).filter_map(|records| match records {
            [Record::Start(start), records @ ..] => Some(Process::new(start, records)),
            _ => None,
        })
    }

    /// Returns the number of calls of each function outside the backend API.
    pub fn calls(&self) -> BTreeMap<&str, u64> {
        let mut calls = BTreeMap::<&str, u64>::new();
        for record in &self.records {
            if let Record::Call(call) = record {
                let count = calls.entry(&call.function).or_default();
                *count = count.saturating_add(call.calls);
            }
        }
        calls
    }
}

impl<'a> Process<'a> {
    fn new(start: &'a StartRecord, records: &'a [Record]) -> Self {
        let mut process = Process { start, records, plans: Vec::new(), devices: BTreeMap::new(), last_device: None };
        let mut places = BTreeMap::<usize, usize>::new();
        for record in records {
            match record {
                Record::Device(device) if !device.description.is_empty() => {
                    process.devices.insert(device.device, &device.description);
                    process.last_device = Some(&device.description);
                }
                Record::Plan(record) => {
                    places.insert(record.plan, process.plans.len());
                    let (executions, values) = (Vec::new(), BTreeMap::new());
                    process.plans.push(CapturedPlan { record, count: 0, executions, values });
                }
                Record::Execution(ExecutionRecord { plan, .. })
                | Record::Data(DataRecord { plan, .. })
                | Record::Count(super::CountRecord { plan, .. }) => {
                    let plan = places.get(plan).and_then(|place| process.plans.get_mut(*place));
                    plan.into_iter().for_each(|plan| plan.add(record));
                }
                _ => {}
            }
        }
        process
    }

    /// Returns the description of a device.
    pub fn device(&self, ordinal: Option<usize>) -> Option<&'a str> {
        self.devices.get(&ordinal?).copied()
    }

    /// Returns the description of the last device.
    pub fn last_device(&self) -> Option<&'a str> {
        self.last_device
    }
}

impl<'a> CapturedPlan<'a> {
    fn add(&mut self, record: &'a Record) {
        match record {
            Record::Execution(execution) => {
                self.count = self.count.max(u64::from(execution.status == Status::SUCCESS));
                self.executions.push(execution);
            }
            Record::Count(count) => self.count = self.count.max(count.executions),
            Record::Data(data) => self.values.entry(data.execution).or_default().push(data),
            _ => {}
        }
    }
}
