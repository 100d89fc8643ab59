//! A table that is printed row by row, while the lab works or if there are many rows.

use std::fmt::{Display, Write};

use cudnn_cli::escape::Printable;
use cudnn_cli::output::outln;

/// A table with graph ids in the first column.
pub(crate) struct StreamTable {
    /// The names and usual widths of the columns. Longer values move the rest of the line.
    columns: Vec<(&'static str, usize)>,
    has_header: bool,
    has_heading: bool,
}

impl StreamTable {
    pub(crate) fn new<'a>(
        graphs: impl Iterator<Item = &'a str>,
        columns: impl IntoIterator<Item = (&'static str, usize)>,
    ) -> Self {
        let width = graphs.map(|id| id.printable().chars().count()).max().unwrap_or_default();
        let columns = std::iter::once(("graph", width)).chain(columns);
        let columns = columns.map(|(name, width)| (name, width.max(name.len()))).collect();
        StreamTable { columns, has_header: false, has_heading: false }
    }

    /// Prints the heading when it is known, and the names of the columns before the first row.
    pub(crate) fn head(&mut self, heading: Option<String>) {
        if let Some(heading) = heading.filter(|_| !self.has_heading) {
            outln!("{heading}");
            self.has_heading = true;
        }
        if !self.has_header {
            self.print(self.columns.iter().map(|(name, _)| name));
            self.has_header = true;
        }
    }

    pub(crate) fn print(&self, cells: impl IntoIterator<Item = impl Display>) {
        let mut line = String::new();
        for (cell, (_, width)) in cells.into_iter().zip(&self.columns) {
            let _ = write!(line, " {cell:<width$} ");
        }
        outln!("{}", line.trim_end());
    }
}
