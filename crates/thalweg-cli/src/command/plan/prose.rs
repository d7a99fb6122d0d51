//! Wraps sentences for a terminal of 80 columns.

/// The usual width of a terminal.
const COLUMNS: usize = 80;

/// Wraps lines at spaces to the terminal's width; continuation lines are indented under the text's
/// beginning.
pub(in crate::command) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let words = line.trim_start_matches([' ', '-']);
        let indent = line.chars().count() - words.chars().count();
        out.extend(line.chars().take(indent));
        let mut column = indent;
        for word in words.split(' ') {
            let wide = word.chars().count();
            if column > indent && column + 1 + wide > COLUMNS {
                out.push('\n');
                out.push_str(&" ".repeat(indent.max(2)));
                column = indent.max(2);
            } else if column > indent {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += wide;
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    //! Proves that lines are wrapped only where necessary and that no word is lost.

    use super::{COLUMNS, folded};

    #[test]
    fn lines_wrap_at_words_and_indent() {
        let text = format!("- {}\nshort\n", "word ".repeat(40).trim_end());
        let folded = folded(&text);
        assert!(folded.lines().all(|line| line.chars().count() <= COLUMNS));
        assert!(
            folded
                .lines()
                .nth(1)
                .is_some_and(|line| line.starts_with("  word"))
        );
        assert!(folded.ends_with("\nshort\n"));
        assert_eq!(
            folded.split_whitespace().count(),
            text.split_whitespace().count()
        );
    }

    #[test]
    fn short_text_stays_unchanged() {
        for text in ["a b  c\n", "  deep\n", "\n"] {
            assert_eq!(folded(text), text);
        }
    }
}
