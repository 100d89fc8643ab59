//! Formats tables that fit the width of the terminal.

pub use comfy_table::Table;
use comfy_table::{ContentArrangement, presets};

/// Creates an empty table. Cells wrap if stdout is a terminal that is too narrow.
pub fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    if let Some((width, _)) = terminal_size::terminal_size_of(std::io::stdout()) {
        table.set_width(width.0);
    }
    table
}
