//! Writes a comparison as a self-contained HTML page without scripts.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use cudnn_os::escape::one_line;

use super::comparison::{self, ComparisonRow};
use super::request::ReplayReport;

const GENERATOR: &str = "cudnn-lab replay";

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}\
    td,th{border:1px solid #ccc;padding:4px 8px;text-align:left;vertical-align:top}.worse{background:#fdd}";

/// Returns whether a file that starts with these bytes is a page of `replay`.
pub fn is_page(start: &[u8]) -> bool {
    is_page_of(GENERATOR, start)
}

/// Returns whether a file that starts with these bytes is a page of this command.
pub fn is_page_of(generator: &str, start: &[u8]) -> bool {
    start.starts_with(first_bytes(generator).as_bytes())
}

fn first_bytes(generator: &str) -> String {
    format!("<!DOCTYPE html>\n<html lang=\"en\"><meta name=\"generator\" content=\"{generator}\">")
}

/// Returns the start of a page: the title, today's date (UTC), these paragraphs, and the capture's problems.
pub fn open(generator: &str, title: &str, paragraphs: Vec<String>, problems: &[String]) -> String {
    let title = escape(title);
    let mut page = format!(
        "{}<meta charset=\"utf-8\"><title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n<p>{}</p>\n",
        first_bytes(generator),
        date(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()))
    );
    for paragraph in paragraphs {
        page.push_str(&format!("<p>{}</p>\n", escape(&paragraph)));
    }
    for problem in problems {
        page.push_str(&format!("<p class=\"worse\">Problem of the capture: {}</p>\n", escape(problem)));
    }
    page
}

/// Returns the page about two releases with these titles. The notes are facts about both, such as the device, and the
/// problems are the unreadable parts of the capture.
pub fn html(titles: &[String; 2], rows: &[ComparisonRow], notes: &[String], problems: &[String]) -> String {
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    let mut paragraphs = vec![format!("{worse} of {} graphs became worse.", rows.len())];
    paragraphs.extend_from_slice(notes);
    let [before, after] = titles;
    let mut page = open(GENERATOR, &format!("cuDNN {before} and {after}"), paragraphs, problems);
    page.push_str(
        "<table>\n<tr><th>graph<th>release<th>status<th>engine<th>workspace<th>build<th>time<th>largest error\
         <th>same bits<th>changes</tr>\n",
    );
    for row in rows {
        let class = if row.is_worse() { " class=\"worse\"" } else { "" };
        let changes: Vec<String> = row
            .changes
            .iter()
            .map(|change| {
                let mark = if change.is_worse { "<b>worse</b>: " } else { "" };
                format!("{mark}{:?} {}", change.aspect, escape(&change.text))
            })
            .collect();
        let same = row.has_same_bits.map_or("", |same| if same { "yes" } else { "no" });
        let _ = writeln!(
            page,
            "<tr{class}><td rowspan=2>{}<br><code>{}</code>{}<td rowspan=2>{same}<td rowspan=2>{}</tr>",
            escape(&row.label),
            escape(&row.graph),
            cells(before, &row.before),
            changes.join("<br>")
        );
        let _ = writeln!(page, "<tr{class}>{}</tr>", cells(after, &row.after));
    }
    page.push_str("</table></html>\n");
    page
}

fn cells(release: &str, report: &ReplayReport) -> String {
    let [status, engine, workspace, build, time, error] = comparison::cells(report).map(|cell| escape(&cell));
    let reason = report.reason.as_ref().map_or(String::new(), |reason| format!("<br>{}", escape(reason)));
    let release = escape(release);
    format!("<td>{release}<td>{status}{reason}<td>{engine}<td>{workspace}<td>{build}<td>{time}<td>{error}")
}

/// Returns the date for a number of seconds since 1970, such as `2026-11-25`.
fn date(seconds: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut days = seconds / 86_400;
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02}", days + 1)
}

/// Escapes markup, and characters that are invisible, change the text direction, or are not allowed in XML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => escaped.extend(c.escape_unicode()),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::request::Engines;
    use super::*;

    #[test]
    fn text_from_a_capture_cannot_add_elements() {
        let hostile = "<script>alert('1')</script>\"&\u{1b}\u{202e}\u{2028}";
        let report = ReplayReport { reason: Some(hostile.to_owned()), ..ReplayReport::default() };
        let row = ComparisonRow::new(
            hostile.to_owned(),
            hostile.to_owned(),
            &Engines::First,
            ReplayReport::default(),
            report,
        );
        let texts = [hostile.to_owned()];
        let page = html(&[hostile; 2].map(str::to_owned), &[row], &texts, &texts);
        assert!(is_page(page.as_bytes()) && !is_page(b"<!DOCTYPE html>\n<html lang=\"en\">"));
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
        assert!(!page.contains(['\u{1b}', '\u{202e}', '\u{2028}']) && page.contains(r"\u{1b}\u{202e}\u{2028}"));
        for text in ["Problem of the capture: &lt;script", "<p>&lt;script", "<br>&lt;script"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn seconds_become_dates() {
        let dates = [0, 68_169_599, 68_169_600, 951_782_400, 951_868_800, 1_767_225_599, 1_795_564_800];
        let expected =
            ["1970-01-01", "1972-02-28", "1972-02-29", "2000-02-29", "2000-03-01", "2025-12-31", "2026-11-25"];
        assert_eq!(dates.map(date), expected);
    }
}
