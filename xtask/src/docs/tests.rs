//! Checks the documentation of this checkout: all links work, every code of the doctor has an anchor, and the search
//! finds messages that a user pastes.
#![allow(clippy::panic, clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use support::{TempDir, not_run};

use super::*;

/// Returns the site of this checkout.
fn site() -> &'static Path {
    static SITE: OnceLock<TempDir> = OnceLock::new();
    SITE.get_or_init(|| {
        let dir = TempDir::new();
        build_into(&Tree::new(root().unwrap()).unwrap(), dir.path()).unwrap_or_else(|error| panic!("{error}"));
        dir
    })
    .path()
}

fn page(name: &str) -> String {
    fs::read_to_string(site().join(name)).unwrap()
}

/// Creates a checkout with these files.
fn checkout(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new();
    for (name, text) in files {
        put(dir.path(), name, text).unwrap();
    }
    dir
}

fn problems_of(files: &[(&str, &str)]) -> Vec<String> {
    let dir = checkout(files);
    let tree = Tree::new(dir.path().to_owned()).unwrap();
    links::problems(&tree, &tree.documents().unwrap())
}

#[test]
fn all_links_and_anchors_in_the_documents_and_on_the_site_work() {
    assert!(page("index.html").contains("<h1 "));
    assert!(page("guide/doctor.html").contains("href=\"../findings.html\""));
}

#[test]
fn every_code_of_the_doctor_has_an_anchor_on_the_site() {
    let facts = Command::new(support::doctor()).arg("facts").output().unwrap();
    let facts = String::from_utf8(facts.stdout).unwrap();
    let (_, findings) = facts.split_once("Findings of").unwrap();
    let codes: Vec<&str> = findings
        .lines()
        .filter(|line| line.starts_with("  C"))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(codes.len() > 50, "{codes:?}");
    let page = page("findings.html");
    for code in codes {
        assert!(page.contains(&format!(" id=\"{}\"", code.to_lowercase())), "{code} has no anchor");
    }
}

#[test]
fn the_start_page_contains_every_error_message_of_the_readme() {
    let table = |file: &str| -> Vec<(String, String)> {
        let text = fs::read_to_string(root().unwrap().join(file)).unwrap();
        let (_, rest) = text.split_once("## Your error message").unwrap();
        let section = rest.split("\n## ").next().unwrap();
        let cells = |line: &str| line.split('|').map(|cell| cell.trim().replace("docs/", "")).collect::<Vec<_>>();
        section
            .lines()
            .filter(|line| line.starts_with("| `") && line.contains("cudnn-doctor"))
            .map(|line| (cells(line)[1].clone(), cells(line)[2].clone()))
            .collect()
    };
    let start: BTreeMap<String, String> = table("docs/README.md").into_iter().collect();
    let readme = table("README.md");
    assert!(readme.len() >= 6, "{readme:?}");
    for (message, command) in readme {
        assert_eq!(start.get(&message), Some(&command), "{message}");
    }
}

#[test]
fn dead_links_are_problems() {
    let found = problems_of(&[
        (
            "docs/README.md",
            "# Start\n\n[file](guide/none.md) [anchor](guide/a.md#no) [out](../../etc/passwd) [root](/docs)\n",
        ),
        (
            "docs/guide/a.md",
            "# A\n\n## One two\n\n[up](../README.md#start) [here](#one-two) [none](#three) [source](../../b.rs#L1)\n",
        ),
        (
            "docs/guide/b.md",
            "# B\n\n<http:/x> [a](https://) [b](https://host) [c](ftp://example.org) [d](https://example.org/a%20b)\n",
        ),
        ("crate/README.md", "# C\n\n[the code](../b.rs) [dir](..) [text][name] `a[0][1]`\n"),
        ("b.rs", ""),
    ]);
    let expected = [
        "crate/README.md: the link [name] is not defined",
        "docs/README.md: the link to guide/none.md: the file does not exist",
        "docs/README.md: the link to guide/a.md#no: docs/guide/a.md has no heading for that anchor",
        "docs/README.md: the link to ../../etc/passwd: it leads out of the repository",
        "docs/README.md: the link to /docs: it leads out of the repository",
        "docs/guide/a.md: the link to #three: docs/guide/a.md has no heading for that anchor",
        "docs/guide/a.md: the link to ../../b.rs#L1: only pages have anchors",
        "docs/guide/b.md: the link to http:/x: it names no host",
        "docs/guide/b.md: the link to https://: it names no host",
        "docs/guide/b.md: the link to https://host: it names no host",
        "docs/guide/b.md: the link to ftp://example.org: it is neither a web nor a mail address",
    ];
    assert_eq!(found, expected);
}

#[test]
fn dead_links_and_foreign_scripts_of_a_page_are_problems() {
    let dir = checkout(&[
        ("a/b.html", "<a href=\"../c.html#x\">x</a> <a href=\"c.html\">y</a> <h1 id=\"z\"></h1><h2 id=\"z\"></h2>"),
        ("c.html", "<p id=\"x\"></p><a href=\"#y\"></a> <a href=\"https://example.org\"></a>"),
        ("d.html", "<script src=\"https://example.org/a.js\"></script> <link rel=\"icon\" href=\"a/b.html\">"),
    ]);
    let expected = [
        "a/b.html: two elements have the same id",
        "a/b.html: the link to c.html is dead",
        "c.html: the link to #y is dead",
        "d.html: <script src=\"https://example.org/a.js\"> loads from elsewhere",
    ];
    assert_eq!(site_check::problems(dir.path()).unwrap(), expected);
}

#[test]
fn anchors_match_those_of_code_hosts() {
    let text = "# `check --run`: it's 3.5 %\n\n## A_b — c\n\n## Ünder 🙂\n\n## A_b — c\n\n## C014\n";
    let document = Document::new("a.md".to_owned(), "a.html".to_owned(), text);
    let ids: Vec<&str> = document.sections.iter().map(|section| section.id.as_str()).collect();
    assert_eq!(ids, ["check---run-its-35-", "a_b--c", "ünder-", "a_b--c-1", "c014"]);
}

#[test]
fn text_of_a_document_is_escaped_on_its_page() {
    let dir = checkout(&[
        (
            "docs/README.md",
            "# A `<b>` & \"c\"\n\ntext \"x\" &lt;i> \\<u>\n\n```sh\necho \"<script>\" </script>\n```\n\n    error[C001]: <x>\n",
        ),
        ("docs/findings.md", "# F\n\n## C001\n\nIt is.\n"),
    ]);
    let out = TempDir::new();
    build_into(&Tree::new(dir.path().to_owned()).unwrap(), &out.path().join("site")).unwrap();
    let read = |name: &str| fs::read_to_string(out.path().join("site").join(name)).unwrap();
    let html = read("index.html");
    assert!(html.contains("<title>A &lt;b&gt; &amp; &quot;c&quot;</title>"), "{html}");
    assert!(html.contains("echo &quot;&lt;script&gt;&quot; &lt;/script&gt;"), "{html}");
    assert!(html.contains("error[<a href=\"findings.html#c001\">C001</a>]: &lt;x&gt;"), "{html}");
    assert!(html.contains("text &quot;x&quot; &lt;i&gt; &lt;u&gt;"), "{html}");
    assert!(
        read("findings.html").contains("<p>Examples:</p>\n<ul>\n<li><a href=\"index.html"),
        "{}",
        read("findings.html")
    );
    assert!(!read(INDEX).contains('<') && read(INDEX).contains("echo \\\"\\u003cscript>"), "{}", read(INDEX));
}

#[test]
fn a_directory_that_is_not_a_site_is_not_removed() {
    let checkout = checkout(&[("docs/README.md", "# A\n"), ("docs/old.md", "# Old\n")]);
    let tree = || Tree::new(checkout.path().to_owned()).unwrap();
    let out = TempDir::new();
    fs::write(out.path().join("thesis.txt"), "mine").unwrap();
    let error = build_into(&tree(), out.path()).unwrap_err().to_string();
    assert!(error.contains("did not make it") && out.path().join("thesis.txt").exists(), "{error}");
    // A page whose source was removed disappears with the old site.
    let site = out.path().join("site");
    build_into(&tree(), &site).unwrap();
    fs::remove_file(checkout.path().join("docs/old.md")).unwrap();
    build_into(&tree(), &site).unwrap();
    assert!(site.join("index.html").exists() && !site.join("old.html").exists());
}

#[test]
fn colors_have_enough_contrast() {
    let css = include_str!("assets/style.css");
    for theme in css.split(":root {").skip(1).map(|rest| rest.split('}').next().unwrap()) {
        let luminance = |name: &str| -> f64 {
            let (_, rest) = theme.split_once(&format!("--{name}: #")).unwrap();
            let channel = |start: usize| {
                let value = f64::from(u8::from_str_radix(&rest[start..start + 2], 16).unwrap()) / 255.0;
                if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
        };
        let pairs = [("text", "back"), ("text", "raised"), ("text", "mark"), ("soft", "back"), ("soft", "raised")];
        for (front, back) in pairs.into_iter().chain([("link", "back"), ("link", "raised")]) {
            let (low, high) = (luminance(front).min(luminance(back)), luminance(front).max(luminance(back)));
            assert!((high + 0.05) / (low + 0.05) >= 4.5, "{front} on {back}: {theme}");
        }
    }
}

/// Returns the search results for a query, best first, in a headless browser that opens the site as files.
fn found(browser: &str, query: &str) -> Vec<String> {
    let profile = TempDir::new();
    let query: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg("--dump-dom")
        .arg(format!("file://{}/search.html?q={query}", site().display()))
        .output()
        .unwrap();
    let html = String::from_utf8(output.stdout).unwrap();
    let (_, results) = html.split_once("<ol id=\"page-results\">").unwrap_or_else(|| panic!("{html}"));
    let results = results.split("</ol>").next().unwrap();
    results.split("<a href=\"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
}

#[test]
fn the_search_finds_pasted_messages() {
    let has =
        |browser: &&str| Command::new(browser).arg("--version").output().is_ok_and(|output| output.status.success());
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(has) else {
        return not_run("the_search_finds_pasted_messages", "chromium is not installed");
    };
    let start = "index.html#your-error-message--what-to-run";
    for (query, expected) in [
        ("Invalid handle. Cannot load symbol cudnnCreate", start),
        ("Could not locate cudnn_ops64_9.dll. Please make sure it is in your library path!", start),
        ("Loaded runtime CuDNN library: 9.1.0 but source was compiled with: 9.3.0.", start),
        ("Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1, libcudnn_ops.so.9}", start),
        ("CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", start),
        ("c014", "findings.html#c014"),
        ("error[C071]", "findings.html#c071"),
        ("CUDNN_LOADER_VERBOSE_ERRORS", "guide/errors.html#get-the-full-report"),
        ("glossary", "GLOSSARY.html"),
    ] {
        let found = found(browser, query);
        assert!(found.iter().take(3).any(|address| address == expected), "{query}: {found:?}");
    }
    assert_eq!(found(browser, "<img src=x onerror=alert(1)> zzzzqqqq"), found(browser, "img src x onerror alert 1"));
    assert!(found(browser, "zzzzqqqq").is_empty() && found(browser, "").is_empty());
}
