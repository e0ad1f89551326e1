//! Words as nvcc cuts them from options files and from `NVCC_PREPEND_FLAGS` / `NVCC_APPEND_FLAGS`.
//!
//! Measured on nvcc 13.0.88: space, tab, CR and LF separate words (vertical tab and form feed do not), double quotes
//! group, a backslash takes the next byte as it is (inside quotes too), single quotes and `#` mean nothing. An open
//! quote or a backslash at the very end is fatal (`Stray '"' character`).

use std::ops::Range;

/// One word and where it stands in the text it was cut from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The word with its quoting undone.
    pub text: Vec<u8>,
    /// The bytes of the source text that spell it; empty for words of argv.
    pub span: Range<usize>,
}

/// Cuts `text` into words; `None` when a quote stays open or the text ends in a backslash.
pub fn split(text: &[u8]) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut current: Option<Word> = None;
    let mut quoted = false;
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if !quoted && matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            words.extend(current.take());
            at += 1;
            continue;
        }
        let word = current.get_or_insert_with(|| Word { text: Vec::new(), span: at..at });
        match byte {
            b'"' => quoted = !quoted,
            b'\\' => {
                at += 1;
                word.text.push(*text.get(at)?);
            }
            other => word.text.push(other),
        }
        at += 1;
        word.span.end = at;
    }
    if quoted {
        return None;
    }
    words.extend(current);
    Some(words)
}

/// Spells `word` so that [`split`] gives it back.
pub fn quote(word: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'\\');
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in word {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(text: &[u8]) -> Vec<Vec<u8>> {
        split(text).unwrap().into_iter().map(|w| w.text).collect()
    }

    #[test]
    fn double_quotes_and_backslashes_group_and_single_quotes_do_not() {
        assert_eq!(texts(br#"a "b c"d e\ f 'g h' # "" i"#), [&b"a"[..], b"b cd", b"e f", b"'g", b"h'", b"#", b"", b"i"]);
        assert_eq!(texts(b"a\r\nb\x0bc"), [&b"a"[..], b"b\x0bc"]);
        assert_eq!(texts(br#""C:\dir""#), [b"C:dir"]);
    }

    #[test]
    fn an_open_quote_or_a_last_backslash_is_no_text_that_nvcc_would_take() {
        assert!(split(b"a \"b").is_none());
        assert!(split(b"a \\").is_none());
    }

    proptest! {
        #[test]
        fn quoting_is_undone_by_splitting(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..6)) {
            let text = words.iter().map(|w| quote(w)).collect::<Vec<_>>().join(&b' ');
            prop_assert_eq!(texts(&text), words);
        }

        #[test]
        fn spans_cover_the_words_and_nothing_panics(text in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(words) = split(&text) {
                for word in words {
                    prop_assert_eq!(&split(&text[word.span.clone()]).unwrap()[0].text, &word.text);
                }
            }
        }
    }
}
