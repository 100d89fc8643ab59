//! Queries the heuristics like different programs, and prints the engines in the order of the results.
//!
//! | way | the call |
//! | --- | --- |
//! | `all` | with as many descriptors as cuDNN announces |
//! | `first` | with one descriptor |
//! | `many` | with more descriptors than cuDNN announces, where the last ones are null |
//! | `silent` | without an address for the number of results |
//! | `twice` | with an array that contains one descriptor twice |
//! | `used` | with a descriptor that cuDNN has already filled |
//! | `again` | twice with the same heuristics |
//! | `changed` | three times; after the first time, the stand-in proposes its engines in a different order |
//! | `fewer` | like `changed`, and the stand-in proposes fewer engines |
//! | `threads` | in eight threads |
//! | `fork` | in a forked child |
//! | `plan` | like `all`, and builds a plan of the first engine |
//! | `fallback` | like `all`, in the mode for fallback engines |
//! | `filters` | like `all`, and builds plans of the engines that programs' filters accept |

use std::ptr::null_mut;

use cudnn_backend::descriptor::Descriptor;
use cudnn_backend::device::{self, Target};
use cudnn_backend::engine::ConfigurationInfo;
use cudnn_backend::plan::Plan;
use cudnn_loader::{
    Error, check, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnBackendNumericalNote_t as Note, cudnnDataType_t as DataType,
};

use crate::real::convolution;

const RESULTS: Name = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
const CONFIGURATION: Kind = Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;

pub(crate) fn run(device: &str, ways: &[String]) {
    let json = std::fs::read_to_string(device).unwrap_or_default();
    for way in ways {
        println!("{way}: {}", ask(&json, way).unwrap_or_else(|error| format!("failed: {error:?}")));
    }
}

fn ask(json: &str, way: &str) -> Result<String, Error> {
    let device = device::from_json(json)?;
    let graph = convolution(16, DataType::CUDNN_DATA_HALF)?;
    let mode = if way == "fallback" { Mode::CUDNN_HEUR_MODE_FALLBACK } else { Mode::CUDNN_HEUR_MODE_A };
    let heuristics = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
        .set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[&graph])?
        .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?
        .set_descriptors(Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, &[&device])?
        .finalize()?;
    let announced = heuristics.count(RESULTS, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
    let all = |heuristics: &Descriptor| {
        let made = configurations(announced)?;
        let count = read(heuristics, &mut raw(&made), true)?;
        Ok::<_, Error>((engines(&made), count, made))
    };
    Ok(match way {
        "first" => {
            let made = configurations(1)?;
            let count = read(&heuristics, &mut raw(&made), true)?;
            format!("{count} {}", engines(&made))
        }
        "many" => {
            let made = configurations(announced)?;
            let mut raw = raw(&made);
            raw.extend([null_mut(); 1000]);
            format!("{} {}", read(&heuristics, &mut raw, true)?, engines(&made))
        }
        "silent" => {
            let made = configurations(announced)?;
            read(&heuristics, &mut raw(&made), false)?;
            engines(&made)
        }
        "twice" => {
            let made = configurations(announced)?;
            let mut raw = raw(&made);
            if let [first, second, ..] = raw.as_mut_slice() {
                *second = *first;
            }
            format!("{} {}", read(&heuristics, &mut raw, true)?, engines(&made))
        }
        "used" => {
            let made = configurations(announced)?;
            let mut raw = raw(&made);
            let (first, rest) = raw.split_at_mut(1);
            read(&heuristics, first, true)?;
            format!("{} {}", read(&heuristics, rest, true)?, engines(&made))
        }
        "again" => {
            let (first, second) = (all(&heuristics)?, all(&heuristics)?);
            format!("{} {}", first.0 == second.0, first.0)
        }
        "threads" => {
            let results: Vec<String> = std::thread::scope(|scope| {
                let running: Vec<_> = (0..8).map(|_| scope.spawn(|| ask(json, "all").unwrap_or_default())).collect();
                running.into_iter().map(|thread| thread.join().unwrap_or_default()).collect()
            });
            let mut different = results.clone();
            different.dedup();
            different.join(" or ")
        }
        #[cfg(unix)]
        "fork" => {
            // SAFETY: the child only makes calls that this program makes as well.
            let child = unsafe { libc::fork() };
            if child == 0 {
                println!("child: {}", ask(json, "all").unwrap_or_default());
                std::process::exit(0);
            }
            let mut status = 0;
            // SAFETY: the child is this process's.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            format!("status {status}")
        }
        "plan" => {
            let (engines, _, made) = all(&heuristics)?;
            let plan = made.first().map(|first| Plan::new(first, Target::Device(&device)));
            let Some(Ok(plan)) = plan else { return Ok(format!("none {engines}")) };
            let json = plan.descriptor.get(Name::CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, 0_u8)?;
            let json = String::from_utf8_lossy(&json);
            let id = json.split_once("\"engineId\":").and_then(|(_, id)| id.split(['}', ',']).next());
            format!("of {} {engines}", id.unwrap_or_default().trim())
        }
        "changed" | "fewer" => {
            let fewer = ("PLANNER_PROPOSALS", "2");
            let (name, value) = if way == "fewer" { fewer } else { ("PLANNER_PROPOSES_OTHERS", "1") };
            let first = all(&heuristics)?;
            // SAFETY: the process has a single thread.
            unsafe { std::env::set_var(name, value) };
            let (second, third) = (all(&heuristics)?, all(&heuristics)?);
            // SAFETY: as above.
            unsafe { std::env::remove_var(name) };
            [first.0, second.0, third.0, second.1.to_string()].join("; ")
        }
        "filters" => filtered(&all(&heuristics)?.2, &device),
        _ => {
            let (engines, count, _) = all(&heuristics)?;
            format!("{count} {engines}")
        }
    })
}

type Filter = fn(&ConfigurationInfo, &Plan) -> bool;

/// Returns the working engines that filters accept: PyTorch skips nondeterminism, others limit the workspace.
fn filtered(configurations: &[Descriptor], device: &Descriptor) -> String {
    let built = configurations.iter().filter_map(|configuration| {
        let info = ConfigurationInfo::new(configuration).ok()?;
        Some((info, Plan::new(configuration, Target::Device(device)).ok()?))
    });
    let built: Vec<(ConfigurationInfo, Plan)> = built.collect();
    let filters: [(&str, Filter); 4] = [
        ("all", |_, _| true),
        ("deterministic", |info, _| !info.numerical.contains(&Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)),
        ("without tensor cores", |info, _| !info.numerical.contains(&Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE)),
        ("without workspace", |_, plan| plan.workspace_size == 0),
    ];
    let kept = filters.map(|(name, keeps)| {
        let kept = built.iter().filter(|(info, plan)| keeps(info, plan)).map(|(info, _)| info.engine_text());
        format!("{name}: {}", kept.collect::<Vec<_>>().join(", "))
    });
    kept.join("; ")
}

fn configurations(count: usize) -> Result<Vec<Descriptor>, Error> {
    (0..count).map(|_| Descriptor::new(CONFIGURATION)).collect()
}

fn raw(descriptors: &[Descriptor]) -> Vec<Raw> {
    descriptors.iter().map(Descriptor::raw).collect()
}

/// Reads the results into descriptors. `asks` requests the number that cuDNN has filled.
fn read(heuristics: &Descriptor, raw: &mut [Raw], asks: bool) -> Result<i64, Error> {
    let (mut count, room) = (-1, raw.len() as i64);
    let (to, ty) = (if asks { &raw mut count } else { null_mut() }, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR);
    // SAFETY: the slice has room for this number of descriptors.
    unsafe {
        check!(cudnn_loader::cudnnBackendGetAttribute(heuristics.raw(), RESULTS, ty, room, to, raw.as_mut_ptr().cast()))
    }?;
    Ok(count)
}

/// Returns the engines and knobs of the filled configurations.
fn engines(configurations: &[Descriptor]) -> String {
    let engine = |configuration: &Descriptor| ConfigurationInfo::new(configuration).ok().map(|info| info.engine_text());
    configurations.iter().map(|it| engine(it).unwrap_or_else(|| "-".to_owned())).collect::<Vec<_>>().join(", ")
}
