//! `cargo xtask recipes`: tries each page of `docs/recipes` with the real program.
//!
//! *The idea.* A recipe promises that a few commands and a few lines of configuration do something. Here
//! they do it: nodes run as processes on loopback, each block runs at its node as it is written, a script in
//! a comment plays the outside world, and another looks at what has come. What cannot be there in a test (a
//! device, an address) is replaced by what the page names.

mod page;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::{Failure, debian, media, place};
use page::Recipe;
use stage::Stage;

const FOLDER: &str = "docs/recipes";

/// Tries the pages with these names, or all.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let media = media::folder()?;
    let program = build()?;
    let pages = pages()?;
    if let Some(word) = arguments
        .iter()
        .find(|word| pages.iter().all(|(name, ..)| name != *word))
    {
        let names: Vec<&str> = pages.iter().map(|(name, ..)| name.as_str()).collect();
        let names = names.join(", ");
        return Err(Failure::Misuse(format!(
            "there is no recipe `{word}`; there are {names}"
        )));
    }
    let chosen = pages
        .iter()
        .filter(|(name, _)| arguments.is_empty() || arguments.contains(name));
    let needs: Vec<(&str, &str)> = pages
        .iter()
        .flat_map(|(_, recipe)| &recipe.needs)
        .map(|(program, package)| (program.as_str(), package.as_str()))
        .collect();
    debian::install("the recipes", &needs);
    let mut broken = Vec::new();
    for (name, recipe) in chosen {
        if let Some((program, package)) =
            recipe.needs.iter().find(|(one, _)| !debian::is_there(one))
        {
            println!("{name}: NOT TRIED, since `{program}` of the package {package} is missing");
            continue;
        }
        let begun = Instant::now();
        match try_out(name, recipe, &[&program, &media]) {
            Ok(()) => println!("{name}: works, {:.0} s", begun.elapsed().as_secs_f64()),
            Err(Failure::Broken(text) | Failure::Misuse(text)) => {
                println!("{name}: {text}");
                broken.push(name.as_str());
            }
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let names = broken.join(", ");
    Err(Failure::Broken(format!(
        "these recipes do not do what they say: {names} (cargo xtask recipes NAME)"
    )))
}

fn try_out(name: &str, recipe: &Recipe, programs: &[&Path]) -> Result<(), Failure> {
    let folder = place::cache()?.join("recipes").join(name);
    Stage::new(folder, programs)?.play(recipe)
}

/// Reads all pages with something to try, by name.
fn pages() -> Result<Vec<(String, Recipe)>, Failure> {
    let folder = place::root().join(FOLDER);
    let entries = fs::read_dir(&folder);
    let entries = entries.map_err(|error| place::failed("cannot read", &folder, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut pages = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file);
        let text = text.map_err(|error| place::failed("cannot read", &file, &error))?;
        let name = file.file_stem().unwrap_or_default().display().to_string();
        let read = page::read(&text);
        let read = read.map_err(|why| Failure::Broken(format!("{}: {why}", file.display())))?;
        pages.extend(read.map(|recipe| (name, recipe)));
    }
    Ok(pages)
}

/// Builds the program; returns its folder.
fn build() -> Result<PathBuf, Failure> {
    let mut cargo = place::cargo();
    // The targets of the build step: other targets would cause a second build.
    cargo.args(["build", "--quiet", "--locked", "--message-format=json"]);
    let messages = place::output(cargo.args(["--workspace", "--all-targets"]))?;
    let program = place::program(&messages, "thalweg")?;
    Ok(program.parent().unwrap_or(Path::new(".")).to_path_buf())
}
