//! Writes the report as a web page.

use std::fmt::Write;

use cudnn_replay::replay::page::{self, escape};
use cudnn_store::choices::{Choice, Ranking};

use super::summary::{TuneSummary, default, reachable};
use super::text::{gain_text, place_text, remarks, sentences, time_of, workspace};

const GENERATOR: &str = "cudnn-lab tune";

pub(super) fn is_page(start: &[u8]) -> bool {
    page::is_page_of(GENERATOR, start)
}

/// Returns the page, which contains today's date (UTC).
pub(super) fn html(summary: &TuneSummary<'_>, problems: &[String]) -> String {
    let place = place_text(summary.place);
    let mut page = page::open(GENERATOR, &format!("Tuned engines for {place}"), sentences(summary), problems);
    page.push_str(
        "<table>\n<tr><th>graph<th>executions<th>default<th>time<th>tuned<th>time<th>gain<th>workspace<th>error\
         <th>remarks</tr>\n",
    );
    for ranking in &summary.rankings {
        row(&mut page, ranking);
    }
    for refused in summary.refused {
        let _ = writeln!(
            page,
            "<tr class=\"worse\"><td>{}<br><code>{}</code><td colspan=9>not tuned: {}</tr>",
            escape(&refused.label),
            escape(&refused.graph),
            escape(&refused.reason)
        );
    }
    page.push_str("</table></html>\n");
    page
}

fn row(page: &mut String, ranking: &Ranking) {
    let (default, tuned) = (default(ranking), reachable(ranking));
    let class = if default.is_some_and(Choice::is_dangerous) { " class=\"worse\"" } else { "" };
    let cells = |choice: Option<&Choice>| {
        let name = choice.map_or(String::new(), Choice::to_string);
        format!("<td>{}<td>{}", escape(&name), time_of(choice))
    };
    let remarks: Vec<String> = remarks(ranking).iter().map(|remark| escape(remark)).collect();
    let _ = writeln!(
        page,
        "<tr{class}><td>{}<br><code>{}</code><td>{}{}{}<td>{}<td>{}<td>{}<td>{}</tr>",
        escape(&ranking.label),
        escape(&ranking.graph),
        ranking.executions,
        cells(default),
        cells(tuned),
        gain_text(ranking),
        workspace(tuned),
        tuned.and_then(|choice| choice.error).map_or(String::new(), |error| format!("{error:.3}")),
        remarks.join("<br>")
    );
}
