//! What a program's `--help` says it knows: subcommands and flags, as clap prints them.

/// The words that one `--help` page offers.
#[derive(Debug, Default, Clone)]
pub struct Help {
    /// Subcommands.
    pub commands: Vec<String>,
    /// Flags with their dashes, and whether a value follows.
    pub flags: Vec<(String, bool)>,
}

impl Help {
    /// Reads a help page.
    pub fn read(text: &str) -> Help {
        let mut help = Help::default();
        let mut section = "";
        for line in text.lines() {
            let word = line.trim_start();
            if !line.starts_with(' ') && line.ends_with(':') {
                section = line;
            } else if section == "Commands:" {
                // Deeper lines go on with what the command is for.
                let named = line.starts_with("  ") && !line.starts_with("   ");
                help.commands.extend(
                    word.split_whitespace()
                        .next()
                        .filter(|_| named)
                        .map(str::to_owned),
                );
            } else if word.starts_with('-') {
                help.flags.extend(flags(word));
            }
        }
        help
    }

    /// Says whether the flag takes a value; `None` if there is no such flag.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.flags
            .iter()
            .find(|(flag, _)| flag == name)
            .map(|(_, valued)| *valued)
    }
}

/// Reads the head of a line like `-c, --config <FILE>  What it is`.
fn flags(line: &str) -> Vec<(String, bool)> {
    let head = line.split("  ").next().unwrap_or(line);
    let valued = head.contains('<');
    let words = head
        .split([' ', ',', '=', '['])
        .filter(|word| word.starts_with('-') && word.len() > 1);
    words
        .map(|word| (word.trim_end_matches('.').to_owned(), valued))
        .collect()
}
