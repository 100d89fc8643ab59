//! Writes a comparison as a self-contained HTML page without scripts.

use std::fmt::Write;

use super::comparison::{Row, has_same_bits, largest_error, status, working_plan};
use super::request::Report;

const STYLE: &str = "body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}\
    td,th{border:1px solid #ccc;padding:4px 8px;text-align:left;vertical-align:top}.worse{background:#fdd}";

/// Returns the page. `before` and `after` name the releases.
#[must_use]
pub fn html(rows: &[Row], before: &str, after: &str) -> String {
    let (before, after) = (escape(before), escape(after));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>cuDNN {before} and {after}</title>\n\
         <style>{STYLE}</style>\n<h1>cuDNN {before} and {after}</h1>\n<p>{} of {} graphs became worse.</p>\n<table>\n\
         <tr><th>graph<th>release<th>status<th>engine<th>workspace<th>build<th>time<th>largest error<th>same bits\
         <th>changes</tr>\n",
        rows.iter().filter(|row| row.is_worse()).count(),
        rows.len()
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
        let same = has_same_bits(&row.before, &row.after).map_or("", |same| if same { "yes" } else { "no" });
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "<tr{class}><td rowspan=2>{}<br><code>{}</code>{}<td rowspan=2>{same}<td rowspan=2>{}</tr>",
            escape(&row.label),
            escape(&row.graph),
            cells(&before, &row.before),
            changes.join("<br>")
        );
        let _ = writeln!(page, "<tr{class}>{}</tr>", cells(&after, &row.after));
    }
    page.push_str("</table></html>\n");
    page
}

/// Returns the cells of a report, after the name of the release.
fn cells(release: &str, report: &Report) -> String {
    let plan = working_plan(report);
    let of = |text: Option<String>| escape(&text.unwrap_or_default());
    format!(
        "<td>{release}<td>{}<td>{}<td>{}<td>{}<td>{}<td>{}",
        escape(status(report)),
        of(plan.map(|plan| plan.engine.index.to_string())),
        of(plan.map(|plan| plan.workspace.to_string())),
        of(plan.map(|plan| format!("{:.1} ms", plan.build_us as f64 / 1e3))),
        of(plan.and_then(|plan| plan.time_ms).map(|time| format!("{time:.4} ms"))),
        of(largest_error(report).map(|error| format!("{error:.3}"))),
    )
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_capture_cannot_add_elements() {
        let hostile = "<script>alert('1')</script>\"&";
        let report = Report { status: hostile.to_owned(), reason: Some(hostile.to_owned()), ..Report::default() };
        let row = Row::new(hostile.to_owned(), hostile.to_owned(), Report::default(), report);
        let page = html(&[row], hostile, hostile);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
    }
}
