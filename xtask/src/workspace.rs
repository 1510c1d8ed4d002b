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

/// A package of the workspace.
struct Package {
    name: String,
    folder: PathBuf,
    manifest: String,
}

fn packages() -> Result<Vec<Package>, String> {
    let files = files()?;
    let manifests = files.iter().filter(|file| file.ends_with("Cargo.toml"));
    Ok(manifests.filter_map(|file| package(&root().join(file))).collect())
}

fn package(file: &Path) -> Option<Package> {
    let manifest = std::fs::read_to_string(file).ok()?;
    let name = package_name(&manifest)?;
    Some(Package { name, folder: file.parent()?.to_path_buf(), manifest })
}

/// The first `name` of a manifest is the package's.
fn package_name(manifest: &str) -> Option<String> {
    let line = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    manifest.contains("[package]").then(|| line.trim_matches('"').to_owned())
}

/// Whether a package has a library: cargo refuses `--lib` for one without.
pub(crate) fn has_library(name: &str) -> Result<bool, String> {
    let package = packages()?.into_iter().find(|package| package.name == name);
    Ok(package.is_some_and(|package| package.folder.join("src/lib.rs").is_file()))
}

/// The packages under `crates` that can be built without something that is on by default.
pub(crate) fn packages_with_features() -> Result<Vec<String>, String> {
    let crates = root().join("crates");
    let has_default = |package: &Package| {
        package.folder.starts_with(&crates)
            && package.manifest.lines().any(|line| line.starts_with("default = ["))
    };
    Ok(packages()?.into_iter().filter(has_default).map(|package| package.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_package_is_found_in_its_workspace() {
        assert_eq!(has_library("xtask"), Ok(false));
        assert_eq!(has_library("kstreams"), Ok(true));
        assert!(packages_with_features().unwrap().contains(&"kstreams".to_owned()));
    }
}
