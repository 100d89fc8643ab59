use super::*;

fn file(fields: &str) -> String {
    let rules = r#"{"errata":1,"rules":[{"name":"rule","reason":"r","operations":["matmul"]}]}"#;
    let issue = format!(r#"{{"name":"n","operation":"o","effect":"e",{fields}}}"#);
    format!(r#"{{"facts":1,"version":7,"date":"2026-11-29","known_issues":[{issue}],"errata":{rules}}}"#)
}

fn issue(fields: &str) -> Result<KnownIssue, String> {
    let fields = format!(r#""source":"https://a.example/1",{fields}"#);
    ReleaseFacts::parse(&file(&fields)).map(|facts| facts.known_issues.into_iter().next().unwrap())
}

#[test]
fn the_built_in_facts_are_valid() {
    let facts = ReleaseFacts::parse(RELEASE_FACTS).unwrap();
    assert_eq!(facts.version, ReleaseFacts::built_in().version);
}

#[test]
fn an_issue_affects_its_releases_and_gpus() {
    let version = |text: &str| text.parse().unwrap();
    let two = r#""releases":[{"from":"9.1.0","before":"9.2.1"},{"from":"9.3.0","through":"9.3.1"}]"#;
    let issue = issue(&format!(r#"{two},"compute_capability":{{"from":"9.0","before":"10.0"}}"#)).unwrap();
    for (release, expected) in [
        ("9.0.9", None),
        ("9.1.0", Some("9.1.0 through releases before 9.2.1")),
        ("9.2.0", Some("9.1.0 through releases before 9.2.1")),
        ("9.2.1", None),
        ("9.3.1", Some("9.3.0 through 9.3.1, and perhaps later releases")),
        ("9.3.2", None),
    ] {
        let range = issue.affects(version(release)).map(ToString::to_string);
        assert_eq!(range.as_deref(), expected, "{release}");
    }
    let gpu = |compute_capability| Gpu { name: "a GPU".to_owned(), compute_capability };
    let concerns = |issue: &KnownIssue, gpus: &[Gpu]| issue.concerns(gpus, || None);
    assert!(concerns(&issue, &[gpu(75), gpu(90)]) && concerns(&issue, &[gpu(99)]));
    assert!(!concerns(&issue, &[gpu(89), gpu(100)]) && !concerns(&issue, &[]));
    assert_eq!(issue.compute_capability.unwrap().to_string(), "compute capability 9.0 to before 10.0");
    let everywhere = self::issue(r#""releases":[{"from":"9.0.0","before":"9.1.0"}]"#).unwrap();
    assert!(concerns(&everywhere, &[]));
}

#[test]
fn an_issue_of_several_gpus_or_of_another_cublas_concerns_no_other_machine() {
    let issue = issue(r#""releases":[{"from":"9.0.0","before":"9.1.0"}],"min_gpus":2,"cublas":">=12.9""#).unwrap();
    let gpu = || Gpu { name: "a GPU".to_owned(), compute_capability: 90 };
    for (gpus, cublas, expected) in [
        (2, Some("12.9.1.4"), true),
        (2, Some("13.0.0"), true),
        (2, None, true),
        (2, Some("12.8.4.1"), false),
        (1, Some("12.9.1.4"), false),
        (0, None, false),
    ] {
        let gpus: Vec<Gpu> = (0..gpus).map(|_| gpu()).collect();
        assert_eq!(issue.concerns(&gpus, || cublas.map(str::to_owned)), expected, "{gpus:?} {cublas:?}");
    }
}

#[test]
fn invalid_facts_are_refused_with_the_reason() {
    let range = r#""releases":[{"from":"9.1.0","before":"9.2.0"}]"#;
    for (fields, expected) in [
        (r#""releases":[]"#, "issue \"n\": the releases must be"),
        (r#""releases":[{"from":"9.1.0"}]"#, "with `before` or `through`"),
        (r#""releases":[{"from":"9.1.0","before":"9.1.0"}]"#, "the releases must be"),
        (r#""releases":[{"from":"9.1.0","before":"9.2.0","through":"9.1.1"}]"#, "the releases must be"),
        (r#""releases":[{"from":"9.2.0","before":"9.3.0"},{"from":"9.1.0","before":"9.2.0"}]"#, "ascending"),
        (r#""releases":[{"from":"nine","before":"9.3.0"}]"#, "\"nine\" is not a release"),
        (&format!(r#"{range},"erratum":"other""#), "contains no rule \"other\""),
        (&format!(r#"{range},"condition":"\u001b[31m""#), "control character"),
        (&format!(r#"{range},"condition":"""#), "a text is empty"),
        (&format!(r#"{range},"compute_capability":{{"from":"9"}}"#), "not a compute capability"),
        (&format!(r#"{range},"compute_capability":{{"from":"9.0","before":"9.0"}}"#), "ends before it begins"),
        (&format!(r#"{range},"cublas":"new""#), "the releases of cuBLAS must be versions"),
        (&format!(r#"{range},"new":1"#), "unknown field `new`"),
    ] {
        let error = issue(fields).unwrap_err();
        assert!(error.contains(expected), "{fields}: {error}");
    }
    let good = file(&format!(r#""source":"https://a.example/1",{range},"erratum":"rule""#));
    assert_eq!(ReleaseFacts::parse(&good).unwrap().version, 7);
    let twice = good.replace("}],\"errata\"", "},{\"name\":\"n\",\"operation\":\"o\",\"effect\":\"e\",\"source\":\"https://b\",\"releases\":[{\"from\":\"9.1.0\",\"before\":\"9.2.0\"}]}],\"errata\"");
    for (text, expected) in [
        (String::new(), "these are no facts: EOF"),
        (good[..good.len() / 2].to_owned(), "these are no facts: EOF"),
        ("[".repeat(100_000), "these are no facts"),
        (r#"{"errata":1,"rules":[]}"#.to_owned(), "missing field `facts`"),
        (good.replace("\"facts\":1", "\"facts\":2,\"other\":1"), "format 2 is not supported, only 1"),
        (good.replace("2026-11-29", "yesterday"), "is not a date"),
        (good.replace("2026-11-29", "2026-11-32"), "is not a date"),
        (good.replace("2026-11-29", "2026-13-01"), "is not a date"),
        (good.replace("2026-11-29", "2026-11-00"), "is not a date"),
        (
            r#"{"facts":1,"version":7,"date":"2024-02-29","known_issues":[],"errata":{"rules":[]}}"#.to_owned(),
            "no known issues",
        ),
        (good.replace("https://a", "http://a"), "starts with https://"),
        (twice, "another issue has this name"),
    ] {
        let error = ReleaseFacts::parse(&text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
