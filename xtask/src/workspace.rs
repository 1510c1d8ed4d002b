//! Where things are: the repository, the target folder, the files that git knows.

use crate::process;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository's folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.parent().map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Where cargo builds, and where downloads and results of ours go.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// A cargo command in the repository's folder.
pub(crate) fn cargo<const N: usize>(args: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    // `cargo run` sets these for xtask itself: passed on, they would make cargo build crates again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_")) {
            command.env_remove(name);
        }
    }
    command.env_remove("CARGO_MANIFEST_DIR").env_remove("CARGO_MANIFEST_PATH");
    command
}

/// The files of the repository, tracked or about to be, without those that git ignores.
pub(crate) fn files() -> Result<Vec<PathBuf>, String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    command.current_dir(root());
    let text = process::output(command)?;
    let mut files: Vec<PathBuf> = text
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect();
    files.sort();
    files.dedup();
    Ok(files)
}

/// Whether a package of the workspace has a library: cargo refuses `--lib` for one without.
pub(crate) fn has_library(package: &str) -> Result<bool, String> {
    let name = format!("name = \"{package}\"");
    let manifest = files()?.into_iter().map(|file| root().join(file)).find(|file| {
        file.file_name().is_some_and(|file| file == "Cargo.toml")
            && std::fs::read_to_string(file).is_ok_and(|text| text.lines().any(|line| line == name))
    });
    let folder = manifest.as_deref().and_then(Path::parent);
    Ok(folder.is_some_and(|folder| folder.join("src/lib.rs").is_file()))
}
