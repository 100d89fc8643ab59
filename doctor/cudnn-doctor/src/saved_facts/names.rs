//! Replaces private names in saved facts.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Parent directories of home directories, in lower case.
const HOMES: [&str; 4] = ["/home/", "/users/", "\\users\\", "/var/home/"];

const USERS: [&str; 4] = ["USER", "LOGNAME", "USERNAME", "SUDO_USER"];

/// Words that are common in paths or shared by many people. They are replaced only as the name of a home directory.
const PUBLIC: &str = include_str!("public_names.txt");

fn is_public(name: &str) -> bool {
    PUBLIC.lines().any(|word| word == name)
}

/// Removes user names, passwords and queries from URLs, and conda's tokens from their paths.
pub(super) fn remove_passwords(document: &mut Value) {
    change_texts(document, &|text| {
        let mut parts = text.split("://");
        let mut result = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| c.is_whitespace() || "\"'<>\\".contains(c)).unwrap_or(part.len());
            let (url, rest) = part.split_at(end);
            result.push_str("://");
            result.push_str(&without_password(url));
            result.push_str(rest);
        }
        result
    });
}

/// Removes potentially secret parts and the scheme of a URL.
fn without_password(url: &str) -> String {
    let url = url.split('?').next().unwrap_or_default();
    let authority = url.split('/').next().unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    // A password may contain a slash.
    let has_open_password = port.is_some_and(|port| port.parse::<u16>().is_err());
    let is_secret = authority.contains('@') || has_open_password;
    let url = url.rsplit_once('@').filter(|_| is_secret).map_or(url, |(_, host)| host);
    let mut parts: Vec<&str> = url.split('/').collect();
    if let Some(token) = parts.iter().position(|part| *part == "t").and_then(|at| parts.get_mut(at + 1)) {
        *token = "TOKEN";
    }
    parts.join("/")
}

/// Replaces user names and the host name. The first user becomes `user`, the second `user2`.
pub(super) fn replace(document: &mut Value) {
    let mut texts = BTreeSet::new();
    each_text(document, &mut |text| _ = texts.insert(text.to_owned()));
    let values = |variables: &[&str]| -> Vec<String> {
        let saved = |name: &str| document.get("facts")?.get("variable")?.get(name)?.as_str().map(str::to_owned);
        variables.iter().flat_map(|name| [saved(name), std::env::var(name).ok()]).flatten().collect()
    };
    let (users, mut homes) = (values(&USERS), values(&["HOME", "USERPROFILE"]));
    homes.iter_mut().for_each(|home| home.truncate(home.trim_end_matches(['/', '\\']).len()));
    homes.retain(|home| home.len() > 1 && home != "/root" && !is_in_homes(home));
    homes.dedup();
    // Avoid names that already occur in the text.
    let is_free = |name: &String| !texts.iter().any(|text| contains_word(text, name));
    let numbered = |number| if number == 1 { "user".to_owned() } else { format!("user{number}") };
    let mut free = (1..).map(numbered).filter(is_free);
    let mut seen = BTreeSet::from(["root", "user", "users"].map(str::to_owned));
    let mut is_new = |name: &String| name.len() > 1 && seen.insert(name.clone());
    let mut names: Vec<(String, String)> = users.into_iter().filter(&mut is_new).zip(free.by_ref()).collect();
    // Directories in a home directory called `/data/home` do not belong to users.
    for (home, new) in homes.into_iter().zip(free.by_ref()) {
        change_texts(document, &|text| replace_name(text, &home, &format!("/home/{new}")));
        is_new(&new);
    }
    let mut of_homes = Vec::new();
    each_text(document, &mut |text| of_homes.extend(names_below_homes(text).into_iter().map(str::to_owned)));
    names.extend(of_homes.into_iter().filter(&mut is_new).zip(free));
    let host = std::fs::read_to_string("/etc/hostname").ok().or_else(|| std::env::var("COMPUTERNAME").ok());
    let host = host.map(|host| host.trim().to_owned());
    let host = host.filter(|host| host.len() > 1 && !is_public(host));
    names.extend(host.map(|host| (host, "host".to_owned())));
    // Replace longer names first, because they may contain shorter ones.
    names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
    change_texts(document, &|text| {
        names.iter().fold(text.to_owned(), |text, (name, new)| replace_name(&text, name, new))
    });
}

/// Returns whether this is a parent of home directories, or a home directory that is named after the user.
fn is_in_homes(home: &str) -> bool {
    let lower = home.to_ascii_lowercase();
    let (above, name) = lower.split_at(lower.rfind(['/', '\\']).map_or(0, |at| at + 1));
    let is_parent = |dir: &str| HOMES.iter().any(|homes| dir.ends_with(homes));
    is_parent(above) && !name.starts_with('.') || HOMES.contains(&format!("{lower}/").as_str())
}

fn names_below_homes(text: &str) -> Vec<&str> {
    let lower = text.to_ascii_lowercase();
    let mut names = Vec::new();
    for homes in HOMES {
        // User names on Windows may contain spaces.
        let ends = if homes.starts_with('\\') { "/\\:;\"'\n" } else { "/\\:;\"' \n" };
        for (at, _) in lower.match_indices(homes) {
            let rest = text.get(at + homes.len()..).unwrap_or_default();
            names.extend(
                rest.split(|c: char| ends.contains(c)).next().filter(|name| !name.is_empty() && !name.starts_with('.')),
            );
        }
    }
    names
}

/// Replaces whole words. A common word is replaced only as the name of a home directory.
fn replace_name(text: &str, name: &str, new: &str) -> String {
    let is_public = is_public(name);
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + name.len()..).unwrap_or_default());
        result.push_str(before);
        let above = result.to_ascii_lowercase();
        let is_home = HOMES.iter().any(|homes| above.ends_with(homes));
        let is_word = !is_of_word(result.chars().next_back()) && !is_of_word(after.chars().next());
        result.push_str(if is_word && (is_home || !is_public) { new } else { name });
        rest = after;
    }
    result + rest
}

fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.get(..at).unwrap_or_default(), text.get(at + word.len()..).unwrap_or_default());
        !is_of_word(before.chars().next_back()) && !is_of_word(after.chars().next())
    })
}

fn is_of_word(c: Option<char>) -> bool {
    c.is_some_and(char::is_alphanumeric)
}

/// Transforms texts of the machine: options, question subjects and answers.
fn change_texts(document: &mut Value, change: &impl Fn(&str) -> String) {
    if let Some(options) = document.get_mut("options") {
        change_answer(options, change);
    }
    for answers in document.get_mut("facts").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let Some(answers) = answers.as_object_mut() else { continue };
        let changed = std::mem::take(answers).into_iter().map(|(subject, mut answer)| {
            change_answer(&mut answer, change);
            (change(&subject), answer)
        });
        *answers = changed.collect();
    }
}

/// Transforms the texts in an answer. Object keys are names in this program.
fn change_answer(answer: &mut Value, change: &impl Fn(&str) -> String) {
    match answer {
        Value::String(text) => *text = change(text),
        Value::Array(values) => values.iter_mut().for_each(|value| change_answer(value, change)),
        Value::Object(values) => values.values_mut().for_each(|value| change_answer(value, change)),
        _ => {}
    }
}

fn each_text(document: &Value, look: &mut impl FnMut(&str)) {
    let look = RefCell::new(look);
    change_texts(&mut document.clone(), &|text| {
        look.borrow_mut()(text);
        text.to_owned()
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_users_are_replaced_wherever_they_stand() {
        let mut document = json!({ "system": "linux", "options": ["--python", "/home/anna-x/env"], "facts": {
            "variable": { "PATH": "/home/anna-x/bin:/home/bert/bin:/usr/bin" },
            "link": { "/home/anna-x/env/python": "../bert/annabert anna-x C:\\Users\\Carla Doe\\x c:\\users\\bert" },
            "metadata": { "/home/nvidia/env/nvidia": { "kind": "File" }, "/x/user2": { "kind": "File" } },
            "entries": { "/data/bert_x": ["my_bert", "venv_bert_2"] },
        }});
        replace(&mut document);
        let text = document.to_string();
        for private in ["anna-x", "bert/bin", "Carla", "Doe", r"users\\bert", "/home/nvidia", "_bert", "bert_"] {
            assert!(!text.contains(private), "{private}: {text}");
        }
        for kept in ["annabert", "/env/nvidia", "\"linux\"", "\"File\"", "\"link\"", "/x/user2"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        // Related paths remain consistent.
        let home = text.split("--python\",\"").nth(1).and_then(|rest| rest.split("/env").next()).unwrap_or_default();
        assert!(home.starts_with("/home/user") && text.contains(&format!("\"{home}/env/python\"")), "{text}");
    }

    #[test]
    fn directories_in_a_home_directory_are_no_users() {
        let file = "home/.local/lib/x";
        for home in ["/x/q/home", "/x/q/home/", "/x/q/Users", "/home/quentin/home", "/x/q/home/.q"] {
            let dir = home.trim_end_matches('/');
            let inside = ["venvx", ".local/lib"].map(|path| format!("{dir}/{path}"));
            let mut document = json!({ "facts": {
                "variable": { "HOME": home },
                "entries": { inside[0].as_str(): ["/home/bert/.local"], inside[1].as_str(): [file] },
            }});
            replace(&mut document);
            let text = document.to_string();
            let new = document["facts"]["variable"]["HOME"].as_str().unwrap().trim_end_matches('/');
            assert!(new.starts_with("/home/user") && !text.contains("quentin") && !text.contains("bert"), "{text}");
            for kept in ["venvx", ".local/lib"] {
                assert!(text.contains(&format!("\"{new}/{kept}\"")), "{kept}: {text}");
            }
            assert!(text.contains(file), "{text}");
        }
    }

    #[test]
    fn secrets_in_urls_are_removed() {
        for (url, expected) in [
            (
                "index-url = https://me:secret@host/simple https://host/?a=b@c",
                "index-url = https://host/simple https://host/",
            ),
            ("x://t@h:1", "x://h:1"),
            ("https://me:pa/ss@host/x", "https://host/x"),
            ("https://conda.host/t/tk-123/channel", "https://conda.host/t/TOKEN/channel"),
            ("pkg @ https://host:8080/a@1.0", "pkg @ https://host:8080/a@1.0"),
        ] {
            let mut document = json!({ "facts": { "contents": { "file": { "Ok": { "text": url } } } } });
            remove_passwords(&mut document);
            assert_eq!(document["facts"]["contents"]["file"]["Ok"]["text"], expected, "{url}");
        }
    }
}
