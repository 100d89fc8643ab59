//! A line of a child's output, as a finding shows it.

/// The characters that are kept of the beginning and of the end of a line.
const MAX_LINE_PART: usize = 300;

/// The beginning and the end of a long line.
pub(super) fn shortened(line: &str) -> String {
    let count = line.chars().count();
    let omitted = count.saturating_sub(2 * MAX_LINE_PART);
    if omitted == 0 {
        return line.to_owned();
    }
    let beginning: String = line.chars().take(MAX_LINE_PART).collect();
    let end: String = line.chars().skip(count - MAX_LINE_PART).collect();
    format!("{beginning} ... ({omitted} characters) ... {end}")
}
