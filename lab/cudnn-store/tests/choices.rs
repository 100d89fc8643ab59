//! Tests the files with tuned choices: reading, merging, writing, and hostile contents.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use cudnn_store::choices::{Capability, Choice, Choices, Device, EngineProblem, MAX_LEN, Ranking, Release};

fn ranking(release: u32, device: &str, graph: u64, engines: &[i64]) -> Ranking {
    let choice = |engine: &i64| Choice {
        engine: *engine,
        knobs: BTreeMap::from([("TILE_SIZE".to_owned(), 3)]),
        notes: vec!["tensor_core".to_owned()],
        time_us: Some(12.5),
        spread_us: Some(0.25),
        workspace: 4096,
        error: Some(0.5),
        proposed: true,
        problem: (*engine > 7).then(|| EngineProblem::Wrong("1 of 8 values\ndiffers".to_owned())),
    };
    Ranking {
        cudnn: Release::from_number(release),
        device: Device { name: device.to_owned(), compute_capability: Capability::from_tenths(90) },
        graph: format!("{graph:016x}"),
        label: "conv_fwd".to_owned(),
        executions: 7,
        default: Some(0),
        engines: engines.iter().map(choice).collect(),
        proposals: Default::default(),
    }
}

fn choices(rankings: impl IntoIterator<Item = Ranking>) -> Choices {
    let mut choices = Choices::default();
    rankings.into_iter().for_each(|ranking| choices.insert(ranking).unwrap());
    choices
}

#[test]
fn a_written_file_is_read_unchanged_and_does_not_depend_on_the_order() {
    let rankings =
        || [(91_900, 5), (91_900, 2), (92_000, 2)].map(|(release, graph)| ranking(release, "A", graph, &[3, 9]));
    let (one, other) = (choices(rankings()), choices(rankings().into_iter().rev()));
    assert_eq!(one.to_json(), other.to_json());
    assert_eq!(Choices::parse(&one.to_json()).unwrap(), one);
    assert!(one.to_json().contains("\"cudnn\": \"9.19.0\""), "{}", one.to_json());
    assert!(one.to_json().contains("\"compute_capability\": \"9.0\""), "{}", one.to_json());
    assert_eq!(Choices::parse(&Choices::default().to_json()).unwrap(), Choices::default());
}

#[test]
fn a_ranking_is_found_by_release_device_and_graph() {
    let all = choices([ranking(91_900, "A", 1, &[1]), ranking(91_900, "A", 2, &[2]), ranking(91_900, "B", 1, &[3])]);
    let find = |release, device: &str, tenths, graph: u64| {
        let device = Device { name: device.to_owned(), compute_capability: Capability::from_tenths(tenths) };
        all.find(Release::from_number(release), &device, &format!("{graph:016x}")).map(|found| found.engines[0].engine)
    };
    assert_eq!((find(91_900, "A", 90, 2), find(91_900, "B", 90, 1)), (Some(2), Some(3)));
    for missing in
        [find(91_901, "A", 90, 1), find(91_900, "C", 90, 1), find(91_900, "A", 100, 1), find(91_900, "A", 90, 3)]
    {
        assert_eq!(missing, None);
    }
}

#[test]
fn newer_rankings_and_rules_replace_older_ones() {
    let rules = |names: &[&str]| {
        let rule = |name: &&str| format!(r#"{{"name":"{name}","reason":"{}"}}"#, names.len());
        Choices::parse(&format!(r#"{{"errata":1,"rules":[{}]}}"#, names.iter().map(rule).collect::<Vec<_>>().join(",")))
    };
    let older =
        choices([ranking(91_900, "A", 1, &[1]), ranking(91_900, "A", 2, &[2])]).merge(rules(&["a", "b"]).unwrap());
    let newer = choices([ranking(91_900, "A", 2, &[5]), ranking(91_900, "B", 2, &[6])]).merge(rules(&["b"]).unwrap());
    let merged = older.merge(newer);
    let engines: Vec<i64> = merged.iter().map(|ranking| ranking.engines[0].engine).collect();
    assert_eq!(engines, [1, 5, 6]);
    let text = merged.to_json();
    assert_eq!(
        (text.matches("\"reason\": \"2\"").count(), text.matches("\"reason\": \"1\"").count()),
        (1, 1),
        "{text}"
    );
}

#[test]
fn merging_loses_no_rule() {
    let names = ["a", "b", "c"];
    let rules = |file: usize, members: u32| {
        let is_member = |at: &usize| members >> at & 1 == 1;
        let named = (0..3).filter(is_member).map(|at| format!(r#"{{"name":"{}","file":{file}}}"#, names[at]));
        let unnamed = is_member(&3).then(|| format!(r#"{{"file":{file}}}"#));
        let rules: Vec<String> = named.chain(unnamed).collect();
        Choices::parse(&format!(r#"{{"errata":1,"rules":[{}]}}"#, rules.join(","))).unwrap()
    };
    for all in 0..1 << 12_u32 {
        let files: Vec<u32> = (0..3).map(|file| all >> (4 * file) & 15).collect();
        let merged = (0..3).fold(Choices::default(), |merged, file| merged.merge(rules(file, files[file])));
        let document: serde_json::Value = serde_json::from_str(&merged.to_json()).unwrap();
        let found: Vec<serde_json::Value> = document["rules"].as_array().cloned().unwrap_or_default();
        let last = |at: usize| (0..3).rev().find(|file| files[*file] >> at & 1 == 1);
        let mut expected: Vec<serde_json::Value> = (0..3)
            .filter_map(|at| Some(serde_json::json!({"name": names[at], "file": last(at)?})))
            .chain((0..3).filter(|file| files[*file] >> 3 & 1 == 1).map(|file| serde_json::json!({"file": file})))
            .collect();
        assert_eq!(found.len(), expected.len(), "{files:?}");
        expected.retain(|rule| !found.contains(rule));
        assert!(expected.is_empty(), "{files:?}: {expected:?}");
    }
}

#[test]
fn a_file_covers_another_one_with_fewer_rules_and_graphs() {
    let rule = |text: &str| Choices::parse(&format!(r#"{{"errata":1,"rules":[{text}]}}"#)).unwrap();
    let all = choices([ranking(91_900, "A", 1, &[1]), ranking(91_900, "A", 2, &[2])]);
    let all = all.merge(rule(r#"{"name":"a","reason":"r"}"#));
    for covered in [Choices::default(), choices([ranking(91_900, "A", 2, &[7])]), rule(r#"{"reason":"r","name":"a"}"#)]
    {
        assert!(all.covers(&covered));
    }
    for other in [choices([ranking(91_900, "B", 2, &[2])]), rule(r#"{"name":"a"}"#), rule(r#"{"reason":"r"}"#)] {
        assert!(!all.covers(&other));
    }
}

#[test]
fn rules_without_a_name_replace_no_others() {
    let rules = |reason: &str| Choices::parse(&format!(r#"{{"errata":1,"rules":[{{"reason":"{reason}"}}]}}"#)).unwrap();
    let text = rules("one").merge(rules("other")).to_json();
    assert!(text.contains("\"one\"") && text.contains("\"other\""), "{text}");
}

#[test]
fn rankings_are_read_without_the_rules_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.tuned.json");
    let rankings = choices([ranking(91_900, "A", 1, &[3])]);
    let rules = Choices::parse(r#"{"errata":1,"rules":[{"name":"a"}]}"#).unwrap();
    let both = rankings.clone().merge(rules);
    std::fs::write(&file, both.to_json()).unwrap();
    assert_eq!((Choices::read(&file).unwrap(), Choices::read_rankings(&file).unwrap()), (both, rankings));
    std::fs::write(&file, r#"{"errata":1}"#).unwrap();
    assert_eq!(Choices::read_rankings(&file), Choices::read(&file));
}

#[test]
fn invalid_rankings_are_refused_with_the_reason() {
    let valid = || ranking(91_900, "A", 1, &[1, 2]);
    let engine = |change: fn(&mut Choice)| {
        let mut ranking = valid();
        change(&mut ranking.engines[0]);
        ranking
    };
    for (invalid, expected) in [
        (Ranking { graph: "0123456789ABCDEF".into(), ..valid() }, "16 hexadecimal digits"),
        (Ranking { graph: "../../../../etc/".into(), ..valid() }, "16 hexadecimal digits"),
        (Ranking { engines: Vec::new(), default: None, ..valid() }, "it has no engines"),
        (Ranking { default: Some(2), ..valid() }, "the default is not the place of an engine"),
        (Ranking { proposals: [("mode_a".into(), vec![0, 2])].into(), ..valid() }, "a proposal is not the place"),
        (Ranking { proposals: [("mode_a".into(), vec![0; 513])].into(), ..valid() }, "more than 16 modes or 512"),
        (
            Ranking { proposals: [("mode_a".into(), vec![1, 0, 1])].into(), ..valid() },
            "mode_a proposes an engine twice",
        ),
        (Ranking { proposals: [("MODE_A".into(), vec![0])].into(), ..valid() }, "\"MODE_A\" is not a mode"),
        (ranking(91_900, "", 1, &[1]), "the device has no name"),
        (ranking(91_900, "A", 1, &[1, 1]), "engine 1 TILE_SIZE=3 occurs twice"),
        (engine(|choice| choice.engine = -1), "engine -1 is negative"),
        (engine(|choice| choice.time_us = Some(f64::NAN)), "must not be negative"),
        (engine(|choice| choice.error = Some(f64::INFINITY)), "must not be negative"),
        (engine(|choice| choice.spread_us = Some(-1.0)), "must not be negative"),
    ] {
        let refused = Choices::default().insert(invalid).unwrap_err();
        assert!(refused.contains(expected), "{expected}: {refused}");
    }
    let later = Ranking { proposals: [("mode_of_a_later_release".into(), vec![0])].into(), ..valid() };
    assert_eq!(Choices::default().insert(later), Ok(()));
    let text = choices([Ranking { proposals: [("mode_a".into(), vec![1])].into(), ..valid() }]).to_json();
    for (name, value) in [("TILE_SIZE", "0"), ("mode_a", "[0]")] {
        let twice = text.replacen(&format!("\"{name}\""), &format!("\"{name}\": {value}, \"{name}\""), 1);
        let refused = Choices::parse(&twice).unwrap_err();
        assert!(refused.starts_with(&format!("the name \"{name}\" occurs twice at line ")), "{refused}");
    }
}

/// serde reads structs from arrays, too.
#[test]
fn arrays_are_not_read_as_objects() {
    let text = r#"{"errata":1,"rules":[{}],"tuned":[{"cudnn":"9.19.0","device":{"name":"A","compute_capability":"9.0"},
        "graph":"0123456789abcdef","engines":[{"engine":3}]}]}"#;
    Choices::parse(text).unwrap();
    for (object, array) in [
        (text, "[1,[],[]]"),
        (text, r#"[1,{"errata":1,"rules":[]}]"#),
        ("[{}]", "[[]]"),
        (r#"{"name":"A","compute_capability":"9.0"}"#, r#"["A","9.0"]"#),
        (r#"{"engine":3}"#, "[3]"),
        (&text[text.find(r#"{"cudnn""#).unwrap()..text.len() - 2], r#"["9.19.0"]"#),
    ] {
        let refused = Choices::parse(&text.replacen(object, array, 1)).unwrap_err();
        assert!(refused.starts_with("invalid type: sequence, expected an object at line "), "{array}: {refused}");
    }
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let text = choices([ranking(91_900, "A", 1, &[3, 9]), ranking(92_000, "B", 2, &[4])]).to_json();
    for end in 0..text.len() - 1 {
        let refused = Choices::parse(&text[..end]);
        assert!(refused.is_err() || text[end..].trim().is_empty(), "{end}");
    }
    for at in 0..text.len() {
        for byte in *b"\"\\{}[]:,-e0\0 \x7f" {
            let mut bytes = text.clone().into_bytes();
            bytes[at] = byte;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            if let Ok(read) = Choices::parse(&text) {
                assert_eq!(Choices::parse(&read.to_json()).unwrap(), read);
            }
        }
    }
}

#[test]
fn only_regular_files_of_bounded_size_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.tuned.json");
    let text = choices([ranking(91_900, "A", 1, &[3])]).to_json();
    std::fs::write(&file, &text).unwrap();
    assert_eq!(Choices::read(&file).unwrap().to_json(), text);
    std::fs::write(&file, b"{\"errata\":1,\"tuned\":[\xff]}").unwrap();
    assert!(Choices::read(&file).unwrap_err().contains("app.tuned.json"));
    std::fs::File::create(&file).unwrap().set_len(MAX_LEN + 1).unwrap();
    let missing = dir.path().join("missing");
    for (path, reason) in [
        (file.as_path(), "has 16777217 bytes, more than 16777216"),
        (dir.path(), "is a directory, not a file"),
        (&missing, "No such file or directory (os error 2)"),
    ] {
        assert_eq!(Choices::read(path).unwrap_err(), format!("{}: {reason}", path.display()));
    }
}

#[test]
fn texts_from_files_are_bounded() {
    let refused = |label: usize, engines: i64| {
        let engines: Vec<i64> = (0..engines).collect();
        let mut ranking = ranking(91_900, "A", 1, &engines);
        ranking.label = "x".repeat(label);
        Choices::default().insert(ranking).unwrap_err()
    };
    assert!(refused(5000, 1).contains("more than 4096 bytes") && refused(1, 10_001).contains("10000 engines"));
    let many = format!(r#"{{"errata":1,"rules":[{}{{}}]}}"#, "{},".repeat(1000));
    assert_eq!(Choices::parse(&many).unwrap_err(), "it has 1001 rules, more than 1000");
    assert!(Choices::parse(&"[".repeat(1 << 20)).is_err());
    let nested = format!(r#"{{"errata":1,"rules":[{}"#, r#"{"a":"#.repeat(1 << 20));
    assert!(Choices::parse(&nested).unwrap_err().contains("recursion limit"));
    let unknown = format!(r#"{{"errata":1,"tuned":[],"{}\n":1}}"#, "x".repeat(1 << 20));
    let error = Choices::parse(&unknown).unwrap_err();
    assert!(error.len() < 1000 && !error.contains('\n'), "{error}");
}
