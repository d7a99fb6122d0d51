//! Where a recipe is tried: a folder, its nodes as processes, and what runs beside them.
//!
//! Each process is the head of a group, so that a script's own children end with it. Whatever happens, all
//! groups are killed when the stage is dropped.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::page::Recipe;
use crate::{Failure, place};

/// How long a recipe may take until it has worked: most of it is waiting for plans.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How long processes have to end when asked.
const END: Duration = Duration::from_secs(10);

/// A folder with running nodes.
pub struct Stage {
    folder: PathBuf,
    /// The folders in front of `PATH`: the program's and FFmpeg's.
    path: String,
    nodes: Vec<Child>,
    scripts: Vec<(String, Child)>,
}

impl Stage {
    /// Makes an empty stage; the program `thalweg` stands in the first of `programs`.
    pub fn new(folder: PathBuf, programs: &[&Path]) -> Result<Self, Failure> {
        // What an earlier try has left.
        let _ = fs::remove_dir_all(&folder);
        let made = fs::create_dir_all(&folder);
        made.map_err(|error| place::failed("cannot make", &folder, &error))?;
        let mut path: Vec<String> = programs
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        path.push(std::env::var("PATH").unwrap_or_default());
        Ok(Self {
            folder,
            path: path.join(":"),
            nodes: Vec::new(),
            scripts: Vec::new(),
        })
    }

    /// Tries a recipe.
    ///
    /// Fails   with what its processes printed
    pub fn play(&mut self, recipe: &Recipe) -> Result<(), Failure> {
        self.configure(recipe)?;
        if !recipe.prepare.is_empty() {
            self.spawn("prepare", &recipe.prepare, &self.folder.clone(), None)?;
            let (_, script) = self.scripts.last_mut().expect("it was added");
            let status = script.wait();
            if !status.is_ok_and(|status| status.success()) {
                return Err(self.broken("what the recipe needs could not be prepared"));
            }
        }
        for node in &recipe.nodes {
            self.start(node)?;
        }
        for (node, script) in &recipe.scripts {
            self.spawn(node, script, &self.folder.join(node), Some(node))?;
        }
        if !recipe.feed.is_empty() {
            self.spawn("feed", &recipe.feed, &self.folder.clone(), None)?;
        }
        let begun = Instant::now();
        while !self.holds(&recipe.expect)? {
            if begun.elapsed() > PATIENCE {
                return Err(self.broken("what the recipe promises has not come"));
            }
            sleep(LOOK);
        }
        Ok(())
    }

    /// Writes the keys and configurations.
    fn configure(&self, recipe: &Recipe) -> Result<(), Failure> {
        let mut addresses = Vec::new();
        let mut keys = Vec::new();
        // Held until all are chosen, so that no two are the same.
        let mut sockets = Vec::new();
        for node in &recipe.nodes {
            let folder = self.folder.join(node);
            let made = fs::create_dir_all(&folder);
            made.map_err(|error| place::failed("cannot make", &folder, &error))?;
            let socket = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
                let address = socket.local_addr()?;
                Ok((socket, address))
            });
            let (socket, address) =
                socket.map_err(|error| place::failed("no port for", &folder, &error))?;
            sockets.push(socket);
            addresses.push(address);
            let mut id = self.command("thalweg");
            id.args(["id", "--key", "key"]).current_dir(&folder);
            keys.push(place::output(&mut id)?.trim().to_owned());
        }
        for (at, node) in recipe.nodes.iter().enumerate() {
            let mut text = format!(
                "name = \"{node}\"\nkey_file = \"key\"\nlisten = [\"{}\"]\nsocket = \"sock\"\n\
                 [api]\nenabled = false\n[reach]\nconfined = true\n",
                addresses[at]
            );
            for (other, peer) in recipe.nodes.iter().enumerate() {
                if other == at {
                    continue;
                }
                let is_linked = if recipe.is_star {
                    at == 0 || other == 0
                } else {
                    at.abs_diff(other) == 1
                };
                let _ = write!(
                    text,
                    "[[peer]]\nname = \"{peer}\"\nkey = \"{}\"\ntrusted = true\nconnect = {is_linked}\n",
                    keys[other]
                );
                // One end of each link dials.
                if is_linked && other < at {
                    let _ = writeln!(text, "addresses = [\"{}\"]", addresses[other]);
                }
            }
            if let Some(more) = recipe.configurations.get(node) {
                text += more;
            }
            let file = self.folder.join(node).join("node.toml");
            let written = fs::write(&file, text);
            written.map_err(|error| place::failed("cannot write", &file, &error))?;
        }
        Ok(())
    }

    /// Starts a node and waits until it listens.
    fn start(&mut self, node: &str) -> Result<(), Failure> {
        let folder = self.folder.join(node);
        let log = self.log(node)?;
        let mut command = self.command("thalweg");
        command
            .args(["node", "--config", "node.toml"])
            .current_dir(&folder)
            .stdout(Stdio::piped())
            .stderr(log);
        let child = command.process_group(0).spawn();
        let mut child = child.map_err(|error| place::failed("cannot start", &folder, &error))?;
        let mut line = String::new();
        let out = child.stdout.take().expect("it is piped");
        let read = BufReader::new(out).read_line(&mut line);
        self.nodes.push(child);
        if read.is_err() || !line.starts_with(node) {
            return Err(self.broken(&format!("the node {node} does not start")));
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        name: &str,
        script: &str,
        folder: &Path,
        node: Option<&str>,
    ) -> Result<(), Failure> {
        let log = self.log(name)?;
        let mut command = self.command("bash");
        command
            .args(["-c", script])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(
                log.try_clone()
                    .map_err(|error| place::failed("cannot log to", folder, &error))?,
            )
            .stderr(log)
            .process_group(0);
        if let Some(node) = node {
            command.env("THALWEG_SOCKET", self.folder.join(node).join("sock"));
        }
        let child = command.spawn();
        let child =
            child.map_err(|error| place::failed("cannot run a script in", folder, &error))?;
        self.scripts.push((name.to_owned(), child));
        Ok(())
    }

    /// Returns whether the check succeeds now.
    fn holds(&self, expect: &str) -> Result<bool, Failure> {
        let mut command = self.command("bash");
        command
            .args(["-e", "-c", expect])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let status = command.status();
        let status =
            status.map_err(|error| place::failed("cannot run", Path::new("bash"), &error))?;
        Ok(status.success())
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path).env("LC_ALL", "C.UTF-8");
        command
    }

    fn log(&self, name: &str) -> Result<fs::File, Failure> {
        let path = self.folder.join(format!("{name}.log"));
        let file = fs::File::options().create(true).append(true).open(&path);
        file.map_err(|error| place::failed("cannot write", &path, &error))
    }

    /// Makes the failure, with the end of what each process printed.
    fn broken(&self, what: &str) -> Failure {
        let mut text = what.to_owned();
        let logs = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let logs = logs.map(|entry| entry.path());
        for path in logs.filter(|path| path.extension().is_some_and(|end| end == "log")) {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(12)..];
            let name = path.file_name().unwrap_or_default().display();
            let _ = write!(text, "\n--- {name}\n{}", last.join("\n"));
        }
        Failure::Broken(text)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let scripts = self.scripts.drain(..).map(|(_, child)| child);
        let groups: Vec<Child> = scripts.chain(self.nodes.drain(..)).collect();
        for child in &groups {
            signal(child, "INT");
        }
        let begun = Instant::now();
        for mut child in groups {
            while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < END {
                sleep(Duration::from_millis(20));
            }
            signal(&child, "KILL");
            let _ = child.wait();
        }
    }
}

/// Sends a signal to a process and its children.
fn signal(child: &Child, name: &str) {
    let group = format!("-{}", child.id());
    let mut kill = Command::new("kill");
    kill.args(["-s", name, "--", &group]).stderr(Stdio::null());
    let _ = kill.status();
}
