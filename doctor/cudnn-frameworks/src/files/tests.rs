#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use super::*;

#[test]
fn a_star_matches_any_characters() {
    for (pattern, name, expected) in [
        ("_C.*so", "_C.cpython-312-x86_64-linux-gnu.so", true),
        ("_C.*so", "_C.so", true),
        ("_C.*so", "_C", false),
        ("lib*-*.so*", "libctranslate2-bc15bf3f.so.4.5.0", true),
        ("lib*-*.so*", "libctranslate2.so.4", false),
        ("a*", "a", true),
        ("a*a", "a", false),
    ] {
        assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
    }
}

#[test]
fn a_text_is_found_across_blocks_but_not_outside_the_part() {
    const NAME: &[u8] = b"libcudnn";
    let path = std::env::temp_dir().join(format!("cudnn-frameworks-blocks-{}", std::process::id()));
    for at in [0, BLOCK_LEN - 4, BLOCK_LEN, 2 * BLOCK_LEN - 1] {
        let mut file = File::create(&path).unwrap();
        file.write_all(&[&vec![b'l'; at][..], NAME, b"x"].concat()).unwrap();
        let file = File::open(&path).unwrap();
        let is_in = |part| contains(&file, &part, NAME, |_, _| true).unwrap();
        let (start, end) = (at as u64, (at + NAME.len()) as u64);
        assert_eq!((is_in(0..end), is_in(start..end)), (true, true), "{at}");
        assert_eq!((is_in(0..end - 1), is_in(start + 1..end + 1)), (false, false), "{at}");
    }
    std::fs::remove_file(&path).unwrap();
}
