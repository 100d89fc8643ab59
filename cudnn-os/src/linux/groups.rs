//! Finds groups without users.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

const MAX_LEN: u64 = 4 << 20;

/// Returns whether a group, such as Debian's `staff`, has no members and is not a primary group. This is known only if
/// the files in `/etc` list all users.
pub(super) fn is_empty(group: u32) -> bool {
    static EMPTY: OnceLock<BTreeSet<u32>> = OnceLock::new();
    let read =
        || Some(empty_groups(&text_of("/etc/nsswitch.conf")?, &text_of("/etc/passwd")?, &text_of("/etc/group")?));
    EMPTY.get_or_init(|| read().unwrap_or_default()).contains(&group)
}

fn text_of(file: &str) -> Option<String> {
    let Ok(file) = File::open(file) else { return Some(String::new()) };
    let mut text = String::new();
    file.take(MAX_LEN + 1).read_to_string(&mut text).ok()?;
    (text.len() as u64 <= MAX_LEN).then_some(text)
}

fn empty_groups(sources: &str, users: &str, groups: &str) -> BTreeSet<u32> {
    if !are_only_files(sources) {
        return BTreeSet::new();
    }
    let primary: BTreeSet<u32> = users.lines().filter_map(|line| line.split(':').nth(3)?.parse().ok()).collect();
    // NAME:PASSWORD:NUMBER:MEMBERS
    let parsed = groups.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.trim().is_empty()))
    });
    let parsed: BTreeSet<(u32, bool)> = parsed.collect();
    // Two lines may have the same number.
    let is_empty = |group: &u32| !primary.contains(group) && !parsed.contains(&(*group, false));
    parsed.iter().map(|(group, _)| *group).filter(is_empty).collect()
}

/// Returns whether `nsswitch.conf` selects no network service for users or groups. systemd only adds service users.
fn are_only_files(sources: &str) -> bool {
    let is_user_database = |name: &str| ["passwd", "group", "initgroups"].contains(&name.trim());
    let lines = sources.lines().filter_map(|line| line.split('#').next()?.split_once(':'));
    let mut named =
        lines.filter(|(name, _)| is_user_database(name)).flat_map(|(_, sources)| sources.split_whitespace());
    named.all(|source| ["files", "systemd"].contains(&source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_without_users_is_empty() {
        let files = "passwd: files systemd # local\nhosts: dns\n";
        let users = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:100::/home/me:/bin/sh\n";
        let groups = "root:x:0:\nstaff:x:50:\nusers:x:100:\nvideo:x:44:me\nvideo2:x:44:\ndocker:x:99:me,you\n";
        assert_eq!(empty_groups(files, users, groups), BTreeSet::from([50]));
        assert_eq!(empty_groups("", users, groups), BTreeSet::from([50]));
        assert!(empty_groups("group: files sss\n", users, groups).is_empty());
        assert!(empty_groups(files, users, "").is_empty());
    }
}
