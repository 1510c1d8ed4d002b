//! `cargo xtask`: the project's own commands. Everything that CI does is `cargo xtask test`.
//!
//! No record passes through here: xtask starts compilers, the Java reference and brokers, and reads what they print.
#![expect(clippy::print_stdout, reason = "a command-line tool talks on its standard output")]

mod args;
mod bench;
mod broker;
mod conformance;
mod java;
mod kcat;
mod oracle;
mod parity;
mod process;
mod test;
mod tidy;
mod workspace;

use args::Args;
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask COMMAND

  test [STEP…]         everything that CI does: fmt tidy clippy features doc test cluster parity oracle, on Kafka
                       brokers that it starts and stops; KSTREAMS_TEST_BOOTSTRAP=HOST:PORT takes a running one for the
                       step test; cluster kills three brokers in turn, under load
      --quick          only what needs no Java and no broker: fmt tidy clippy and the unit tests
      -p PACKAGE       clippy, doc and test only for this package
  oracle [NAME…]       compares topologies with the real Kafka Streams, line by line
      --seeds N        seeds 1 to N (20)
      --count N        input lines a seed (200)
      --release        with the optimized build
  parity               compares the list of Java's methods and ours with the classes of the real Kafka
      --write          makes PARITY.md and the documentation's page of it
  tidy                 the rules of the code that rustfmt and clippy do not know
  broker start         starts a Kafka broker on 127.0.0.1 that stays
  broker stop          stops it
      --port N         its port (9092)
      --brokers N      so many brokers in one cluster (1)
      --kafka VERSION  this Kafka (4.4.0)
      --dir DIR        its data (under the target folder)
  bench                ours beside Java 4.4 on the same data, release build, on a broker of its own
      --workload W     map, count, recount (behind a repartition topic), window (a count in windows), tablejoin,
                       streamjoin or restore (a count's store)
      --records N      so many records (3000000)
      --keys N         of so many keys (500000; streamjoin 10000)
      --guarantee G    at_least_once (the default) or exactly_once_v2
      --pairs N        medians of so many pairs of runs (5)
      --quick          Java only without a record cache, and 2 pairs
      --bootstrap B    on a broker that is there, HOST:PORT
  bench client [N]     the raw client beside librdkafka, N records (5000000)
  bench engine         a task without Kafka: records through operators and a count";

fn main() -> ExitCode {
    process::stop_children_on_signals();
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let result = run(&command, words.collect());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, words: Vec<String>) -> Result<(), String> {
    match command {
        "test" => test::run(&test::Options::parse(Args::new(words))?),
        "oracle" => oracle::run(&oracle::Options::parse(Args::new(words))?),
        "parity" => parity::run(&parity::Options::parse(Args::new(words))?),
        "tidy" => {
            Args::new(words).end()?;
            tidy::run()
        }
        "broker" => broker::command(Args::new(words)),
        "bench" => bench::command(words),
        "" | "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("there is no command '{other}'\n\n{USAGE}")),
    }
}
