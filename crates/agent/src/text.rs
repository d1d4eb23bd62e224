//! Errors in a text that a user wrote. Each says where, what, why and what to do, and shows the
//! line.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{
    AnnotationKind, Level, Message, Renderer, Snippet, normalize_untrusted_str,
};

/// One error in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// Where, in bytes of the text.
    pub span: Range<usize>,
    /// What is wrong.
    pub what: String,
    /// Why it is.
    pub why: Option<String>,
    /// What to write instead.
    pub hint: Option<String>,
}

impl TextError {
    /// An error at a place.
    #[must_use]
    pub fn new(span: Range<usize>, what: impl Into<String>) -> Self {
        Self { span, what: what.into(), why: None, hint: None }
    }

    /// The same, with a reason.
    #[must_use]
    pub fn why(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    /// The same, with a way out.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// All errors in a text, in its order; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextErrors {
    /// The name of the text: a file's path.
    pub name: String,
    /// The text.
    pub text: String,
    /// What is wrong.
    pub errors: Vec<TextError>,
}

impl TextErrors {
    /// The errors, in the order of the text.
    #[must_use]
    pub fn new(name: &str, text: &str, mut errors: Vec<TextError>) -> Self {
        errors.sort_by_key(|error| error.span.start);
        Self { name: name.to_owned(), text: text.to_owned(), errors }
    }

    /// Line and column of a place, in bytes; both count from 1, columns in characters.
    #[must_use]
    pub fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or(before);
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }

    fn render(&self, error: &TextError) -> String {
        let note = |name: &'static str, text: &Option<String>| -> Option<Message<'static>> {
            let text = normalize_untrusted_str(text.as_deref()?);
            Some(Level::NOTE.with_name(name).message(text))
        };
        let mark = AnnotationKind::Primary.span(error.span.clone());
        let snippet = Snippet::source(&self.text).path(&self.name).annotation(mark);
        let group = Level::ERROR.primary_title(&error.what).element(snippet);
        let group = group.elements(note("why", &error.why)).elements(note("hint", &error.hint));
        Renderer::plain().render(&[group])
    }
}

impl fmt::Display for TextErrors {
    /// Every error with its line, a blank line between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n\n")?;
            }
            f.write_str(&self.render(error))?;
        }
        Ok(())
    }
}

impl std::error::Error for TextErrors {}

/// The known word that was probably meant, if one is similar enough.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    let near = known.into_iter().map(|k| (strsim::damerau_levenshtein(&word, k), k));
    // At most a third of the letters may be wrong. With more it is probably another word.
    near.filter(|(distance, k)| distance * 3 <= k.len().max(word.len())).min().map(|(_, k)| k)
}

/// An error of the reader of TOML, in a text of `end` bytes.
#[must_use]
pub fn not_toml(error: &toml::de::Error, end: usize) -> TextError {
    TextError::new(error.span().unwrap_or(end..end), error.message())
}

/// An error about an unknown word.
pub(crate) fn unknown(span: Range<usize>, what: &str, word: &str, known: &[&str]) -> TextError {
    let error = TextError::new(span, format!("unknown {what} `{word}`"));
    match nearest(word, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("one of {}", known.join(", "))),
    }
}
