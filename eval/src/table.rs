//! Tables that are Markdown and can be read as they are: columns are padded.

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns. The first is set left, the others right.
    pub(crate) fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { rows: vec![columns.into_iter().map(Into::into).collect()] }
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| {
            self.rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(|c| width(c).max(3)).collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            for (c, w) in widths.iter().copied().enumerate() {
                let cell = row.get(c).map_or("", String::as_str);
                let padded =
                    if c == 0 { format!("| {cell:<w$} ") } else { format!("| {cell:>w$} ") };
                text.push_str(&padded);
            }
            text.push_str("|\n");
            if i == 0 {
                for (c, w) in widths.iter().copied().enumerate() {
                    let line = "-".repeat(w);
                    text.push_str(&if c == 0 {
                        format!("| {line} ")
                    } else {
                        format!("| {}: ", &line[1..])
                    });
                }
                text.push_str("|\n");
            }
        }
        text
    }
}

/// A number, or a dash where there is none.
pub(crate) fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |v| format!("{v:.digits$}"))
}

/// A size in MiB.
pub(crate) fn mib(bytes: Option<f64>) -> String {
    number(bytes.map(|b| b / f64::from(1 << 20)), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_padded() {
        let mut t = Table::new(["what", "n"]);
        t.row(["a".into(), number(Some(1.25), 1)]);
        t.row(["longer".into(), number(None, 1)]);
        assert_eq!(
            t.text(),
            "| what   |   n |\n| ------ | --: |\n| a      | 1.2 |\n| longer |   - |\n"
        );
    }
}
