//! Other programs: each is started in a process group of its own, waited for, and ended by its id.
//!
//! A group of its own means that Ctrl-C reaches only xtask, which then ends every group and leaves; so a test program
//! that a cargo started ends too. What must be put in order after xtask, however it died, is a guard's work
//! (`broker.rs`).

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What a program gets to end by itself before it is killed.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// The process groups that run now.
static GROUPS: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn groups() -> MutexGuard<'static, BTreeSet<u32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Now, for the time a step took: the only clock of xtask.
#[expect(clippy::disallowed_methods, reason = "a tool that shows how long its steps took")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// From here on Ctrl-C, TERM and HUP end the children first, then xtask.
pub(crate) fn stop_children_on_signals() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = match signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(why) => {
            eprintln!("warning: Ctrl-C may leave programs running: {why}");
            return;
        }
    };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Kept until the end, so that nobody starts another child now.
            let running = groups();
            eprintln!("\nstopped by a signal: ending what was started");
            for group in running.iter() {
                signal_group(*group, "TERM");
            }
            std::process::exit(128 + signal);
        }
    });
}

fn signal_group(group: u32, signal: &str) {
    // The standard library ends only one child, and only by force. The shell's own `kill` ends a group politely, and
    // is there where the program of that name is not.
    let _ = Command::new("sh")
        .args(["-c", &format!("kill -s {signal} -- -{group}")])
        .stderr(Stdio::null())
        .status();
}

/// A child that leaves the list of groups when it is gone.
struct Running {
    child: Child,
}

impl Running {
    fn start(mut command: Command) -> Result<Running, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.process_group(0);
        let mut groups = groups();
        let child = command.spawn().map_err(|why| cannot_start(&name, &why))?;
        groups.insert(child.id());
        Ok(Running { child })
    }

    fn wait(mut self) -> Result<ExitStatus, String> {
        let status = self.child.wait();
        groups().remove(&self.child.id());
        status.map_err(|why| format!("waiting for a program failed: {why}"))
    }

    /// Waits for its end, or ends it and its group after `limit`.
    fn wait_until(self, limit: Duration) -> Result<Ended, String> {
        let group = self.child.id();
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(self.wait()));
        match ended.recv_timeout(limit) {
            Ok(status) => {
                // A grandchild that stays would keep the pipe, and us, forever.
                signal_group(group, "TERM");
                status.map(Ended::With)
            }
            Err(_) => {
                signal_group(group, "TERM");
                if ended.recv_timeout(TIME_TO_END).is_err() {
                    signal_group(group, "KILL");
                }
                Ok(Ended::OutOfTime)
            }
        }
    }
}

fn cannot_start(name: &str, why: &std::io::Error) -> String {
    if why.kind() == std::io::ErrorKind::NotFound {
        format!("'{name}' is not there: install it, or put it in PATH")
    } else {
        format!("'{name}' cannot be started: {why}")
    }
}

/// Runs it with our output, without input.
pub(crate) fn run(mut command: Command) -> Result<ExitStatus, String> {
    command.stdin(Stdio::null());
    Running::start(command)?.wait()
}

/// Runs it with our output; anything but success is an error that says `what` went wrong.
pub(crate) fn succeed(command: Command, what: &str) -> Result<(), String> {
    let status = run(command)?;
    if status.success() { Ok(()) } else { Err(format!("{what} ({status})")) }
}

/// Its standard output as text; its errors go where ours go.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running::start(command)?;
    let text = read_all(running.child.stdout.take());
    let status = running.wait()?;
    match text {
        _ if !status.success() => Err(format!("'{name}' ended with {status}: look above")),
        Ok(text) => Ok(text),
        Err(why) => Err(format!("what '{name}' printed cannot be read: {why}")),
    }
}

fn read_all(pipe: Option<impl Read>) -> std::io::Result<String> {
    let mut text = String::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Runs it with everything that it prints kept back; the error holds all of it.
pub(crate) fn quietly(mut command: Command, what: &str) -> Result<(), String> {
    let (reader, writer) = std::io::pipe().map_err(|why| format!("no pipe: {why}"))?;
    let copy = writer.try_clone().map_err(|why| format!("no pipe: {why}"))?;
    command.stdin(Stdio::null()).stdout(copy).stderr(writer);
    // The command holds the writing ends until it is started, and it is consumed by that.
    let running = Running::start(command)?;
    let text = read_all(Some(reader)).unwrap_or_default();
    let status = running.wait()?;
    if status.success() { Ok(()) } else { Err(format!("{what} ({status}):\n{}", text.trim_end())) }
}

/// How a watched program ended.
pub(crate) enum Ended {
    /// By itself.
    With(ExitStatus),
    /// It was ended when its time was over.
    OutOfTime,
}

/// Runs it, gives each line of its standard output to `line`, and ends it after `limit`.
pub(crate) fn watch(
    mut command: Command,
    limit: Duration,
    mut line: impl FnMut(&str) + Send,
) -> Result<Ended, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut running = Running::start(command)?;
    let stdout = running.child.stdout.take();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let Some(stdout) = stdout else { return };
            let mut lines = BufReader::new(stdout).split(b'\n');
            while let Some(Ok(bytes)) = lines.next() {
                line(&String::from_utf8_lossy(&bytes));
            }
        });
        running.wait_until(limit)
    })
}

/// What a program printed, kept back.
pub(crate) struct Printed {
    pub(crate) output: String,
    pub(crate) errors: String,
    pub(crate) ended: Ended,
}

/// Runs it with the input that it has, keeps what it prints, and ends it after `limit`.
pub(crate) fn capture(mut command: Command, limit: Duration) -> Result<Printed, String> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(command)?;
    let (stdout, stderr) = (running.child.stdout.take(), running.child.stderr.take());
    std::thread::scope(|scope| {
        let output = scope.spawn(move || read_all(stdout));
        let errors = scope.spawn(move || read_all(stderr));
        let ended = running.wait_until(limit)?;
        let text = |thread: std::thread::ScopedJoinHandle<'_, std::io::Result<String>>| {
            let read = thread.join().unwrap_or_else(|_| Ok(String::new()));
            read.map_err(|why| format!("what a program printed cannot be read: {why}"))
        };
        Ok(Printed { output: text(output)?, errors: text(errors)?, ended })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_is_given_line_by_line() {
        let mut lines = Vec::new();
        let ended = watch(shell("echo a; echo b; exit 3"), Duration::from_secs(60), |line| {
            lines.push(line.to_owned());
        });
        assert!(matches!(ended, Ok(Ended::With(status)) if status.code() == Some(3)));
        assert_eq!(lines, ["a", "b"]);
    }

    #[test]
    fn a_program_without_end_is_ended_with_its_children() {
        let command = shell("sleep 1000 & sleep 1000");
        let ended = watch(command, Duration::from_millis(50), |_| {});
        assert!(matches!(ended, Ok(Ended::OutOfTime)));
    }

    #[test]
    fn what_failed_is_shown() {
        let result = quietly(shell("echo out; echo err >&2; exit 1"), "it failed");
        let why = result.unwrap_err();
        assert!(why.starts_with("it failed"), "{why}");
        assert!(why.contains("out") && why.contains("err"), "{why}");
    }

    #[test]
    fn what_was_printed_before_the_end_is_kept() {
        let command = shell("echo out; echo err >&2; exec sleep 1000");
        let printed = capture(command, Duration::from_millis(300)).unwrap();
        assert!(matches!(printed.ended, Ended::OutOfTime));
        let printed = capture(shell("echo out; echo err >&2"), Duration::from_secs(60)).unwrap();
        assert_eq!((&*printed.output, &*printed.errors), ("out\n", "err\n"));
    }

    #[test]
    fn a_missing_program_is_named() {
        let why = run(Command::new("no-such-program-here")).unwrap_err();
        assert!(why.contains("'no-such-program-here'") && why.contains("install"), "{why}");
    }
}
