//! Reads captures.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde_json::Value as Json;

use super::ids::Ids;
use super::record::{CountRecord, ExecutionRecord, FORMAT, PlanRecord, ProposalsRecord, Record};
use crate::object::Object;

/// The records of a file, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capture {
    /// The records of all processes.
    pub records: Vec<Record>,
    /// Sentences about the parts that could not be read, without a full stop.
    pub problems: Vec<String>,
}

const NO_CAPTURE: &str = "the file is not a capture";
const ARCHIVE: &str = "the file is an archive; unpack it and name the capture in it";
/// The first bytes of zip and gzip files.
const ARCHIVES: [&[u8]; 2] = [b"PK\x03\x04", b"\x1f\x8b"];
/// Maximum length of a line in bytes.
const MAX_LINE: u64 = 16 << 20;
/// Maximum number of damaged lines and of unknown types to report.
const MAX_DAMAGED: usize = 20;
const MAX_LINES: usize = 1 << 20;

impl Capture {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read, or if this program does not understand it.
    pub fn read(file: &Path) -> Result<Self, String> {
        Capture::from_reader(std::fs::File::open(file).map_err(|error| error.to_string())?)
    }

    /// Reads the content of a file.
    ///
    /// # Errors
    /// See [`read`](Capture::read).
    pub fn parse(content: &[u8]) -> Result<Self, String> {
        Capture::from_reader(content)
    }

    fn from_reader(content: impl Read) -> Result<Self, String> {
        let mut reader = BufReader::new(content);
        let mut reading = Reading::default();
        let mut line = Vec::new();
        for number in 1_usize.. {
            line.clear();
            reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(|error| error.to_string())?;
            if line.is_empty() {
                break;
            }
            if number == 1 && ARCHIVES.iter().any(|start| line.starts_with(start)) {
                return Err(ARCHIVE.to_owned());
            }
            if line.len() as u64 == MAX_LINE || number > MAX_LINES {
                return Err("the capture is too large".to_owned());
            }
            let is_complete = line.last() == Some(&b'\n');
            match serde_json::from_slice(&line).map(|Object(record)| record) {
                Ok(Record::Start(start)) if start.format > FORMAT => {
                    return Err(format!("the format {} of the capture is newer than {FORMAT}", start.format));
                }
                Ok(record) if number > 1 || matches!(record, Record::Start(_)) => reading.add(number, record),
                _ if number == 1 => return Err(NO_CAPTURE.to_owned()),
                Err(_) if !is_complete => reading.capture.problems.push("the last line is incomplete".to_owned()),
                Err(error) => reading.skip(number, &line, &error),
                Ok(_) => {}
            }
        }
        if reading.capture.records.is_empty() { Err(NO_CAPTURE.to_owned()) } else { Ok(reading.finish()) }
    }
}

#[derive(Default)]
struct Reading {
    capture: Capture,
    ids: Ids,
    /// The current process's plans by ordinal, as indices in `capture.records`.
    plans: BTreeMap<usize, usize>,
    process: usize,
    /// The records of unknown types, and the records that refer to missing plans.
    unknown: BTreeMap<String, usize>,
    missing: BTreeMap<(usize, usize), usize>,
    damaged: usize,
}

impl Reading {
    /// Adds a record that does not contradict earlier ones.
    fn add(&mut self, line: usize, mut record: Record) {
        if let Some((stated, id)) = self.ids.correct(&mut record) {
            self.damage(line, format!("the id {stated:?} is not {id}, the id of this graph"));
        }
        match &record {
            Record::Start(_) => {
                self.plans.clear();
                self.process += 1;
            }
            Record::Plan(plan) => match self.plans.get(&plan.plan).and_then(|place| self.capture.records.get(*place)) {
                None => _ = self.plans.insert(plan.plan, self.capture.records.len()),
                // Two threads may write the same plan.
                Some(Record::Plan(known)) if known.key() == plan.key() => return,
                Some(_) => return self.damage(line, format!("another plan has the ordinal {}", plan.plan)),
            },
            Record::Execution(ExecutionRecord { plan, .. }) | Record::Count(CountRecord { plan, .. })
                if !self.plans.contains_key(plan) =>
            {
                *self.missing.entry((self.process, *plan)).or_default() += 1;
            }
            _ => {}
        }
        self.capture.records.push(record);
    }

    fn skip(&mut self, number: usize, line: &[u8], error: &serde_json::Error) {
        match unknown_record(line) {
            Some(name) if self.unknown.len() < MAX_DAMAGED || self.unknown.contains_key(&name) => {
                *self.unknown.entry(name).or_default() += 1;
            }
            Some(_) => self.damaged += 1,
            None => {
                // The error counts lines within this line.
                let place = format!(" at line {} column {}", error.line(), error.column());
                let text = error.to_string();
                let reason = text.strip_suffix(&place).unwrap_or(&text);
                self.damage(number, format!("{reason} at column {}", error.column()));
            }
        }
    }

    fn damage(&mut self, line: usize, reason: String) {
        self.damaged += 1;
        if self.damaged <= MAX_DAMAGED {
            self.capture.problems.push(format!("line {line} is damaged: {reason}"));
        }
    }

    fn finish(mut self) -> Capture {
        let mut missing = missing_graphs(&self.capture.records);
        let plan = |((process, plan), count)| (format!("the plan {plan} of process {process}"), count);
        missing.extend(self.missing.into_iter().map(plan));
        let problems = &mut self.capture.problems;
        let more = |count: usize| {
            count
                .checked_sub(MAX_DAMAGED)
                .filter(|more| *more > 0)
                .map(|more| format!("{more} more parts are damaged or missing"))
        };
        problems.extend(more(self.damaged));
        let more = more(missing.len());
        problems.extend(
            missing
                .into_iter()
                .take(MAX_DAMAGED)
                .map(|(name, count)| format!("{name} is missing; records that need it and were skipped: {count}")),
        );
        problems.extend(more);
        problems.extend(self.unknown.into_iter().map(|(name, count)| match count {
            1 => format!("1 record of the unknown type {name:?} was skipped"),
            _ => format!("{count} records of the unknown type {name:?} were skipped"),
        }));
        self.capture
    }
}

/// Returns the missing graphs, with the numbers of the records that refer to them.
fn missing_graphs(records: &[Record]) -> Vec<(String, usize)> {
    let graph = |record: &Record| if let Record::Graph(graph) = record { Some(graph.graph.clone()) } else { None };
    let graphs: BTreeSet<String> = records.iter().filter_map(graph).collect();
    let mut missing = BTreeMap::<&str, usize>::new();
    for record in records {
        if let Record::Plan(PlanRecord { graph, .. }) | Record::Proposals(ProposalsRecord { graph, .. }) = record
            && !graphs.contains(graph)
        {
            *missing.entry(graph).or_default() += 1;
        }
    }
    missing.into_iter().map(|(graph, count)| (format!("the graph {graph:?}"), count)).collect()
}

fn unknown_record(line: &[u8]) -> Option<String> {
    let json: Json = serde_json::from_slice(line).ok()?;
    let name = json.get("record")?.as_str()?;
    let error = serde_json::from_value::<Record>(serde_json::json!({ "record": name })).err()?;
    error.to_string().contains("unknown variant").then(|| name.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captures::record::StartRecord;

    const START: &str = "{\"record\":\"start\",\"format\":1,\"cudnn\":91900,\"cudart\":13000}\n";

    #[test]
    fn what_cannot_be_read_is_named() {
        let lines = [
            START,
            "{\"record\":\"future\",\"x\":1}\n",
            "{\"record\":\"future\"}\n",
            "garbage\n",
            "{\"record\":\"count\",\"plan\":\"x\"}\n",
            "{\"record\":\"count\",\"plan\":1,\"executions\":4}\n",
            "{\"record\":\"count\",\"pl",
        ];
        let capture = Capture::parse(lines.concat().as_bytes()).unwrap();
        assert_eq!(capture.records.len(), 2);
        let problems: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems[0], "line 4 is damaged: expected value at column 1");
        assert_eq!(problems[1], "line 5 is damaged: invalid type: string \"x\", expected usize at column 29");
        assert_eq!(problems[2], "the last line is incomplete");
        assert_eq!(problems[3], "the plan 1 of process 1 is missing; records that need it and were skipped: 1");
        assert_eq!(problems[4], "2 records of the unknown type \"future\" were skipped");
    }

    #[test]
    fn arrays_are_not_read_as_records() {
        assert_eq!(Capture::parse(b"[\"start\",1,91900,13000]\n").unwrap_err(), NO_CAPTURE);
        let execution = "\"record\":\"execution\",\"plan\":0,\"status\":\"SUCCESS\"";
        for line in [
            "[\"count\",1,4]".to_owned(),
            format!("{{{execution},\"tensors\":[[1,null,null]]}}"),
            format!("{{{execution},\"tensors\":[{{\"uid\":1,\"memory\":[0,0]}}]}}"),
            format!("{{{execution},\"tensors\":[],\"workspace\":[0,0]}}"),
        ] {
            let capture = Capture::parse(format!("{START}{line}\n").as_bytes()).unwrap();
            let problem = capture.problems.concat();
            assert!(problem.contains("invalid type: sequence, expected an object"), "{line}: {problem}");
        }
    }

    #[test]
    fn an_incorrect_id_is_replaced_by_the_id_of_the_content() {
        let graph = |id: &str, kind: &str| {
            format!("{{\"record\":\"graph\",\"graph\":\"{id}\",\"label\":\"\",\"nodes\":[{{\"kind\":\"{kind}\"}}]}}\n")
        };
        let plan = |id: &str| {
            format!("{{\"record\":\"plan\",\"plan\":0,\"graph\":\"{id}\",\"status\":\"SUCCESS\",\"build_us\":1}}\n")
        };
        let id = |content: &str| match Capture::parse(content.as_bytes()).unwrap().records.remove(1) {
            Record::Graph(graph) => graph.graph,
            other => panic!("{other:?}"),
        };
        let [tensor, matmul] = ["TENSOR", "MATMUL"].map(|kind| id(&format!("{START}{}", graph("x", kind))));
        let plan_ids = |content: String| {
            let capture = Capture::parse(content.as_bytes()).unwrap();
            let problems: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
            let ids = capture.records.into_iter().filter_map(|record| match record {
                Record::Graph(graph) => Some(graph.graph),
                Record::Plan(plan) => Some(plan.graph),
                _ => None,
            });
            (ids.collect::<Vec<_>>(), problems)
        };
        let (ids, problems) =
            plan_ids(format!("{START}{}{}", graph("\u{1b}", "TENSOR").replace('\u{1b}', "\\u001b"), plan("\\u001b")));
        assert_eq!(ids, [&*tensor, &tensor]);
        assert_eq!(
            problems,
            [format!("line 2 is damaged: the id {:?} is not {tensor}, the id of this graph", "\u{1b}")]
        );
        // The plan belongs to the intact graph, before and after the damaged one.
        for graphs in [["TENSOR", "MATMUL"], ["MATMUL", "TENSOR"]] {
            let (ids, problems) =
                plan_ids(format!("{START}{}{}{}", graph(&tensor, graphs[0]), graph(&tensor, graphs[1]), plan(&tensor)));
            assert_eq!((&ids[2], problems.len()), (&tensor, 1), "{graphs:?}");
            assert!(ids[..2].contains(&tensor) && ids[..2].contains(&matmul), "{ids:?}");
        }
        assert_eq!(plan_ids(format!("{START}{}", graph(&tensor, "TENSOR"))).1, [""; 0]);
    }

    #[test]
    fn missing_graphs_and_plans_are_named() {
        let plan = r#"{"record":"plan","plan":0,"graph":"absent","status":"SUCCESS","build_us":1}"#;
        let execution = r#"{"record":"execution","plan":0,"status":"SUCCESS","tensors":[]}"#;
        let lines = [
            START.trim_end(),
            r#"{"record":"proposals","graph":"absent","mode":0,"count":3}"#,
            plan,
            execution,
            r#"{"record":"count","plan":7,"executions":4}"#,
            r#"{"record":"count","plan":7,"executions":8}"#,
            START.trim_end(),
            execution,
        ];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let problems: Vec<String> = capture.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "the graph \"absent\" is missing; records that need it and were skipped: 2",
                "the plan 7 of process 1 is missing; records that need it and were skipped: 2",
                "the plan 0 of process 2 is missing; records that need it and were skipped: 1",
            ]
        );
    }

    #[test]
    fn two_plans_with_one_ordinal_are_damage() {
        let plan = |engine: usize, build: usize| {
            format!(
                r#"{{"record":"plan","plan":0,"graph":"g","status":"SUCCESS","engine":{{"index":{engine}}},"build_us":{build}}}"#
            )
        };
        let start = START.trim_end().to_owned();
        // Two threads may write the same plan, and every process counts from 0.
        let lines = [start.clone(), plan(3, 1), plan(3, 2), plan(4, 1), start, plan(4, 1)];
        let capture = Capture::parse((lines.join("\n") + "\n").as_bytes()).unwrap();
        let engines = capture.processes().flat_map(|process| process.plans);
        let engines: Vec<i64> = engines.filter_map(|plan| Some(plan.record.engine.as_ref()?.index)).collect();
        assert_eq!(engines, [3, 4]);
        assert_eq!(capture.problems[0].to_string(), "line 4 is damaged: another plan has the ordinal 0");
    }

    #[test]
    fn only_some_problems_are_named() {
        let capture = Capture::parse(&[START.as_bytes(), &b"x\n".repeat(30)].concat()).unwrap();
        assert_eq!(capture.problems.len(), MAX_DAMAGED + 1);
        assert_eq!(capture.problems.last().unwrap().to_string(), "10 more parts are damaged or missing");
    }

    #[test]
    fn other_files_are_refused() {
        for text in [&b""[..], b"{}\n", &[0; 4096]] {
            assert_eq!(Capture::parse(text), Err(NO_CAPTURE.to_owned()));
        }
        for start in ARCHIVES {
            assert_eq!(Capture::parse(&[start, &[0; 4096]].concat()), Err(ARCHIVE.to_owned()));
        }
        let newer = START.replace("\"format\":1", "\"format\":2");
        let refused = |content: &[u8]| Capture::parse(content).unwrap_err();
        assert_eq!(refused(newer.as_bytes()), "the format 2 of the capture is newer than 1");
        let long = vec![b' '; MAX_LINE as usize + 1];
        assert_eq!(refused(&[START.as_bytes(), &long].concat()), "the capture is too large");
        assert!(Capture::read(Path::new("/no/such/file")).is_err());
        let start = Record::Start(StartRecord { format: 1, cudnn: 91_900, cudart: 13_000 });
        assert_eq!(start.to_line(), START);
    }
}
