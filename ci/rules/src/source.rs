//! A Rust file without its comments and literals, so that the rules see code only.

/// A file, taken apart.
pub(crate) struct Source {
    /// The code; what was a comment or the inside of a literal is blank. Lines stay where they are.
    code: String,
    /// As `code`, and items under `#[cfg(test)]` are blank as well.
    product: String,
    /// The file as it is.
    text: String,
    /// For each line, whether a part of it is a comment.
    comments: Vec<bool>,
}

impl Source {
    /// Takes `text` apart.
    pub(crate) fn new(text: &str) -> Self {
        let mut lexer = Lexer { text, at: 0, code: Vec::new(), line: 0, comments: vec![false] };
        lexer.run();
        let (code, comments) = (lexer.code, lexer.comments);
        let code = String::from_utf8_lossy(&code).into_owned();
        let product = without_tests(&code);
        Self { code, product, text: text.to_owned(), comments }
    }

    /// The code, without comments and the insides of literals.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// The code that is not only for tests.
    pub(crate) fn product(&self) -> &str {
        &self.product
    }

    /// Number of lines.
    pub(crate) fn nr_lines(&self) -> usize {
        self.text.lines().count()
    }

    /// The lines that have a comment.
    pub(crate) fn comment_lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().zip(&self.comments).filter(|(_, is)| **is).map(|(line, _)| line)
    }

    /// Names of the modules in files of their own that are declared under `#[cfg(test)]`.
    pub(crate) fn test_modules(&self) -> Vec<&str> {
        let parts = self.code.split("#[cfg(test)]").skip(1);
        let name = |part: &'_ str| -> Option<(usize, usize)> {
            let item = part.split([';', '{']).next()?;
            let at = item.rfind("mod ")? + 4;
            part[item.len()..].starts_with(';').then_some((at, item.len()))
        };
        parts.filter_map(|part| name(part).map(|(from, to)| part[from..to].trim())).collect()
    }
}

/// Whether this byte may be part of a name.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The places where the word `word` stands in `code`.
pub(crate) fn words<'c>(code: &'c str, word: &'c str) -> impl Iterator<Item = usize> + 'c {
    let bytes = code.as_bytes();
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = at.checked_sub(1).and_then(|b| bytes.get(b));
        let after = bytes.get(at + word.len());
        !before.is_some_and(|b| is_word(*b)) && !after.is_some_and(|b| is_word(*b))
    })
}

/// The place of the brace that closes the one at `open`; the end, if none does.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn without_tests(code: &str) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let Some(end) = code[at..].find([';', '{']).map(|i| at + i) else { continue };
        let end = if code.as_bytes()[end] == b'{' { closing(code, end) } else { end };
        let item = bytes.iter_mut().take(end + 1).skip(at);
        item.filter(|b| **b != b'\n').for_each(|b| *b = b' ');
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    code: Vec<u8>,
    line: usize,
    comments: Vec<bool>,
}

impl Lexer<'_> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Takes one byte over; blank if it is not code.
    fn take(&mut self, is_code: bool) {
        let Some(&byte) = self.rest().first() else { return };
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
            self.comments.push(false);
            self.code.push(b'\n');
        } else {
            self.code.push(if is_code && byte.is_ascii() { byte } else { b' ' });
        }
    }

    fn run(&mut self) {
        while let Some(&byte) = self.rest().first() {
            let before = self.at.checked_sub(1).map(|b| self.text.as_bytes()[b]);
            match byte {
                b'/' if self.rest().starts_with(b"//") => self.line_comment(),
                b'/' if self.rest().starts_with(b"/*") => self.block_comment(),
                b'"' => self.string(),
                b'r' if !before.is_some_and(|b| is_word(b) && b != b'b') => self.raw_string(),
                b'\'' => self.char_or_lifetime(),
                _ => self.take(true),
            }
        }
    }

    fn comment(&mut self) {
        self.comments[self.line] = true;
        self.take(false);
    }

    fn line_comment(&mut self) {
        while !matches!(self.rest().first(), None | Some(b'\n')) {
            self.comment();
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while !self.rest().is_empty() {
            let rest = self.rest();
            let (opens, closes) = (rest.starts_with(b"/*"), rest.starts_with(b"*/"));
            if opens || closes {
                self.comment();
            }
            self.comment();
            depth += i32::from(opens) - i32::from(closes);
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(true);
        while let Some(&byte) = self.rest().first() {
            match byte {
                b'"' => return self.take(true),
                b'\\' => {
                    self.take(false);
                    self.take(false);
                }
                _ => self.take(false),
            }
        }
    }

    /// `r"..."`, `r#"..."#`; a name that begins with r is left as it is.
    fn raw_string(&mut self) {
        let hashes = self.rest().iter().skip(1).take_while(|b| **b == b'#').count();
        if self.rest().get(1 + hashes) != Some(&b'"') {
            return self.take(true);
        }
        let end = format!("\"{}", "#".repeat(hashes));
        (0..hashes + 2).for_each(|_| self.take(true));
        while !self.rest().is_empty() && !self.rest().starts_with(end.as_bytes()) {
            self.take(false);
        }
        (0..end.len()).for_each(|_| self.take(true));
    }

    /// `'x'`, `'\n'` are literals; `'a` is a lifetime.
    fn char_or_lifetime(&mut self) {
        let rest = &self.text[self.at + 1..];
        let mut chars = rest.chars();
        let first = chars.next();
        let inside = match (first, chars.next()) {
            (Some('\\'), _) => rest.get(2..).and_then(|r| r.find('\'')).map(|end| end + 2),
            (Some(c), Some('\'')) => Some(c.len_utf8()),
            _ => None,
        };
        self.take(true);
        if let Some(len) = inside {
            (0..len).for_each(|_| self.take(false));
            self.take(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        for (text, code) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x{\"", 'b', '\'', '{')"#, r#"f("    ", ' ', '  ', ' ')"#),
            ("r#\"a\"b\"# for", "r#\"   \"# for"),
            ("br\"}\" + bar\"x\"", "br\" \" + bar\" \""),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("'\u{e9}' x", "'  ' x"),
        ] {
            assert_eq!(Source::new(text).code(), code, "{text}");
        }
    }

    #[test]
    fn lines_with_comments() {
        let source = Source::new("a // b\n\"// c\"\n/* d\ne */\nf\n");
        assert_eq!(source.comment_lines().collect::<Vec<_>>(), ["a // b", "/* d", "e */"]);
        assert_eq!(source.nr_lines(), 5);
    }

    #[test]
    fn what_is_for_tests_is_no_product() {
        let source =
            Source::new("a\n#[cfg(test)]\nmod tests { b {} c }\nd\n#[cfg(test)] mod e;\nf");
        let left: Vec<_> = source.product().split_whitespace().collect();
        assert_eq!(left, ["a", "d", "f"]);
        assert_eq!(source.product().lines().count(), 6);
        assert_eq!(source.test_modules(), ["e"]);
    }

    #[test]
    fn words_are_whole() {
        assert_eq!(words("fn fnord _fn fn", "fn").collect::<Vec<_>>(), [0, 13]);
    }
}
