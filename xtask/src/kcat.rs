//! kcat, a Kafka client on librdkafka, for interop tests: the one in PATH, or Debian's packages unpacked under the
//! target folder, which needs no root and installs nothing.

use crate::{process, workspace};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where tests find the program, and the folders of its libraries (for `LD_LIBRARY_PATH`; empty when it needs none).
pub(crate) const PROGRAM: &str = "KSTREAMS_KCAT";
pub(crate) const LIBRARIES: &str = "KSTREAMS_KCAT_LIBS";

/// What every Debian system has, and what must fit its loader: never taken from a package.
const FROM_THE_SYSTEM: [&str; 4] = ["libc6", "libgcc-s1", "gcc-", "libcrypt1"];

const WITHOUT_IT: &str = "kcat is missing: install it (Debian: apt-get install kcat; macOS: brew install kcat), \
    or set KSTREAMS_KCAT to its path";

/// kcat, ready to run.
pub(crate) struct Kcat {
    pub(crate) program: PathBuf,
    pub(crate) libraries: OsString,
}

/// Finds kcat, or unpacks it.
pub(crate) fn prepare() -> Result<Kcat, String> {
    if let Some(program) = std::env::var_os(PROGRAM) {
        let libraries = std::env::var_os(LIBRARIES).unwrap_or_default();
        return Ok(Kcat { program: program.into(), libraries });
    }
    for name in ["kcat", "kafkacat"] {
        if let Some(program) = in_path(name) {
            return Ok(Kcat { program, libraries: OsString::new() });
        }
    }
    if in_path("apt-get").is_none() || in_path("dpkg-deb").is_none() {
        return Err(WITHOUT_IT.to_owned());
    }
    let home = workspace::target().join("kcat");
    if !home.join("kcat").is_file() {
        unpack(&home).map_err(|why| format!("{WITHOUT_IT}\n({why})"))?;
    }
    let libraries = library_folders(&home);
    Ok(Kcat { program: home.join("kcat"), libraries })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The packages are fetched into a folder that is renamed when it is complete.
fn unpack(home: &Path) -> Result<(), String> {
    let new = home.with_file_name(format!("kcat.{}", std::process::id()));
    let _ = fs::remove_dir_all(&new);
    fs::create_dir_all(new.join("root")).map_err(|why| format!("{}: {why}", new.display()))?;
    let packages = packages(&new)?;
    let mut download = apt(&new, "apt-get", ["download", "-q"]);
    download.args(&packages).current_dir(&new);
    process::quietly(download, "apt-get could not fetch kcat")?;
    for file in files_ending(&new, ".deb")? {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(&file).arg(new.join("root"));
        process::quietly(command, "dpkg-deb could not unpack kcat")?;
        fs::remove_file(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    }
    write_wrapper(&new.join("kcat"))?;
    let mut version = Command::new(new.join("kcat"));
    version.arg("-V");
    process::quietly(version, "the unpacked kcat does not run")?;
    // Another xtask may have been faster: then its folder is as good.
    match fs::rename(&new, home) {
        Err(why) if !home.join("kcat").is_file() => Err(format!("{}: {why}", home.display())),
        Err(_) => fs::remove_dir_all(&new).map_err(|why| format!("{}: {why}", new.display())),
        Ok(()) => Ok(()),
    }
}

/// kcat and the libraries it needs, by name.
fn packages(new: &Path) -> Result<Vec<String>, String> {
    let known = |new: &Path| {
        let mut show = apt(new, "apt-cache", ["show", "kcat"]);
        show.stdout(Stdio::null()).stderr(Stdio::null());
        process::run(show).is_ok_and(|status| status.success())
    };
    if !known(new) {
        // The system has no lists yet, and filling its own needs root: these are ours.
        fs::create_dir_all(new.join("lists/partial")).map_err(|why| why.to_string())?;
        process::quietly(apt(new, "apt-get", ["update", "-q"]), "apt-get update failed")?;
    }
    let only_needed = [
        "--no-recommends",
        "--no-suggests",
        "--no-conflicts",
        "--no-breaks",
        "--no-replaces",
        "--no-enhances",
    ];
    let mut depends = apt(new, "apt-cache", ["depends", "--recurse"]);
    depends.args(only_needed).arg("kcat");
    Ok(package_names(&process::output(depends)?))
}

/// `apt-cache depends --recurse` names each package at the beginning of a line; what is offered by others is in <>.
fn package_names(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()))
        .map(|line| line.trim().to_owned())
        .filter(|name| !FROM_THE_SYSTEM.iter().any(|system| name.starts_with(system)))
        .collect()
}

fn apt(new: &Path, program: &str, args: [&str; 2]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C");
    // Without this apt-get, run by root, complains that its own user cannot write here.
    command.args(["-o", "APT::Sandbox::User=root"]);
    if new.join("lists").is_dir() {
        let option = |name: &str, to: &str| format!("{name}={}", new.join(to).display());
        command.args(["-o", &option("Dir::State::lists", "lists")]);
        command.args(["-o", &option("Dir::Cache", "cache")]);
    }
    command
}

fn files_ending(dir: &Path, end: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|why| format!("{}: {why}", dir.display()))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(paths.filter(|path| path.to_string_lossy().ends_with(end)).collect())
}

/// A script beside the packages that finds them wherever the folder is moved.
fn write_wrapper(file: &Path) -> Result<(), String> {
    let script = "#!/bin/sh\n\
        root=$(cd \"$(dirname \"$0\")\" && pwd)/root\n\
        for dir in \"$root\"/usr/lib/*-linux-* \"$root\"/lib/*-linux-* \"$root/usr/lib\"; do\n\
        \x20 LD_LIBRARY_PATH=\"$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"\n\
        done\n\
        export LD_LIBRARY_PATH\n\
        exec \"$root/usr/bin/kcat\" \"$@\"\n";
    fs::write(file, script)
        .and_then(|()| fs::set_permissions(file, fs::Permissions::from_mode(0o755)))
        .map_err(|why| format!("{}: {why}", file.display()))
}

fn library_folders(home: &Path) -> OsString {
    let mut folders = Vec::new();
    for parent in ["root/usr/lib", "root/lib"] {
        let found = files_ending(&home.join(parent), "").unwrap_or_default();
        folders.extend(found.into_iter().filter(|path| path.to_string_lossy().contains("-linux-")));
    }
    folders.sort();
    std::env::join_paths(folders).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::package_names;

    #[test]
    fn packages_are_the_lines_at_the_margin() {
        let text = "kcat\n  Depends: libc6\n  Depends: librdkafka1\nlibc6\nlibrdkafka1\n  Depends: \
                    <debconf-2.0>\n    debconf\n<debconf-2.0>\ngcc-12-base\n";
        assert_eq!(package_names(text), ["kcat", "librdkafka1"]);
    }
}
