//! Nothing that lands names one machine or one registry: who builds this may have other folders and a mirror.

use super::{File, Finding};

/// Beginnings of absolute paths that exist on somebody's machine only.
const FOLDERS: [&str; 5] = ["/work/", "/root/", "/home/", "/Users/", "/tmp/"];

/// Hosts of package registries; cut in two, so that this file does not name them.
const HOSTS: [&str; 8] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("registry.npmjs", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("maven.apache", ".org"),
    concat!("deb.debian", ".org"),
    concat!("static.rust-lang", ".org"),
];

/// Returns the lines that name a machine's folder or a registry's host.
pub fn check(file: &File) -> Vec<Finding> {
    // Cargo writes the lock file, and names its registry there whatever mirror serves it.
    if file.path.ends_with("Cargo.lock") || file.path == "xtask/src/tidy/leaks.rs" {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        for folder in FOLDERS.into_iter().filter(|folder| absolute(line, folder)) {
            let text = format!(
                "a path under `{folder}` exists on one machine only: name it from the root, or from a variable"
            );
            findings.push(Finding::new(&file.path, at + 1, text));
        }
        for host in HOSTS.into_iter().filter(|host| line.contains(host)) {
            let text = format!(
                "`{host}` names a registry's host: name the package and let its client find it"
            );
            findings.push(Finding::new(&file.path, at + 1, text));
        }
    }
    findings
}

/// Whether the folder begins a path here, rather than lying inside one (`docs/work/`, `https://host/home/`).
fn absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"/.-_~$}".contains(c))
    })
}
